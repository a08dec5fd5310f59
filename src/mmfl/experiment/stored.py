"""Experiments as run directories store them: plain tables, so that nothing is imported to read."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmfl.config import dump
from mmfl.errors import ConfigError, StoreError
from mmfl.experiment.experiment import Experiment
from mmfl.system.files import SETTINGS, read_text

__all__ = ["read_stored", "read_table"]


def read_table(path: Path) -> dict[str, Any]:
    """A stored experiment's table as it is on disk; `StoreError` if it cannot be read."""
    return _read(path)[0]


def read_stored(path: Path) -> dict[str, Any]:
    """A stored experiment's table with the defaults of today; `StoreError` if it cannot be read."""
    table, text = _read(path)
    with suppress(ConfigError):  # it may name classes, which are not imported for a comparison
        table = dump(Experiment.from_toml(text).resolved())
    return table


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        text = read_text(path, limit=SETTINGS)
        return tomllib.loads(text), text
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"cannot read {str(path)!r}: {reason}") from None
