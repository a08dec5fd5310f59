"""Pictures of plans: what a budget recruits, and what alpha does with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.offers import frame
from mmfl.report.figures.page import Page, own_style
from mmfl.report.figures.panels import GREY, INK, STRONG
from mmfl.report.figures.saving import check_path, save
from mmfl.report.words import amount, number, thinned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mmfl.planning import Estimate, Outlook, Plan, Scenario

__all__ = ["draw_plan", "save_plan"]

Floats = npt.NDArray[np.float64]

_WIDTH, _LEFT, _RIGHT, _EDGE = 8.0, 0.42, 7.84, 0.16
_TITLE, _NAME, _TEXT = 11.0, 9.0, 8.0
_PLOT, _HEAD, _FOOT, _GAP = 1.25, 0.4, 0.46, 0.46
_ROWS, _TICKS = 5, 6
_MARKS = "osD^vP"


def save_plan(plan: Plan, path: str | Path, *, title: str = "") -> Path:
    """Draw a plan into a file: .png (1600 pixels wide), .svg or .pdf; see `draw_outlook`.

    Args:
        plan: The plan.
        path: Where to; a file that is there is replaced.
        title: What was planned.
    """
    check_path(path)
    return save(draw_plan(plan, title=title), path)


def draw_plan(plan: Plan, *, title: str = "") -> Figure:
    """A line per task over alpha, in a row of panels for each budget; or over the budget.

    The panels: clients in a round, the chance of a round without any, and with runs' curves the
    metric at the end and the rounds to a target. With several budgets, a row above shows what each
    recruits and spends. Bands are two standard errors wide at either side.
    """
    rows = _rows(plan)
    with own_style():
        page = Page(_WIDTH, 1.0)
        foot = page.folded(_foot(plan), _RIGHT - _LEFT, _TEXT)
        key = _key_lines(page, plan.tasks)
        above = 0.55 + 0.17 * len(key)
        below = _EDGE + page.line(_TEXT) * len(foot) + 0.06
        page.resize(above + len(rows) * (_HEAD + _PLOT + _FOOT) + below)
        named = f"{title}: what to expect" if title else "What to expect"
        page.write(
            _LEFT - 0.1,
            page.top - 0.3,
            page.cut(named, _RIGHT - _LEFT, _TITLE, "bold"),
            _TITLE,
            weight="bold",
        )
        for place, line in enumerate(key):
            _key(page, line, page.top - 0.56 - 0.17 * place)
        for place, row in enumerate(rows):
            row.paint(page, page.top - above - place * (_HEAD + _PLOT + _FOOT), plan.tasks)
        page.write_lines(_LEFT - 0.1, below - 0.16, foot, _TEXT, color=GREY)
    return page.figure


@dataclass(frozen=True)
class _Panel:
    """A quantity over a row's axis: of each task, or of all together.

    Attributes:
        title: What it is.
        of: Takes it from what is expected of a task; None = it is one of all tasks.
        whole: Takes it from a scenario.
        share: Whether it is a chance or a share.
        ceiling: Where a dashed line is.
        top: How high the axis is; panels below each other have the same.
    """

    title: str
    of: Callable[[Outlook], Estimate | None] | None = None
    whole: Callable[[Scenario], Estimate | None] | None = None
    share: bool = False
    ceiling: float | None = None
    top: float = 0.0

    def lines(
        self, scenarios: Sequence[Scenario], tasks: Sequence[str]
    ) -> list[tuple[str, str, Floats, Floats]]:
        """Colour, mark, means and half the width of the band, a line each."""
        found = []
        if self.whole is not None:
            found.append((INK, "o", [self.whole(scenario) for scenario in scenarios]))
        if self.of is not None:
            for s, task in enumerate(tasks):
                values = [self.of(scenario.tasks[task]) for scenario in scenarios]
                found.append((*_look(s), values))
        return [
            (
                colour,
                mark,
                np.array([e.mean if e and math.isfinite(e.mean) else math.nan for e in values]),
                np.array([2 * e.error if e and e.error > 0 else 0.0 for e in values]),
            )
            for colour, mark, values in found
        ]

    def over(self, scenarios: Sequence[Scenario], tasks: Sequence[str]) -> _Panel:
        """The panel with an axis that has room for all of these."""
        lines = self.lines(scenarios, tasks)
        high = max(float(np.nanmax(np.append(mean + band, 0.0))) for *_, mean, band in lines)
        high = max(high, self.ceiling or 0.0)
        limit = 1.0 if self.share else math.inf
        return replace(self, top=min(1.06 * high, limit) if high else 0.1 if self.share else 1.0)


@dataclass(frozen=True)
class _Row:
    """Panels beside each other that share an axis."""

    title: str
    axis: str
    places: Sequence[float]
    ticks: Sequence[str]
    scenarios: Sequence[Scenario]
    panels: Sequence[_Panel]

    def paint(self, page: Page, top: float, tasks: Sequence[str]) -> None:
        """Draw it below this height."""
        width = (_RIGHT - _LEFT - _GAP * (len(self.panels) - 1)) / len(self.panels)
        page.write(_LEFT - 0.1, top - 0.12, self.title, _NAME, weight="bold", color=INK)
        for place, panel in enumerate(self.panels):
            left = _LEFT + place * (width + _GAP)
            page.write(left - 0.1, top - 0.28, panel.title, _TEXT, color=GREY)
            axes = page.axes(left, top - _HEAD - _PLOT, width, _PLOT)
            frame(axes, [])
            self._lines(axes, panel, tasks)

    def _lines(self, axes: Any, panel: _Panel, tasks: Sequence[str]) -> None:
        x = np.array(self.places, dtype=np.float64)
        pad = 0.05 * (x[-1] - x[0]) if len(x) > 1 else 1.0
        axes.set(xlim=(x[0] - pad, x[-1] + pad), ylim=(0.0, panel.top))
        lines = panel.lines(self.scenarios, tasks)
        for number_, (colour, mark, mean, band) in enumerate(lines):
            low, high = np.maximum(mean - band, 0.0), np.minimum(mean + band, panel.top)
            axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
            axes.plot(x, mean, color=colour, linewidth=1.5, marker=mark, markersize=3.4,
                      clip_on=False, zorder=4 + len(lines) - number_)  # fmt: skip
        if panel.whole is not None:  # money: what is spent, beside all that there is
            axes.plot(x, x, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)))
        if panel.ceiling is not None:
            axes.axhline(panel.ceiling, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.set_xticks(self.places, self.ticks)
        if panel.share:
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
        axes.set_xlabel(self.axis, fontsize=_TEXT, color=GREY, labelpad=2)


def _look(s: int) -> tuple[str, str]:
    """A task's colour and mark."""
    return STRONG[s % len(STRONG)], _MARKS[s % len(_MARKS)]


def _rows(plan: Plan) -> list[_Row]:
    rows = []
    budgets = [budget for budget in plan.budgets if budget is not None]
    if len(budgets) > 1:
        first = [plan.at(plan.alphas[0], budget) for budget in sorted(budgets)]
        panels = [
            _Panel("Clients recruited for a task", of=lambda o: o.take_up),
            _Panel("Spent (dashed: the budget)", whole=lambda s: s.spent),
            _Panel("Chance that a task recruits nobody", of=lambda o: o.nobody, share=True),
        ]
        panels = [panel.over(first, plan.tasks) for panel in panels]
        rows.append(_over_budgets("What a budget recruits", first, panels))
    panels = [panel.over(plan.scenarios, plan.tasks) for panel in _panels(plan)]
    if len(plan.alphas) == 1:
        alpha = plan.alphas[0]
        title = "What a round brings" + ("" if alpha is None else f", alpha {alpha:g}")
        cells = sorted(plan.scenarios, key=lambda s: s.budget or 0.0)
        return [*rows, _over_budgets(title, cells, panels)]
    for budget in plan.budgets[:_ROWS]:
        cells = [plan.at(alpha, budget) for alpha in plan.alphas]
        title = "What alpha does" + (
            "" if budget is None else f" with a budget of {amount(budget)}"
        )
        alphas = ["∞" if alpha == math.inf else f"{alpha:g}" for alpha in plan.alphas]
        rows.append(_Row(title, "alpha", range(len(cells)), alphas, cells, panels))
    return rows


def _over_budgets(title: str, cells: Sequence[Scenario], panels: Sequence[_Panel]) -> _Row:
    """A row over budgets; as many of them have a number as there is room for."""
    budgets = [cell.budget for cell in cells if cell.budget is not None]
    if not budgets:
        return _Row(title, "", [0.0], [""], cells, panels)
    shown = set(thinned(budgets, _TICKS))
    ticks = [amount(budget) if budget in shown else "" for budget in budgets]
    return _Row(title, "budget", budgets, ticks, cells, panels)


def _panels(plan: Plan) -> list[_Panel]:
    from mmfl.planning import Estimate

    found = [
        _Panel("Clients in a round", of=lambda o: o.clients),
        _Panel("Rounds without a client", of=lambda o: o.starved, share=True),
    ]
    if plan.source == "runs":
        found.append(_Panel("Metric at the end", of=lambda o: o.metric))
    targets = {o.reach.target for s in plan.scenarios for o in s.tasks.values() if o.reach}
    if targets:
        aim = f"to {number(targets.pop(), 2)}" if len(targets) == 1 else "to the target"

        def median(o: Outlook) -> Estimate | None:
            return None if o.reach is None else Estimate(o.reach.median, 0.0)

        found.append(_Panel(f"Rounds {aim} (median)", of=median, ceiling=float(plan.rounds)))
    return found


def _key_lines(page: Page, tasks: Sequence[str]) -> list[list[tuple[int, str]]]:
    """The tasks' numbers and names, in lines that are not wider than the page."""
    lines: list[list[tuple[int, str]]] = [[]]
    taken = 0.0
    for entry in enumerate(page.cut(task, 2.0, _TEXT) for task in tasks):
        own = _key_width(page, entry[1])
        if lines[-1] and taken + own > _RIGHT - _LEFT:
            lines.append([])
            taken = 0.0
        lines[-1].append(entry)
        taken += own
    return lines


def _key_width(page: Page, name: str) -> float:
    return 0.28 + page.width(name, _TEXT) + 0.24


def _key(page: Page, line: Sequence[tuple[int, str]], y: float) -> None:
    """Which line is which task."""
    x = _LEFT - 0.1
    for s, name in line:
        colour, mark = _look(s)
        page.space.plot([x, x + 0.22], [y + 0.035] * 2, color=colour, linewidth=1.6)
        page.space.plot([x + 0.11], [y + 0.035], marker=mark, color=colour, markersize=3.8)
        page.write(x + 0.28, y, name, _TEXT, color=INK)
        x += _key_width(page, name)


def _foot(plan: Plan) -> str:
    count = len(plan.runs)
    known = {
        "runs": f"How hard tasks are: the curves of {count} run{'s' * (count > 1)}.",
        "difficulty": "How hard tasks are was given.",
        "equal": "All tasks count as equally hard.",
    }[plan.source]
    lines = [f"{plan.rounds} rounds; means over {plan.draws} draws, ± 2 standard errors.", known]
    if any(o.reach for s in plan.scenarios for o in s.tasks.values()):
        lines.append(f"No mark: not reached within {plan.rounds} rounds (dashed).")
    if len(plan.alphas) > 1 and len(plan.budgets) > _ROWS:
        lines.append(f"{len(plan.budgets) - _ROWS} more budgets are not shown.")
    return " ".join(lines)
