"""Figures of plans: what a budget recruits, and what alpha does with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.report.figures.page import WIDTH, fix_layout, format_brief, make_page, set_heads
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import GREY, INK, STRONG, own_style
from mmfl.report.words import amount, number, thin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mmfl.planning import Estimate, Plan, Scenario

__all__ = ["draw_plan", "save_plan"]

_ROWS, _TICKS = 5, 6
_MARKS = "osD^vP"


def save_plan(plan: Plan, path: str | Path, *, title: str = "") -> Path:
    """Save the figure of `draw_plan` to a file, which is replaced: .png, .svg or .pdf."""
    check_path(path)
    return save(draw_plan(plan, title=title), path)


def draw_plan(plan: Plan, *, title: str = "") -> Figure:
    """A line per task over alpha, in a row of panels for each budget; or over the budget.

    The panels: clients in a round, the chance of a round without any, and with runs' curves the
    metric at the end and the rounds to a target. With several budgets, a row above shows what each
    recruits and spends. Bands are two standard errors wide at either side.

    Args:
        plan: The plan.
        title: What was planned.
    """
    from matplotlib.lines import Line2D

    rows = _make_rows(plan)
    with own_style():
        marks = {task: Line2D([], [], **_get_look(s)) for s, task in enumerate(plan.tasks)}
        named = f"{title}: what to expect" if title else "What to expect"
        figure = make_page(
            0.3 + 0.06 * len(marks) + 1.9 * len(rows), title=named, marks=marks, foot=_foot(plan)
        )
        columns = math.lcm(*(len(row.panels) for row in rows))
        grid = figure.add_gridspec(len(rows), columns)
        first: dict[str, Any] = {}  # panels with the same title have the same scale
        for place, row in enumerate(rows):
            wide = columns // len(row.panels)
            parts = [grid[place, left : left + wide] for left in range(0, columns, wide)]
            panels = [figure.add_subplot(part) for part in parts]
            heads = [("" if at else row.title, panel.title) for at, panel in enumerate(row.panels)]
            set_heads(panels, heads, WIDTH / len(panels) - 0.5)
            for axes, panel in zip(panels, row.panels, strict=True):
                axes.sharey(first.setdefault(panel.title, axes))
                row.draw(axes, panel, plan.tasks)
        for axes in first.values():
            axes.set_ylim(bottom=0)
        return fix_layout(figure)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _PlanPanel:
    """A quantity over a row's axis.

    Attributes:
        title: What it is.
        of: Takes it from a scenario, for a task.
        share: Whether it is a chance or a share.
        whole: Whether it is one of all tasks: money, which is shown with all that there is.
        ceiling: Where a dashed line is.
    """

    title: str
    of: Callable[[Scenario, str], Estimate | None]
    share: bool = False
    whole: bool = False
    ceiling: float | None = None


@dataclass(frozen=True)
class _PanelRow:
    """Panels side by side that share an axis."""

    title: str
    axis: str
    places: Sequence[float]
    ticks: Sequence[str]
    scenarios: Sequence[Scenario]
    panels: Sequence[_PlanPanel]

    def draw(self, axes: Any, panel: _PlanPanel, tasks: Sequence[str]) -> None:
        """Draw one of its panels: a line with a band for each task."""
        dashed = {"color": GREY, "linewidth": 0.8, "linestyle": (0, (2, 2))}
        if panel.whole:
            axes.plot(self.places, self.places, **dashed)
        if panel.ceiling is not None:
            axes.axhline(panel.ceiling, **dashed)
        for s, task in enumerate(tasks[:1] if panel.whole else tasks):
            look = {"color": INK, "marker": "o"} if panel.whole else _get_look(s)
            known = [panel.of(scenario, task) for scenario in self.scenarios]
            mean = np.array([e.mean if e and math.isfinite(e.mean) else math.nan for e in known])
            band = np.array([2 * e.error if e and e.error > 0 else 0.0 for e in known])
            ends = (np.clip(mean + way * band, 0, 1 if panel.share else None) for way in (-1, 1))
            axes.fill_between(self.places, *ends, color=look["color"], alpha=0.13, linewidth=0)
            axes.plot(self.places, mean, clip_on=False, zorder=4 + len(tasks) - s, **look)
        axes.set_xlabel(self.axis)
        axes.set_xticks(self.places, self.ticks)
        axes.margins(x=0.05)
        if len(self.places) == 1:
            axes.set_xlim(self.places[0] - 1, self.places[0] + 1)
        axes.locator_params(axis="y", nbins=4)
        axes.yaxis.set_major_formatter(_format_share if panel.share else format_brief)


def _get_look(s: int) -> dict[str, Any]:
    """A task's colour and mark."""
    again, colour = divmod(s, len(STRONG))
    return {"color": STRONG[colour], "marker": _MARKS[(colour + again) % len(_MARKS)]}


def _format_share(value: float, _: object = None) -> str:
    return f"{100 * value:g}%"


def _make_rows(plan: Plan) -> list[_PanelRow]:
    rows = []
    budgets = sorted(budget for budget in plan.budgets if budget is not None)
    if len(budgets) > 1:
        panels = [
            _PlanPanel("Clients recruited for a task", lambda s, t: s.tasks[t].take_up),
            _PlanPanel("Spent (dashed: the budget)", lambda s, _: s.spent, whole=True),
            _PlanPanel("Chance of recruiting nobody", lambda s, t: s.tasks[t].nobody, share=True),
        ]
        cells = [plan.at(plan.alphas[0], budget) for budget in budgets]
        rows.append(_make_budget_row("What a budget recruits", cells, panels))
    panels = _make_panels(plan)
    if len(plan.alphas) == 1:
        alpha = plan.alphas[0]
        title = "What to expect in a round" + ("" if alpha is None else f", alpha {alpha:g}")
        cells = sorted(plan.scenarios, key=lambda s: s.budget or 0.0)
        return [*rows, _make_budget_row(title, cells, panels)]
    alphas = ["∞" if alpha == math.inf else f"{alpha:g}" for alpha in plan.alphas]
    for budget in plan.budgets[:_ROWS]:
        cells = [plan.at(alpha, budget) for alpha in plan.alphas]
        given = "" if budget is None else f" with a budget of {amount(budget)}"
        rows.append(
            _PanelRow(f"What alpha does{given}", "alpha", range(len(cells)), alphas, cells, panels)
        )
    return rows


def _make_budget_row(
    title: str, cells: Sequence[Scenario], panels: Sequence[_PlanPanel]
) -> _PanelRow:
    """A row over budgets; as many of them have a number as there is room for."""
    budgets = [cell.budget for cell in cells if cell.budget is not None]
    if not budgets:
        return _PanelRow(title, "", [0.0], [""], cells, panels)
    shown = set(thin(budgets, _TICKS))
    ticks = [amount(budget) if budget in shown else "" for budget in budgets]
    return _PanelRow(title, "budget", budgets, ticks, cells, panels)


def _make_panels(plan: Plan) -> list[_PlanPanel]:
    from mmfl.planning import Estimate

    found = [
        _PlanPanel("Clients in a round", lambda s, t: s.tasks[t].clients),
        _PlanPanel("Rounds without a client", lambda s, t: s.tasks[t].starved, share=True),
    ]
    if plan.source == "runs":
        found.append(_PlanPanel("Metric at the end", lambda s, t: s.tasks[t].metric))
    targets = {o.reach.target for s in plan.scenarios for o in s.tasks.values() if o.reach}
    if targets:
        aim = f"to {number(targets.pop(), 2)}" if len(targets) == 1 else "to the target"

        def get_median(s: Scenario, t: str) -> Estimate | None:
            reach = s.tasks[t].reach
            return None if reach is None else Estimate(reach.median, 0.0)

        found.append(_PlanPanel(f"Rounds {aim} (median)", get_median, ceiling=float(plan.rounds)))
    return found


def _foot(plan: Plan) -> str:
    count = len(plan.runs)
    known = {
        "runs": f"Difficulty of the tasks: the curves of {count} run{'s' * (count > 1)}.",
        "difficulty": "The difficulty of the tasks was given.",
        "equal": "All tasks are assumed equally hard.",
    }[plan.source]
    lines = [f"{plan.rounds} rounds; means over {plan.draws} draws, ± 2 standard errors.", known]
    if any(o.reach for s in plan.scenarios for o in s.tasks.values()):
        lines.append(f"No mark: not reached within {plan.rounds} rounds (dashed).")
    if len(plan.alphas) > 1 and len(plan.budgets) > _ROWS:
        lines.append(f"{len(plan.budgets) - _ROWS} more budgets are not shown.")
    return " ".join(lines)
