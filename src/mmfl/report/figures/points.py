"""Named points in a plane, with whiskers: two numbers about each of several things."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmfl.report.figures.page import fix_layout, make_page, name_ends
from mmfl.report.figures.style import STRONG, own_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Point", "draw_points"]

_MARKS = "osD^vPX*"
_HEIGHT = 4.2  # inches


@dataclass(frozen=True)
class Point:
    """Two numbers, each with the ends of its interval; NaN ends are not drawn."""

    x: float
    y: float
    across: tuple[float, float] = (math.nan, math.nan)
    upright: tuple[float, float] = (math.nan, math.nan)


def draw_points(
    points: Mapping[str, Point], *, labels: tuple[str, str], title: str = "", foot: str = ""
) -> Figure:
    """All points on one page, with their names at the right.

    Args:
        points: By name.
        labels: Of the axes, x first.
        title: Of the page.
        foot: A sentence below the plot.
    """
    with own_style():
        page = make_page(_HEIGHT, title=title, foot=foot)
        axes = page.add_axes((0.08, 0.16, 0.62, 0.74))
        page.set_layout_engine("none")
        dots = [_draw(axes, point, number) for number, point in enumerate(points.values())]
        axes.set(xlabel=labels[0], ylabel=labels[1])
        axes.grid(visible=True)
        axes.margins(0.08)
        name_ends(page, axes, _shorten(list(points)), dots)
        return fix_layout(page)  # type: ignore[no-any-return]


def _draw(axes: Any, point: Point, number: int) -> Any:
    again, colour = divmod(number, len(STRONG))
    look = {"color": STRONG[colour]}
    thin = look | {"linewidth": 0.8, "alpha": 0.6}
    if not any(map(math.isnan, point.across)):
        axes.plot(point.across, [point.y] * 2, **thin)
    if not any(map(math.isnan, point.upright)):
        axes.plot([point.x] * 2, point.upright, **thin)
    mark = _MARKS[again % len(_MARKS)]
    (dot,) = axes.plot([point.x], [point.y], marker=mark, markersize=6, linestyle="", **look)
    return dot


def _shorten(names: Sequence[str]) -> list[str]:
    return [name if len(name) <= 34 else f"{name[:33]}…" for name in names]
