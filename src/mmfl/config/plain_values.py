"""What the settings of a user's component may be: values that a TOML file can hold."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

from mmfl.config.messages import short
from mmfl.errors import describe_type

__all__ = ["RULE", "are_equal", "find_unstorable"]

RULE = "must be text, a number, true or false, or a list or table of these"

_DEPTH = 50  # levels of lists in lists: fewer than what JSON or TOML can hold
_BITS = 1024  # of a whole number: Python writes and reads such a number at any setting


def find_unstorable(value: Any, depth: int = 0) -> str | None:
    """Which part of a setting cannot be stored, in words; None if all can."""
    if depth > _DEPTH:
        return f"lists that are nested more than {_DEPTH} levels deep, or contain themselves"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return None  # a component in a component: dumped by its own rules
    if isinstance(value, enum.Enum):
        return short(value)
    if isinstance(value, str):
        return None if _is_text(value) else f"{short(value)}, which is not UTF-8 text"
    if isinstance(value, int):
        return None if value.bit_length() <= _BITS else "a whole number with too many digits"
    if value is None or isinstance(value, float):
        return None
    inner: list[Any] = []
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and _is_text(key) for key in value):
            return "a table with keys that are not text"
        inner = list(value.values())
    elif isinstance(value, list | tuple):
        inner = list(value)
    else:
        return describe_type(value)
    found = (find_unstorable(item, depth + 1) for item in inner)
    return next((one for one in found if one is not None), None)


def _is_text(text: str) -> bool:
    return text.isascii() or text == text.encode(errors="replace").decode()


def are_equal(one: Any, other: Any) -> bool:
    """Whether two plain values are equal; NaN is equal to itself."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(are_equal(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)
