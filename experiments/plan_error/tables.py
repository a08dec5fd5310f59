"""The tables of the plan error: predictions compared with measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.planning import DEFAULT_BETA, Outlook, Scenario
from mmfl.report.statistics import spread

if TYPE_CHECKING:
    from experiments.plan_error.run import Result

__all__ = [
    "BETAS",
    "CROWD_BETAS",
    "QUANTITIES",
    "Cell",
    "Compared",
    "Quantity",
    "errors_of",
    "page",
]

BETAS = (0.0, 0.25, 0.5, 1.0)
CROWD_BETAS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0)
Cell = tuple[float, float | None]


@dataclass(frozen=True)
class Quantity:
    """One quantity of the comparison: where a plan and a run have it."""

    key: str
    label: str
    planned: Callable[[Scenario, Outlook], float]
    decimals: int

    def form(self, value: float) -> str:
        """Format a value for a table."""
        return "-" if math.isnan(value) else f"{value:.{self.decimals}f}"


def _mean(value: Any) -> float:
    return math.nan if value is None else float(value.mean)


QUANTITIES = (
    Quantity("clients", "clients in a round", lambda s, o: o.clients.mean, 2),
    Quantity("share", "share of turns", lambda s, o: o.share.mean, 3),
    Quantity("starved", "rounds without a client (share)", lambda s, o: o.starved.mean, 3),
    Quantity("take_up", "recruited", lambda s, o: _mean(o.take_up), 2),
    Quantity("spent", "spent", lambda s, o: _mean(s.spent), 2),
    Quantity("difficulty", "difficulty at the end", lambda s, o: _mean(o.difficulty), 3),
    Quantity("metric", "accuracy at the end (test)", lambda s, o: _mean(o.metric), 3),
    Quantity(
        "rounds", "rounds to the target", lambda s, o: o.reach.median if o.reach else math.nan, 1
    ),
)


@dataclass(frozen=True)
class Compared:
    """One quantity of one task in one held-out cell.

    Attributes:
        cell: alpha and budget.
        task: The task's name.
        planned: The predicted value.
        runs: The value of each run.
        before: The mean over the runs that the plan was made from.
    """

    cell: Cell
    task: str
    planned: float
    runs: tuple[float, ...]
    before: float

    @property
    def mean(self) -> float:
        """The mean over runs; for rounds to a target the median, which may be never."""
        return float(np.median(self.runs)) if math.inf in self.runs else float(np.mean(self.runs))

    @property
    def error(self) -> float:
        """The predicted value minus the measured one."""
        return self.planned - self.mean

    @property
    def noise(self) -> float:
        """The standard error of the measured value."""
        found = spread(self.runs)
        return found.sd / math.sqrt(found.n)


def errors_of(rows: Sequence[Compared]) -> dict[str, Any]:
    """The errors of a quantity; targets that plan or runs never reach are counted separately."""
    sure = [r for r in rows if math.isfinite(r.error)]
    before = [abs(r.before - r.mean) for r in sure if math.isfinite(r.before)]
    return {
        "n": len(sure),
        "mean_error": float(np.mean([r.error for r in sure])) if sure else math.nan,
        "mean_absolute": float(np.mean([abs(r.error) for r in sure])) if sure else math.nan,
        "largest": max((abs(r.error) for r in sure), default=math.nan),
        "noise": float(np.mean([r.noise for r in sure if math.isfinite(r.noise)]))
        if sure
        else math.nan,
        "as_before": float(np.mean(before)) if before else math.nan,
        "never_in_both": sum(math.isinf(r.planned) and math.isinf(r.mean) for r in rows),
        "never_in_one": sum(math.isinf(r.planned) != math.isinf(r.mean) for r in rows),
    }


def within(result: Result) -> tuple[int, int]:
    """How many runs reach a target within the planned range, and how many there are."""
    inside = total = 0
    for cell, by_seed in result.runs.items():
        if cell == result.study.cells[0]:
            continue
        for task, outlook in result.plan.at(*cell).tasks.items():
            assert outlook.reach is not None
            for run in by_seed.values():
                total += 1
                inside += outlook.reach.low <= run[task].rounds <= outlook.reach.high
    return inside, total


def page(
    results: Sequence[Result], told: dict[str, dict[str, float]], sense: dict[str, Any], head: str
) -> Iterator[str]:
    """The page, line by line."""
    yield "# How wrong plans are\n"
    yield head
    yield "## Errors over all held-out alphas, budgets and tasks\n"
    yield (
        "Planned minus the mean of the runs. Noise: the standard error of that mean, which no plan "
        "could beat. As before: the error of expecting what the runs that were planned from did. "
        "Rounds to a target that a run never reaches: the median of the runs.\n"
    )
    yield "| | quantity | n | mean error | mean absolute error | largest | noise | as before |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for result in results:
        for quantity in QUANTITIES:
            rows = result.compared[quantity.key]
            if not rows:
                continue
            e = errors_of(rows)
            keys = ("mean_absolute", "largest", "noise", "as_before")
            numbers = " | ".join(quantity.form(e[key]) for key in keys)
            signed = f"{e['mean_error']:+.{quantity.decimals}f}"
            yield f"| {result.study.name} | {quantity.label} | {e['n']} | {signed} | {numbers} |"
    yield ""
    for result in results:
        inside, total = within(result)
        e = errors_of(result.compared["rounds"])
        yield (
            f"{result.study.name}: {inside} of {total} runs reach a target within the planned 10% "
            f"to 90%. Targets that both plan and runs say are never reached: {e['never_in_both']}; "
            f"only one of them: {e['never_in_one']}.\n"
        )
    yield "## How much more a round with more clients is worth\n"
    yield (
        "A round with n clients is worth n^beta. Runs with 3, 6 and 12 active clients (first_run, "
        "uniform allocation, seeds 20 and 21): root mean square distance of the difficulties from "
        "one curve through all runs.\n"
    )
    yield f"| beta | {' | '.join(f'{b:g}' for b in CROWD_BETAS)} |"
    yield f"|---|{'---:|' * len(CROWD_BETAS)}"
    for task, by_beta in told.items():
        best = min(by_beta.values())
        cells = [f"**{v:.4f}**" if v == best else f"{v:.4f}" for v in by_beta.values()]
        yield f"| {task} | {' | '.join(cells)} |"
    yield ""
    yield (
        "Mean absolute error with other values, from half as many draws (by default, since runs "
        f"with one alpha do not tell: {DEFAULT_BETA:g}).\n"
    )
    yield f"| | quantity | {' | '.join(f'beta {b:g}' for b in BETAS)} |"
    yield f"|---|---|{'---:|' * len(BETAS)}"
    for name, by_beta in sense.items():
        for key in ("share", "difficulty", "rounds"):
            quantity = next(q for q in QUANTITIES if q.key == key)
            cells = [quantity.form(by_beta[f"{b:g}"][key]["mean_absolute"]) for b in BETAS]
            yield f"| {name} | {quantity.label} | {' | '.join(cells)} |"
    yield ""
    for result in results:
        yield from _details(result)


def _details(result: Result) -> Iterator[str]:
    yield f"## {result.study.name}: planned / measured\n"
    known = [q for q in QUANTITIES if result.compared[q.key]]
    yield f"| alpha | budget | task | {' | '.join(q.label for q in known)} |"
    yield f"|---:|---:|---|{'---:|' * len(known)}"
    count = len(result.compared["clients"])
    for place in range(count):
        rows = [result.compared[q.key][place] for q in known]
        cells = [
            " / ".join("never" if math.isinf(v) else q.form(v) for v in (row.planned, row.mean))
            for q, row in zip(known, rows, strict=True)
        ]
        alpha, budget = rows[0].cell
        of = "-" if budget is None else f"{budget:g}"
        yield f"| {alpha:g} | {of} | {rows[0].task} | {' | '.join(cells)} |"
    yield ""
