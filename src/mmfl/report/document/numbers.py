"""Numbers of the content as a page shows them: each is looked up where the data has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mmfl.report.words import number

__all__ = ["STYLES", "as_step", "find", "show"]


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

    A name that may contain a point is in the path as `as_step` has it.
    """
    for step in path.split("."):
        if isinstance(content, Mapping):
            content = content[step.replace("~1", ".").replace("~0", "~")]
        else:
            content = content[int(step)]
    return content


def as_step(name: str) -> str:
    """A name as a step of a path: ``a.b`` is ``a~1b``, as in a JSON pointer."""
    return name.replace("~", "~0").replace(".", "~1")


def show(value: float | None, style: str) -> str:
    """A number in a style; "-" if it is not known."""
    if value is None or not math.isfinite(value):
        return "-"
    return STYLES[style](value)
