"""How wrong plans are: predictions compared with trained runs.

    make experiment-plan_error
    python -m experiments.plan_error.run [--seeds 0-4] [--draws 50] [--runs FOLDER] [--out FOLDER]

Two settings on embedded data: first_run.toml with alphas 1, 2, 3 and 5, and recruited.toml with the
same alphas at budget 6 and with alpha 3 at budgets 3 and 12. Each is planned only from the curves
of its runs with alpha 1 (and budget 6); the other runs are held out and compared with the plan. A
third set of runs, with 3, 6 and 12 active clients and with its own seeds, shows how much more a
round with more clients is worth (beta).

Writes plan_error.md and plan_error.json. Finished runs are kept in the folder of runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import mmfl
from experiments.harness import HOUSE, arguments, describe_recording, run_missing
from experiments.plan_error.tables import (
    BETAS,
    CROWD_BETAS,
    QUANTITIES,
    Cell,
    Compared,
    errors_of,
    page,
)
from mmfl import Experiment, Run
from mmfl.comparison import Comparison, read_seeds
from mmfl.planning import Plan, scatter
from mmfl.planning.histories import histories_in
from mmfl.planning.options import set_alpha, set_budget
from mmfl.runs import no_nan

__all__ = ["main"]

FIRST_RUN = HOUSE / "experiments/first_run/first_run.toml"
TARGETS = {"digits": 0.85, "fashion": 0.7, "letters": 0.55}
CROWDS, CROWD_SEEDS = (0.075, 0.15, 0.3), (20, 21)


@dataclass(frozen=True)
class Study:
    """An experiment, the alphas and budgets to run, and the cell that the plan is made from."""

    name: str
    cells: tuple[Cell, ...]
    sets: tuple[str, ...] = ()

    @property
    def base(self) -> Experiment:
        """The experiment as its file describes it."""
        return Experiment.load(HOUSE / f"experiments/{self.name}/{self.name}.toml", sets=self.sets)

    def of(self, cell: Cell) -> Experiment:
        """The experiment with an alpha and a budget."""
        return set_budget(set_alpha(self.base, cell[0]), cell[1])


STUDIES = (
    Study("first_run", ((1.0, None), (2.0, None), (3.0, None), (5.0, None))),
    Study(
        "recruited",
        ((1.0, 6.0), (2.0, 6.0), (3.0, 6.0), (5.0, 6.0), (3.0, 3.0), (3.0, 12.0)),
        sets=("kernel=auto",),
    ),
)


@dataclass(frozen=True)
class Seen:
    """One task in one run, in the terms of a plan."""

    clients: float
    share: float
    starved: float
    difficulty: float
    metric: float
    take_up: float
    spent: float
    rounds: float


def summarize_run(run: Run, experiment: Experiment) -> dict[str, Seen]:
    """What a run did, by task."""
    histories = histories_in(run.folder, experiment.resolved())
    turns = sum(int(h.clients.sum()) for h in histories.values())
    found = {}
    for task, h in histories.items():
        there = np.flatnonzero(h.metric >= TARGETS[task])
        hired = run.recruitment
        found[task] = Seen(
            clients=float(h.clients.mean()),
            share=float(h.clients.sum()) / turns,
            starved=float((h.clients == 0).mean()),
            difficulty=float(h.difficulty[-1]),
            metric=float(h.metric[-1]),
            take_up=math.nan if hired is None else hired.tasks[task].take_up,
            spent=math.nan if hired is None else hired.spent,
            rounds=float(there[0] + 1) if there.size else math.inf,
        )
    return found


@dataclass(frozen=True)
class Result:
    """A study's runs and its plan."""

    study: Study
    plan: Plan
    runs: dict[Cell, dict[int, dict[str, Seen]]]
    compared: dict[str, list[Compared]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, *others = self.study.cells
        for quantity in QUANTITIES:
            rows = []
            for cell in others:
                scenario = self.plan.at(*cell)
                for task, outlook in scenario.tasks.items():
                    values = tuple(getattr(s[task], quantity.key) for s in self.runs[cell].values())
                    before = [getattr(s[task], quantity.key) for s in self.runs[first].values()]
                    planned = quantity.planned(scenario, outlook)
                    if not math.isnan(planned):
                        rows.append(Compared(cell, task, planned, values, float(np.mean(before))))
            self.compared[quantity.key] = rows


def run_all(given: argparse.Namespace) -> tuple[dict[str, dict[Cell, dict[int, Run]]], Path, str]:
    """Run what is missing; all runs by study, cell and seed, the crowds' folder, and where."""
    found: dict[str, dict[Cell, dict[int, Run]]] = {}
    for study in STUDIES:
        names = {cell: _named(cell) for cell in study.cells}
        experiments = {names[cell]: study.of(cell) for cell in study.cells}
        runs = _done(experiments, read_seeds(given.seeds), given.runs / study.name)
        found[study.name] = {cell: runs[name] for cell, name in names.items()}
    base = Experiment.load(FIRST_RUN, sets=["allocator.kind=uniform"])
    crowds = {
        f"active={rate:g}": replace(base, clients=replace(base.clients, active=rate))
        for rate in CROWDS
    }
    runs = _done(crowds, CROWD_SEEDS, given.runs / "crowds")
    where = describe_recording(next(iter(runs.values()))[CROWD_SEEDS[0]])
    return found, given.runs / "crowds", where


def _named(cell: Cell) -> str:
    return f"alpha={cell[0]:g}" + ("" if cell[1] is None else f" budget={cell[1]:g}")


def _done(
    experiments: dict[str, Experiment], seeds: Sequence[int], folder: Path
) -> dict[str, dict[int, Run]]:
    return run_missing(Comparison(experiments, seeds, folder))


def plan_of(study: Study, runs: dict[int, Run], draws: int, beta: float | None = None) -> Plan:
    """Plan a study's cells from the runs of its first cell, one budget at a time."""
    budgets = dict.fromkeys(budget for _, budget in study.cells)
    plans = [
        mmfl.plan(
            study.base,
            alphas=[alpha for alpha, budget in study.cells if budget == wanted],
            budgets=[] if wanted is None else [wanted],
            runs=[run.folder for run in runs.values()],
            targets=TARGETS,
            draws=draws,
            beta=beta,
        )
        for wanted in budgets
    ]
    return replace(plans[0], scenarios=tuple(s for plan in plans for s in plan.scenarios))


def main() -> None:
    """Run what is missing, plan, compare, and write the tables."""
    parser = arguments(__doc__, __file__)
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--runs", type=Path, default=Path("runs/plan_error"))
    given = parser.parse_args()
    found, crowds, where = run_all(given)
    results, sense = [], {}
    for study in STUDIES:
        runs = found[study.name]
        observed = {
            cell: {seed: summarize_run(run, study.of(cell)) for seed, run in by_seed.items()}
            for cell, by_seed in runs.items()
        }
        first = runs[study.cells[0]]
        results.append(Result(study, plan_of(study, first, given.draws), observed))
        few = max(1, given.draws // 2)
        others = {b: Result(study, plan_of(study, first, few, b), observed) for b in BETAS}
        sense[study.name] = {
            f"{b:g}": {key: errors_of(rows) for key, rows in result.compared.items()}
            for b, result in others.items()
        }
    base = Experiment.load(FIRST_RUN).resolved()
    every = [histories_in(p.parent, base) for p in sorted(crowds.glob("*/*/run.sqlite"))]
    told = {
        task: {f"{b:g}": math.sqrt(scatter([h[task] for h in every], b)) for b in CROWD_BETAS}
        for task in TARGETS
    }
    aims = ", ".join(f"{task} {target:g}" for task, target in TARGETS.items())
    head = (
        f"`make experiment-plan_error`, seeds {given.seeds}, {given.draws} draws; "
        f"{where}. Planned from the runs with alpha 1 (and budget 6); all others are held out. "
        f"Targets: {aims}.\n"
    )
    given.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join(page(results, told, sense, head)).rstrip() + "\n"
    (given.out / "plan_error.md").write_text(text)
    data = {
        "command": "make experiment-plan_error",
        "seeds": given.seeds,
        "draws": given.draws,
        "where": where,
        "targets": TARGETS,
        "distance_by_beta": told,
        "errors": {
            r.study.name: {k: errors_of(rows) for k, rows in r.compared.items()} for r in results
        },
        "by_beta": sense,
        "compared": {
            r.study.name: {k: [vars(row) for row in rows] for k, rows in r.compared.items()}
            for r in results
        },
        "plans": {r.study.name: {**r.plan.data(), "runs": len(r.plan.runs)} for r in results},
    }
    (given.out / "plan_error.json").write_text(json.dumps(no_nan(data), indent=1) + "\n")


if __name__ == "__main__":
    main()
