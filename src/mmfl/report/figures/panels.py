"""Small plots side by side on one page: lines over rounds, bars, maps of who trained what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.page import WIDTH, fix_layout, fold, make_page
from mmfl.report.figures.style import BOLD, DASHES, GREY, PALE, STRONG, get_line_look, own_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AgainstPanel", "BarPanel", "LinePanel", "MapPanel", "SmallPanel", "draw_panels"]

Floats = npt.NDArray[np.float64]

_HEIGHT = 1.75  # inches of a row of panels


@dataclass(frozen=True)
class LinePanel:
    """Values over rounds, by name: a row per seed. The mean is a line, lowest to highest a band."""

    title: str
    curves: Mapping[str, Floats]
    label: str = "accuracy"
    steps: str = "round"

    def draw(self, axes: Any, looks: Mapping[str, Mapping[str, Any]]) -> None:
        """Draw it."""
        for name, rows in self.curves.items():
            rounds = np.arange(1, rows.shape[1] + 1)
            if len(rows) > 1:
                band = {"color": looks[name]["color"], "alpha": 0.13, "linewidth": 0}
                axes.fill_between(rounds, rows.min(axis=0), rows.max(axis=0), **band)
            axes.plot(rounds, rows.mean(axis=0), **{**looks[name], "linewidth": 1.2})
        longest = max(rows.shape[1] for rows in self.curves.values())
        axes.set(xlim=(min(1, longest - 1), longest), xlabel=self.steps, ylabel=self.label)
        axes.locator_params(axis="x", nbins=5, integer=True, min_n_ticks=1)
        axes.locator_params(axis="y", nbins=5)


@dataclass(frozen=True)
class BarPanel:
    """Groups of bars, by name: a row per seed, a column per group. Whiskers: lowest to highest."""

    title: str
    groups: Sequence[str]
    values: Mapping[str, Floats]
    label: str = "variance"

    def draw(self, axes: Any, looks: Mapping[str, Mapping[str, Any]]) -> None:
        """Draw it."""
        width = 0.8 / len(self.values)
        for place, (name, rows) in enumerate(self.values.items()):
            mean = rows.mean(axis=0)
            ends = [mean - rows.min(axis=0), rows.max(axis=0) - mean]
            at = np.arange(len(self.groups)) + (place - (len(self.values) - 1) / 2) * width
            whiskers = {"ecolor": GREY, "elinewidth": 0.7, "capsize": 1.5}
            look = {"color": looks[name]["color"], "alpha": 0.75}
            axes.bar(at, mean, width * 0.9, yerr=ends if len(rows) > 1 else None,
                     error_kw=whiskers, **look)  # fmt: skip
        axes.set_xticks(range(len(self.groups)), self.groups)
        axes.set(xlabel="round", ylabel=self.label)
        axes.locator_params(axis="y", nbins=5)


@dataclass(frozen=True)
class MapPanel:
    """Which task each client trained in each round: a letter per round, "." for none."""

    title: str
    rows: Sequence[str]
    tasks: Sequence[str]

    def draw(self, axes: Any, looks: Mapping[str, Mapping[str, Any]]) -> None:
        """Draw it."""
        from matplotlib.colors import ListedColormap

        cells = np.array([[ord(letter) - ord("a") for letter in row] for row in self.rows])
        shown = np.ma.masked_less(cells, 0)
        colours = ListedColormap(PALE[: max(len(self.tasks), 1)])
        axes.imshow(shown, cmap=colours, vmin=-0.5, vmax=len(self.tasks) - 0.5, aspect="auto",
                    interpolation="nearest",
                    extent=(0.5, cells.shape[1] + 0.5, len(cells) + 0.5, 0.5))  # fmt: skip
        axes.grid(visible=False)
        axes.set(xlabel="round", ylabel="client")
        axes.locator_params(axis="both", nbins=4, integer=True, min_n_ticks=1)


@dataclass(frozen=True)
class AgainstPanel:
    """Final values, one point per step: by name, a row per seed, a column per step."""

    title: str
    steps: Sequence[str]
    values: Mapping[str, Floats]

    def draw(self, axes: Any, looks: Mapping[str, Mapping[str, Any]]) -> None:
        """Draw it."""
        at = np.arange(len(self.steps))
        for number, (name, rows) in enumerate(self.values.items()):
            colour = STRONG[number % len(STRONG)]
            if len(rows) > 1:
                band = {"color": colour, "alpha": 0.13, "linewidth": 0}
                axes.fill_between(at, rows.min(axis=0), rows.max(axis=0), **band)
            dashes = DASHES[number % len(DASHES)]
            axes.plot(at, rows.mean(axis=0), color=colour, marker="o", markersize=2.5,
                      linewidth=1.2, linestyle=dashes, label=name)  # fmt: skip
        axes.set_xticks(at, self.steps)
        axes.locator_params(axis="y", nbins=5)
        if len(self.values) > 1:
            axes.legend(loc="best", fontsize=7, borderpad=0.2, handlelength=2.0)


SmallPanel = LinePanel | BarPanel | MapPanel | AgainstPanel


def draw_panels(
    panels: Sequence[SmallPanel],
    names: Sequence[str],
    *,
    columns: int = 3,
    title: str = "",
    foot: str = "",
) -> Figure:
    """All panels on one page, a few in a row.

    Args:
        panels: From left to right, from top to bottom.
        names: Of all lines and bars: each has the same colour in every panel.
        columns: How many panels are in a row.
        title: Of the page.
        foot: A sentence below all panels.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    looks = {  # dashes, too: the lines can be told apart without colours
        name: get_line_look(number) | {"linestyle": DASHES[number % len(DASHES)]}
        for number, name in enumerate(names)
    }
    marks: dict[str, Any] = {}
    if any(isinstance(panel, LinePanel | BarPanel) for panel in panels):
        marks |= {name: Line2D([], [], **look) for name, look in looks.items()}
    maps = [panel for panel in panels if isinstance(panel, MapPanel)]
    if maps:
        tasks = zip(maps[0].tasks, PALE, strict=False)
        marks |= {task: Patch(facecolor=colour) for task, colour in tasks}
    across = min(columns, len(panels))
    down = -(-len(panels) // across)
    with own_style():
        page = make_page(down * _HEIGHT + 0.5, title=title, marks=marks, foot=foot)
        grid = np.atleast_1d(page.subplots(down, across)).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            panel.draw(axes, looks)
            axes.set_title(
                fold(panel.title, WIDTH / across - 0.5, size=BOLD, weight="bold", most=2)
            )
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        return fix_layout(page)  # type: ignore[no-any-return]
