"""A figure of errors and bounds over an auction's budget, above the chance that nobody joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.bounds import MEASURED, BoundedCurve, find_decades, get_bound_looks
from mmfl.report.figures.page import WIDTH, fix_layout, make_page, set_heads
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import BROKEN, INK, STRONG, own_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BudgetPanel", "draw_budgets", "save_budgets"]

Floats = npt.NDArray[np.float64]

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
    def curve(self) -> BoundedCurve:
        """The measured error with its bounds."""
        return BoundedCurve(self.budgets, self.mean, self.error, self.bounds)


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
    looks = get_bound_looks(panel.curve for panel in panels)
    limits = find_decades(x for p in panels for x in (*p.curve.shown, p.everyone))
    with own_style():
        figure = make_page(4.2, title=title, marks=_make_key(looks), foot=foot)
        grid = figure.subplots(
            2, len(panels), squeeze=False, sharex="col", height_ratios=(2.2, 1)
        )  # fmt: skip
        heads = [(panel.title, panel.told) for panel in panels]
        set_heads(grid[0], heads, WIDTH / len(panels) - 0.45)
        for number, panel in enumerate(panels):
            above, below = grid[:, number]
            panel.curve.draw(above, looks, ticks=7)
            above.plot(panel.budgets, panel.everyone, **_EVERYONE)
            above.set(ylim=limits)
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
        "measured, recruited clients": Line2D([], [], **MEASURED),
        "measured, all users": Line2D([], [], **_EVERYONE),
        **{name: Line2D([], [], **look) for name, look in looks.items()},
        "a bound below the error": Patch(color=BROKEN),
        "chance that nobody joins": Line2D([], [], **_CHANCE),
        "share of seeds": Line2D([], [], **_SHARE),
    }


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
