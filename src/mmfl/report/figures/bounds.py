"""A figure of measured errors and the bounds on them, panel by panel, on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.page import WIDTH, fix_layout, format_power, make_page, set_heads
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import BROKEN, INK, STRONG, get_line_look, own_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "MEASURED",
    "BoundPanel",
    "BoundedCurve",
    "draw_bounds",
    "find_decades",
    "get_bound_looks",
    "save_bounds",
]

Floats = npt.NDArray[np.float64]
Look = Mapping[str, Any]

MEASURED: Look = {"color": INK, "linewidth": 1.8}


@dataclass(frozen=True, eq=False)
class BoundedCurve:
    """A measured curve, two standard errors around it, and bounds on it, on logarithmic axes.

    Attributes:
        x: (n) ascending and > 0.
        mean: (n) over seeds.
        error: (n) its standard error.
        bounds: From a bound's name to its values (n).
    """

    x: Floats
    mean: Floats
    error: Floats
    bounds: Mapping[str, Floats]

    @property
    def broken(self) -> bool:
        """Whether a bound lies below the mean anywhere."""
        return any((bound < self.mean).any() for bound in self.bounds.values())

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Two standard errors on either side; on a logarithmic axis not to 0."""
        return np.maximum(self.mean - 2 * self.error, self.mean / 4), self.mean + 2 * self.error

    @property
    def shown(self) -> tuple[Floats, ...]:
        """The values of everything that is drawn."""
        return (*self.band, *self.bounds.values())

    def draw(self, axes: Any, looks: Mapping[str, Look], *, ticks: int) -> None:
        """Draw it; where a bound lies below the mean, what is between them is coloured."""
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set(xscale="log", yscale="log")
        for name, bound in self.bounds.items():
            below = bound < self.mean
            axes.fill_between(
                self.x, bound, self.mean, where=below, color=BROKEN, linewidth=0, interpolate=True
            )
            axes.plot(self.x, bound, **looks[name])
        axes.fill_between(self.x, *self.band, color=INK, alpha=0.18, linewidth=0)
        axes.plot(self.x, self.mean, **MEASURED)
        axes.yaxis.set_major_locator(LogLocator(numticks=ticks))
        axes.yaxis.set_major_formatter(format_power)
        axes.yaxis.set_minor_locator(NullLocator())


@dataclass(frozen=True, eq=False)
class BoundPanel:
    """One measured curve, and bounds on it.

    Attributes:
        title: What was measured.
        told: The rest of it, in a line or two.
        t: (n) after how many rounds, ascending and > 0.
        mean: (n) over seeds.
        error: (n) its standard error.
        bounds: From a bound's name, the same in all panels, to its values (n).
        rounds: What the rounds are called that are counted.
        scale: Panels that name the same one share it.
    """

    title: str
    told: str
    t: Floats
    mean: Floats
    error: Floats
    bounds: Mapping[str, Floats]
    rounds: str = "rounds in which it trained"
    scale: str | None = None

    @property
    def curve(self) -> BoundedCurve:
        """The curve with its bounds."""
        return BoundedCurve(self.t, self.mean, self.error, self.bounds)


def save_bounds(
    panels: Sequence[BoundPanel], path: str | Path, *, title: str = "", foot: str = ""
) -> Path:
    """Save the figure of `draw_bounds` to a file: .png, .svg or .pdf.

    Args:
        panels: What to show, three in a row.
        path: Where to; a file that is there is replaced.
        title: Above all.
        foot: Below all, e.g. "20 seeds".
    """
    check_path(path)
    return save(draw_bounds(panels, title=title, foot=foot), path)


def draw_bounds(panels: Sequence[BoundPanel], *, title: str = "", foot: str = "") -> Figure:
    """A panel for each measured curve: its mean, two standard errors around it, and its bounds.

    Where a bound lies below the mean, what is between them is coloured.
    """
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    curves = [panel.curve for panel in panels]
    looks = get_bound_looks(curves)
    with own_style():
        marks = _make_key(looks, any(curve.broken for curve in curves))
        figure = make_page(0.5 + 2.5 * rows, title=title, marks=marks, foot=foot)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(panels) :]:
            axes.remove()
        grid = grid[: len(panels)]
        set_heads(grid, [(panel.title, panel.told) for panel in panels], WIDTH / columns - 0.5)
        for axes, panel, curve in zip(grid, panels, curves, strict=True):
            alike = [p for p in panels if p is panel or p.scale == panel.scale is not None]
            curve.draw(axes, looks, ticks=6)
            axes.set(xlabel=panel.rounds, xlim=(panel.t[0], max(panel.t[-1], 2 * panel.t[0])))
            axes.set(ylim=find_decades(x for other in alike for x in other.curve.shown))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.minorticks_off()
        return fix_layout(figure)  # type: ignore[no-any-return]


def get_bound_looks(curves: Iterable[BoundedCurve]) -> dict[str, Look]:
    """Each bound's colour and dashes: other dashes for every one, as they are often close."""
    names = dict.fromkeys(name for curve in curves for name in curve.bounds)
    return {name: get_line_look(number * (len(STRONG) + 1)) for number, name in enumerate(names)}


def find_decades(curves: Iterable[Floats]) -> tuple[float, float]:
    """The powers of ten between which everything lies."""
    shown = np.concatenate([*curves])
    shown = shown[shown > 0]
    return 10.0 ** math.floor(np.log10(shown.min())), 10.0 ** math.ceil(np.log10(shown.max()))


def _make_key(looks: Mapping[str, Look], broken: bool) -> dict[str, Any]:
    """What the lines mean."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str, Any] = {"measured": Line2D([], [], **MEASURED)}
    marks |= {name: Line2D([], [], **look) for name, look in looks.items()}
    if broken:
        marks["a bound below the truth"] = Patch(color=BROKEN)
    return marks
