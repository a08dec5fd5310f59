"""Shows a plan: a table, scenario by scenario, and its notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mmfl.cli.views.console import open_console
from mmfl.report import Grid, amount, amounts, make_text, number

if TYPE_CHECKING:
    from mmfl.planning import Estimate, Outlook, Plan, Reach, Scenario

__all__ = ["show_plan"]

_MARK = "*"


def show_plan(plan: Plan) -> None:
    """Show a block of rows for each alpha and budget, with a row for each task."""
    console = open_console()
    console.print(_head(plan), soft_wrap=True)
    console.print(_table(plan))
    for note in (*_notes(plan), *plan.notes):
        advice = note.replace("pass runs or difficulty", "pass --run or --difficulty")
        console.print(make_text(advice), soft_wrap=True)


def _head(plan: Plan) -> str:
    known = {
        "runs": f"the curves of {len(plan.runs)} run{'s' * (len(plan.runs) > 1)}",
        "difficulty": "as given",
        "equal": "the same for all tasks",
    }[plan.source]
    return f"{plan.rounds} rounds, {plan.draws} draws each; difficulty: {known}"


def _table(plan: Plan) -> Grid:
    columns = _columns(plan)
    titles = [title for title, _ in columns]
    rows = []
    spends = amounts([s.spent.mean if s.spent else None for s in plan.scenarios])
    for scenario, spent in zip(plan.scenarios, spends, strict=True):
        label = _label(scenario)
        if label or scenario.spent is not None:
            rows.append([label or "all tasks", *(spent if t == "spent" else "" for t in titles)])
        for task, outlook in scenario.tasks.items():
            rows.append([f"  {task}", *(write(outlook) for _, write in columns)])
    return Grid.of(["", *titles], rows)


def _columns(plan: Plan) -> list[tuple[str, Callable[[Outlook], str]]]:
    """The cells of a task's row, by column title."""
    columns: list[tuple[str, Callable[[Outlook], str]]] = []
    if plan.scenarios[0].spent is not None:
        columns += [
            ("recruited", lambda o: _number(o.take_up, 1)),
            ("recruits\nnobody", lambda o: _percent(o.nobody)),
            ("spent", lambda o: ""),
        ]
    columns += [
        ("clients\na round", lambda o: _number(o.clients, 2)),
        ("share\nof turns", lambda o: f"{o.share.mean:.0%}"),
        ("starved\nrounds", lambda o: _percent(o.starved)),
    ]
    if plan.source == "runs":
        columns.append(("final\nmetric", _metric))
        if any(o.reach for o in plan.scenarios[0].tasks.values()):
            columns.append((_reach_title(plan), lambda o: _reach(o.reach, plan)))
    return columns


def _label(scenario: Scenario) -> str:
    parts = []
    if scenario.alpha is not None:
        parts.append(f"alpha {scenario.alpha:g}")
    if scenario.budget is not None:
        parts.append(f"budget {amount(scenario.budget)}")
    return ", ".join(parts)


def _number(value: Estimate | None, decimals: int) -> str:
    return "-" if value is None or math.isnan(value.mean) else f"{value.mean:.{decimals}f}"


def _percent(value: Estimate | None) -> str:
    if value is None:
        return "-"
    return "0%" if not value.mean else f"{value.mean:.1%}"


def _metric(outlook: Outlook) -> str:
    if outlook.metric is None:
        return "-"
    return number(outlook.metric.mean, 3) + _MARK * (outlook.extrapolated > 0.5)


def _targets(plan: Plan) -> dict[str, float]:
    """The targets, by task."""
    outlooks = plan.scenarios[0].tasks.items()
    return {task: o.reach.target for task, o in outlooks if o.reach is not None}


def _reach_title(plan: Plan) -> str:
    targets = set(_targets(plan).values())
    return f"rounds\nto {number(targets.pop(), 2) if len(targets) == 1 else 'target'}"


def _reach(reach: Reach | None, plan: Plan) -> str:
    """The median, and the range from the 10th to the 90th percentile of the draws."""
    if reach is None:
        return "-"
    if math.isinf(reach.low):
        return f">{plan.rounds}"
    ends = [
        f"{end:.0f}" if math.isfinite(end) else f">{plan.rounds}"
        for end in (reach.median, reach.low, reach.high)
    ]
    return f"{ends[0]} ({ends[1]}-{ends[2]}){_MARK * (reach.extrapolated > 0.5)}"


def _notes(plan: Plan) -> Iterator[str]:
    outlooks = [o for scenario in plan.scenarios for o in scenario.tasks.values()]
    errors = [f"clients {_largest([o.clients for o in outlooks]):.2g}"]
    errors.append(f"starved {_largest([o.starved for o in outlooks]):.1%}")
    hired = [o.take_up for o in outlooks if o.take_up is not None]
    if hired:
        errors.append(f"recruited {_largest(hired):.2g}")
        spent = [s.spent for s in plan.scenarios if s.spent is not None]
        errors.append(f"spent {_largest(spent):.2g}")
    if plan.draws > 1:
        yield f"Means over draws. Largest standard errors: {', '.join(errors)}."
    targets = _targets(plan)
    if targets:
        aims = ", ".join(f"{task} {number(target, 2)}" for task, target in targets.items())
        yield (
            f"Rounds until the target is reached ({aims}): median (10th to 90th percentile of "
            f"the draws); >{plan.rounds}: not within {plan.rounds} rounds."
        )
    if any(o.extrapolated > 0.5 or (o.reach and o.reach.extrapolated > 0.5) for o in outlooks):
        yield f"{_MARK}: extrapolated beyond the work that the runs have done."


def _largest(values: Sequence[Estimate]) -> float:
    return max((v.error for v in values if not math.isnan(v.error)), default=0.0)
