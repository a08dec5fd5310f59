"""Options of mechanisms, checked."""

from __future__ import annotations

from collections.abc import Iterable

from mmfl.errors import InputError
from mmfl.sentences import short

__all__ = ["choice", "flag"]


def choice(value: object, known: Iterable[str], name: str) -> None:
    """Refuse a value that is none of those known."""
    if not isinstance(value, str) or value not in known:
        words = " or ".join(repr(word) for word in known)
        raise InputError(f"{name} must be {words}, got {short(value)}")


def flag(value: object, name: str) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {short(value)}")
