"""Numbers of the content as a page shows them: each is looked up where the data has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mmfl.report.words import number

__all__ = ["STYLES", "find", "show"]


_NOTHING = 1e-9
"""Amounts of money that differ by less are equal."""


def _count(value: float) -> str:
    whole = float(value).is_integer() or value >= 1000
    return f"{value:,.0f}" if whole else f"{value:,.1f}"


def _money(value: float) -> str:
    """An amount with three significant digits or three decimals; a whole one without decimals."""
    if abs(value - round(value)) < _NOTHING or abs(value) >= 1000:
        return f"{round(value):,}"
    if abs(value) < 0.0095:
        return f"{value:.2g}"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def _seconds(value: float) -> str:
    if value >= 7200:
        return f"{value / 3600:,.1f} h"
    if value >= 120:
        return f"{value / 60:.1f} min"
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


STYLES: dict[str, Callable[[float], str]] = {
    "share": lambda value: number(value, 3),
    "variance": lambda value: number(value, 4),
    "signed": lambda value: number(value, 3, sign=True),
    "signed_variance": lambda value: number(value, 4, sign=True),
    "rounds": lambda value: number(value, 1),
    "signed_rounds": lambda value: number(value, 1, sign=True),
    "percent": lambda value: f"{value:.0%}",
    "count": _count,
    "money": lambda value: _money(float(value)),
    "seconds": _seconds,
    "plain": lambda value: f"{value:g}",
}
"""How numbers are shown."""


def find(content: Any, path: str) -> Any:
    """What is at a place of the content, such as ``chapters.0.turns.1.share.2``.

    Names may contain points: the longest that fits is taken.
    """
    if not path:
        return content
    if isinstance(content, Mapping):
        key = max((key for key in content if path == key or path.startswith(f"{key}.")), key=len)
        return find(content[key], path[len(key) + 1 :])
    place, _, rest = path.partition(".")
    return find(content[int(place)], rest)


def show(value: float | None, style: str) -> str:
    """A number in a style; "-" if it is not known."""
    if value is None or not math.isfinite(value):
        return "-"
    return STYLES[style](value)
