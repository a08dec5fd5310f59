"""Checks of options of mechanisms and of truthfulness searches."""

from __future__ import annotations

from collections.abc import Iterable

from mmfl.config import short
from mmfl.errors import InputError

__all__ = ["check_choice", "check_count", "check_flag"]


def check_choice(value: object, known: Iterable[str], name: str) -> None:
    """Refuse a value that is not one of the known ones."""
    if not isinstance(value, str) or value not in known:
        words = " or ".join(repr(word) for word in known)
        raise InputError(f"{name} must be {words}, got {short(value)}")


def check_count(value: object, name: str) -> None:
    """Refuse anything but a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number, got {short(value)}")
    if value < 1:
        raise InputError(f"{name} must be at least 1, got {value}")


def check_flag(value: object, name: str) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {short(value)}")
