"""A figure of measured errors and the bounds on them, panel by panel, on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

__all__ = ["BoundPanel", "draw_bounds", "save_bounds"]

Floats = npt.NDArray[np.float64]


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
    def broken(self) -> bool:
        """Whether a bound lies below the mean anywhere."""
        return any((bound < self.mean).any() for bound in self.bounds.values())

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Two standard errors on either side; on a logarithmic axis not to 0."""
        return np.maximum(self.mean - 2 * self.error, self.mean / 4), self.mean + 2 * self.error

    @property
    def decades(self) -> tuple[int, int]:
        """The powers of ten between which everything lies."""
        shown = np.concatenate([*self.band, *self.bounds.values()])
        shown = shown[shown > 0]
        return math.floor(np.log10(shown.min())), math.ceil(np.log10(shown.max()))


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
    names = list(dict.fromkeys(name for panel in panels for name in panel.bounds))
    looks = {name: _get_look(number) for number, name in enumerate(names)}
    with own_style():
        marks = _make_key(looks, any(panel.broken for panel in panels))
        figure = make_page(0.5 + 2.5 * rows, title=title, marks=marks, foot=foot)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(panels) :]:
            axes.remove()
        grid = grid[: len(panels)]
        set_heads(grid, [(panel.title, panel.told) for panel in panels], WIDTH / columns - 0.5)
        for axes, panel in zip(grid, panels, strict=True):
            alike = [p for p in panels if p is panel or p.scale == panel.scale is not None]
            low, high = zip(*(other.decades for other in alike), strict=True)
            _draw_panel(axes, panel, looks, min(low), max(high))
        return fix_layout(figure)  # type: ignore[no-any-return]


def _get_look(number: int) -> dict[str, Any]:
    """A bound's colour and dashes: other dashes for every one, as they are often close."""
    return get_line_look(number * (len(STRONG) + 1))


def _make_key(looks: Mapping[str, Mapping[str, Any]], broken: bool) -> dict[str, Any]:
    """What the lines mean."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str, Any] = {"measured": Line2D([], [], color=INK, linewidth=1.8)}
    marks |= {name: Line2D([], [], **look) for name, look in looks.items()}
    if broken:
        marks["a bound below the truth"] = Patch(color=BROKEN)
    return marks


def _draw_panel(
    axes: Any, panel: BoundPanel, looks: Mapping[str, Mapping[str, Any]], low: int, high: int
) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    t, mean = panel.t, panel.mean
    for bound in panel.bounds.values():
        axes.fill_between(
            t, bound, mean, where=bound < mean, color=BROKEN, linewidth=0, interpolate=True
        )
    for name, bound in panel.bounds.items():
        axes.plot(t, bound, **looks[name])
    axes.fill_between(t, *panel.band, color=INK, alpha=0.18, linewidth=0)
    axes.plot(t, mean, color=INK, linewidth=1.8)
    axes.set(xscale="log", yscale="log", xlabel=panel.rounds)
    axes.set(xlim=(t[0], max(t[-1], 2 * t[0])), ylim=(10.0**low, 10.0**high))
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(format_power)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
