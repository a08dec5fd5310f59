"""Whether Flower is installed."""

from __future__ import annotations

from importlib.util import find_spec

from mmfl.errors import InputError

__all__ = ["refuse_missing_flower"]


def refuse_missing_flower() -> None:
    """One sentence if Flower is missing."""
    if find_spec("flwr") is None:
        raise InputError("Flower is not installed; run: pip install 'mmfl[flower]'")
