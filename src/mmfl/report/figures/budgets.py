"""A figure of errors and bounds over an auction's budget, above the chance that nobody joins."""

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

__all__ = ["BudgetPanel", "draw_budgets", "save_budgets"]

Floats = npt.NDArray[np.float64]

_MEASURED: dict[str, Any] = {"color": INK, "linewidth": 1.8}
_EVERYONE: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": (0, (1, 1.2))}
_CHANCE: dict[str, Any] = {"color": STRONG[2]}
_SHARE: dict[str, Any] = {"color": INK, "linestyle": "", "marker": "o"}


@dataclass(frozen=True, eq=False)
class BudgetPanel:
    """One task under one mechanism.

    Attributes:
        title: Which.
        told: The rest of it, in a line.
        budgets: (n) ascending.
        mean: (n) the measured error, over seeds.
        error: (n) its standard error.
        everyone: (n) another measured error, of the objective of all users.
        bounds: From a bound's name, the same in all panels, to its values (n).
        nobody: (n) the chance that nobody joins.
        share: (n) the share of the seeds in which nobody joined.
    """

    title: str
    told: str
    budgets: Floats
    mean: Floats
    error: Floats
    everyone: Floats
    bounds: Mapping[str, Floats]
    nobody: Floats
    share: Floats

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Two standard errors on either side; on a logarithmic axis not to 0."""
        return np.maximum(self.mean - 2 * self.error, self.mean / 4), self.mean + 2 * self.error


def save_budgets(
    panels: Sequence[BudgetPanel], path: str | Path, *, title: str = "", foot: str = ""
) -> Path:
    """Save the figure of `draw_budgets` to a file: .png, .svg or .pdf.

    Args:
        panels: What to show, next to each other.
        path: Where to; a file that is there is replaced.
        title: Above all.
        foot: Below all.
    """
    check_path(path)
    return save(draw_budgets(panels, title=title, foot=foot), path)


def draw_budgets(panels: Sequence[BudgetPanel], *, title: str = "", foot: str = "") -> Figure:
    """Two panels for each task and mechanism: its error and bounds, and how often nobody joins.

    Where a bound is below the measured error, what is between them is coloured. All upper panels
    share their scale.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.bounds))
    looks = {name: get_line_look(number * (len(STRONG) + 1)) for number, name in enumerate(names)}
    shown = np.concatenate(
        [x for p in panels for x in (*p.band, p.everyone, *p.bounds.values())]
    )  # fmt: skip
    shown = shown[shown > 0]
    low, high = math.floor(np.log10(shown.min())), math.ceil(np.log10(shown.max()))
    with own_style():
        figure = make_page(4.2, title=title, marks=_make_key(looks), foot=foot)
        grid = figure.subplots(
            2, len(panels), squeeze=False, sharex="col", height_ratios=(2.2, 1)
        )  # fmt: skip
        heads = [(panel.title, panel.told) for panel in panels]
        set_heads(grid[0], heads, WIDTH / len(panels) - 0.45)
        for number, panel in enumerate(panels):
            above, below = grid[:, number]
            _draw_errors(above, panel, looks, (10.0**low, 10.0**high))
            _draw_chances(below, panel)
            for axes in (above, below):
                axes.tick_params(labelleft=number == 0)
        grid[0, 0].set_ylabel("error")
        grid[1, 0].set_ylabel("nobody joins")
        return fix_layout(figure)  # type: ignore[no-any-return]


def _make_key(looks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the lines mean."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return {
        "measured, recruited clients": Line2D([], [], **_MEASURED),
        "measured, all users": Line2D([], [], **_EVERYONE),
        **{name: Line2D([], [], **look) for name, look in looks.items()},
        "a bound below the error": Patch(color=BROKEN),
        "chance that nobody joins": Line2D([], [], **_CHANCE),
        "share of seeds": Line2D([], [], **_SHARE),
    }


def _draw_errors(
    axes: Any,
    panel: BudgetPanel,
    looks: Mapping[str, Mapping[str, Any]],
    limits: tuple[float, float],
) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    x, mean = panel.budgets, panel.mean
    axes.set(xscale="log", yscale="log", ylim=limits)
    for name, bound in panel.bounds.items():
        axes.fill_between(
            x, bound, mean, where=bound < mean, color=BROKEN, linewidth=0, interpolate=True
        )
        axes.plot(x, bound, **looks[name])
    axes.fill_between(x, *panel.band, color=INK, alpha=0.18, linewidth=0)
    axes.plot(x, mean, **_MEASURED)
    axes.plot(x, panel.everyone, **_EVERYONE)
    axes.yaxis.set_major_locator(LogLocator(numticks=7))
    axes.yaxis.set_major_formatter(format_power)
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_chances(axes: Any, panel: BudgetPanel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.plot(panel.budgets, panel.nobody, **_CHANCE)
    axes.plot(panel.budgets, panel.share, clip_on=False, **_SHARE)
    axes.set(ylim=(0, 1), yticks=(0, 0.5, 1), xlabel="budget")
    axes.set(xlim=(panel.budgets[0] / 1.1, panel.budgets[-1] * 1.1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
