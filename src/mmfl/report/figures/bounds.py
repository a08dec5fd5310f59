"""A picture of measured errors beside the bounds on them, panel by panel, on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.page import Page, own_style
from mmfl.report.figures.panels import GREY, INK, RULE, STRONG
from mmfl.report.figures.saving import check_path, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Panel", "draw_bounds", "save_bounds"]

Floats = npt.NDArray[np.float64]

_WIDTH, _LEFT, _RIGHT, _EDGE = 8.0, 0.5, 7.84, 0.16
_TITLE, _NAME, _TEXT, _SMALL = 11.0, 9.0, 8.0, 7.5
_PLOT, _GAP, _BROKEN = 1.5, 0.54, "#F9D5C8"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.4)), (0, (4, 1.3, 1, 1.3)))


@dataclass(frozen=True, eq=False)
class Panel:
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
    panels: Sequence[Panel], path: str | Path, *, title: str = "", foot: str = ""
) -> Path:
    """Draw the picture of `draw_beside_bounds` into a file: .png, .svg or .pdf.

    Args:
        panels: What to show, three in a row.
        path: Where to; a file that is there is replaced.
        title: Above all.
        foot: Below all, e.g. "20 seeds".
    """
    check_path(path)
    return save(draw_bounds(panels, title=title, foot=foot), path)


def draw_bounds(panels: Sequence[Panel], *, title: str = "", foot: str = "") -> Figure:
    """A panel for each measured curve: its mean, two standard errors around it, and its bounds.

    Where a bound lies below the mean, what is between them is coloured.
    """
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    names = list(dict.fromkeys(name for panel in panels for name in panel.bounds))
    with own_style():
        page = Page(_WIDTH, 1.0)
        width = (_RIGHT - _LEFT - _GAP * (columns - 1)) / columns
        told = [page.folded(panel.told, width + 0.3, _SMALL) for panel in panels]
        notes = page.folded(foot, _RIGHT - _LEFT, _TEXT)
        head = 0.28 + page.line(_SMALL) * max(map(len, told))
        row = head + _PLOT + 0.44
        keys = _keys(page, names, any(panel.broken for panel in panels))
        above = 0.42 * bool(title) + 0.22 * len(keys) + 0.16
        below = _EDGE + page.line(_TEXT) * len(notes)
        page.resize(above + rows * row + below)
        if title:
            page.write(_LEFT - 0.3, page.top - 0.32, title, _TITLE, weight="bold", color=INK)
        for number, line in enumerate(keys):
            _key(page, line, names, page.top - above + 0.22 * (len(keys) - number) - 0.1)
        for number, (panel, lines) in enumerate(zip(panels, told, strict=True)):
            left = _LEFT + number % columns * (width + _GAP)
            top = page.top - above - number // columns * row - 0.2
            page.write(left - 0.3, top, panel.title, _NAME, weight="bold", color=INK)
            page.write_lines(left - 0.3, top - 0.15, lines, _SMALL, color=GREY)
            axes = page.axes(left, top + 0.14 - head - _PLOT, width, _PLOT)
            alike = [p for p in panels if p is panel or p.scale == panel.scale is not None]
            low, high = zip(*(other.decades for other in alike), strict=True)
            _paint(axes, panel, names, min(low), max(high))
        page.write_lines(_LEFT - 0.3, below - 0.14, notes, _TEXT, color=GREY)
    return page.figure


def _look(names: Sequence[str], name: str) -> dict[str, Any]:
    number = names.index(name)
    return {
        "color": STRONG[number % len(STRONG)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "linewidth": 1.5,
    }


def _keys(page: Page, names: Sequence[str], broken: bool) -> list[list[str]]:
    """What the lines mean, in as few lines as they take."""
    rows: list[list[str]] = [[]]
    room = _RIGHT - _LEFT + 0.3
    for text in ("measured", *names, *(["a bound below the truth"] if broken else [])):
        taken = sum(page.width(t, _TEXT) + 0.52 for t in rows[-1])
        if rows[-1] and taken + page.width(text, _TEXT) + 0.34 > room:
            rows.append([])
        rows[-1].append(text)
    return rows


def _key(page: Page, row: Sequence[str], names: Sequence[str], y: float) -> None:
    from matplotlib.patches import Rectangle

    x = _LEFT - 0.3
    for text in row:
        if text in names:
            page.space.plot([x, x + 0.28], [y + 0.04] * 2, **_look(names, text))
        elif text == "measured":
            page.space.plot([x, x + 0.28], [y + 0.04] * 2, color=INK, linewidth=1.8)
        else:
            page.space.add_patch(Rectangle((x, y - 0.02), 0.28, 0.12, facecolor=_BROKEN))
        page.write(x + 0.34, y, text, _TEXT, color=INK)
        x += 0.52 + page.width(text, _TEXT)


def _paint(axes: Any, panel: Panel, names: Sequence[str], low: int, high: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    t, mean = panel.t, panel.mean
    axes.set(xscale="log", yscale="log", xlim=(t[0], max(t[-1], 2 * t[0])))
    axes.set_ylim(10.0**low, 10.0**high)
    for bound in panel.bounds.values():
        axes.fill_between(
            t, bound, mean, where=bound < mean, color=_BROKEN, linewidth=0, interpolate=True
        )
    for name, bound in panel.bounds.items():
        axes.plot(t, bound, **_look(names, name))
    axes.fill_between(t, *panel.band, color=INK, alpha=0.18, linewidth=0)
    axes.plot(t, mean, color=INK, linewidth=1.8)
    step = max(1, math.ceil((high - low) / 5))
    powers = range(math.ceil(np.log10(t[0])), 1 + math.floor(np.log10(t[-1])))
    axes.xaxis.set_major_locator(FixedLocator([10.0**k for k in powers]))
    axes.yaxis.set_major_locator(FixedLocator([10.0**k for k in range(low, high + 1, step)]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(labelsize=_SMALL, length=0, colors=GREY, pad=3)
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.set_xlabel(panel.rounds, fontsize=_SMALL, color=GREY, labelpad=1)
