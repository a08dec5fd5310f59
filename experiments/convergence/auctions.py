"""The theorem "Convergence with Auctions", from budgets that recruit nobody to all users.

Two tasks, four users, the bid models of Experiment 5. The setting favours the theorem: all users
hold the same amount of data, L = mu, one local step, and a start far from the clients' optima.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from experiments.convergence.curves import find_worst, format_quotient, pick_points, points
from mmfl.convergence import (
    AuctionSetting,
    Quadratic,
    RecruitedRun,
    RecruitedTrajectory,
    Setting,
    collect_recruited,
    trace_recruited,
)
from mmfl.experiment import RecruitmentSettings
from mmfl.market import BudgetFair, MaxMinFair, Mechanism
from mmfl.market.bids_io import Distribution, IncreasingLinear, TruncatedNormal
from mmfl.report.figures import BudgetPanel
from mmfl.rng import stream

__all__ = ["describe", "find_limit", "grid", "make_panels", "run", "table", "verdicts"]

BUDGETS = (0.2, 0.4, 0.6, 0.8, 1.2, 3.0, 8.0)
USERS, EXAMPLES = 4, 4
LAWS: dict[str, Distribution] = {
    "cheap": TruncatedNormal(mean=0.5, sd=0.2),
    "dear": IncreasingLinear(),
}
NAMES = {"budget_fair": "Budget-Fair", "max_min_fair": "Max-Min Fair"}
MORE = range(1_000, 3_000)  # seeds of auctions without training

Found = dict[str, dict[str, RecruitedTrajectory]]


def problem(name: str) -> Quadratic:
    """Each client's points around its own centre; the centres differ less than the points."""
    rng = stream(0, "auctions", name)
    clients = [
        points(rng.normal(rng.normal(scale=0.15, size=2), 0.3, size=(EXAMPLES, 2)))
        for _ in range(USERS)
    ]
    return Quadratic(clients=tuple(clients), start=(3.0, 3.0), curvature=(1.0, 1.0))


def mechanism(kind: str, budget: float) -> Mechanism:
    """A mechanism whose chance of recruiting nobody is known exactly."""
    if kind == "budget_fair":
        return BudgetFair(budget=budget)
    return MaxMinFair(budget=budget, fractional=False)


def grid(T: int = 400) -> dict[str, AuctionSetting]:
    """All settings by name, the smallest budget first."""
    setting = Setting(tasks={name: problem(name) for name in LAWS}, batch_size=1, T=T)
    return {
        f"{NAMES[kind]}, budget {budget:g}": AuctionSetting(
            setting=setting,
            recruitment=RecruitmentSettings(mechanism=mechanism(kind, budget), tasks=LAWS),
        )
        for kind in NAMES
        for budget in BUDGETS
    }


def run(settings: Mapping[str, AuctionSetting], seeds: Sequence[int], workers: int) -> Found:
    """Run all settings and seeds, several runs at a time.

    A run depends on its seed and on who won what, but not on how they were recruited. Runs that
    have both in common are bit-identical, so only one of them is needed.
    """
    needed: dict[tuple[str, int], str] = {}
    different: dict[str, tuple[AuctionSetting, int]] = {}
    for name, setting in settings.items():
        for seed in seeds:
            key = f"{seed}: {setting.hold_auction(seed)}"
            needed[name, seed] = key
            different.setdefault(key, (setting, seed))
    started = time.perf_counter()
    with ProcessPoolExecutor(workers) as pool:
        made = pool.map(trace_recruited, *zip(*different.values(), strict=True))
        runs: dict[str, dict[str, RecruitedRun]] = dict(zip(different, made, strict=True))
    seconds = time.perf_counter() - started
    sys.stderr.write(f"{len(runs)} different runs of {len(needed)}: {seconds:.0f} s\n")
    return {
        name: collect_recruited(setting, [runs[needed[name, seed]] for seed in seeds])
        for name, setting in settings.items()
    }


def find_limit(setting: AuctionSetting, task: str, winners: Mapping[str, Sequence[int]]) -> float:
    """The part of the error of the winners' own objective that more rounds do not remove.

    A winner of c tasks trains each of them with chance 1/c. If these chances differ, so do the
    clients' mean weights omega_k, and (as L = mu) training ends around the mean of the clients'
    optima with these weights, not at w_W*.
    """
    won = list(winners[task])
    if not won:
        return 0.0
    q = [1.0 / sum(k in clients for clients in winners.values()) for k in won]
    omega = np.zeros(len(won))
    for trains in itertools.product([False, True], repeat=len(won)):
        chance = math.prod(x if here else 1.0 - x for x, here in zip(q, trains, strict=True))
        omega += chance * np.array(trains) / max(sum(trains), 1)
    own = setting.setting.tasks[task].restrict(won)
    return own.error(omega / omega.sum() @ own.own_optima)


def describe(setting: AuctionSetting, courses: Mapping[str, RecruitedTrajectory]) -> dict[str, Any]:
    """The results of a setting, as plain data."""
    auctions = [setting.hold_auction(seed) for seed in MORE]
    runs = zip(*(course.runs for course in courses.values()), strict=True)
    winners = [dict(zip(courses, (one.winners for one in run), strict=True)) for run in runs]
    return {
        task: {
            "mechanism": str(setting.recruitment.mechanism),
            "budget": setting.budget,
            "users": setting.N,
            "seeds": len(course.runs),
            "T": course.T,
            "constants": dataclasses.asdict(course.constants),
            "distance": course.distance,
            "join": course.join,
            "nobody": course.nobody,
            "nobody_in_runs": course.frequency,
            "nobody_in_auctions": float(np.mean([not winners[task] for winners in auctions])),
            "auctions": len(auctions),
            "recruited": course.take_up,
            "initial": setting.setting.tasks[task].error(setting.setting.tasks[task].first),
            "limit": float(np.mean([find_limit(setting, task, won) for won in winners])),
            "winners": [list(one.winners) for one in course.runs],
            "worst": {
                "error / corrected": find_worst(course.error, course.corrected),
                "error / printed": find_worst(course.error, course.as_printed),
                "error of all users / corrected": find_worst(course.everyone, course.corrected),
            },
            "curves": {
                "error": pick_points(
                    course.error, {"corrected": course.corrected, "printed": course.as_printed}
                ),
                "error of all users": pick_points(course.everyone, {}),
            },
        }
        for task, course in courses.items()
    }


def table(data: Mapping[str, Any]) -> Iterator[str]:
    """The results as Markdown."""
    seeds = next(_each(data))[2]["seeds"]
    yield (
        f"| setting | task | nobody joins: exact | in {len(MORE):,} auctions | in {seeds} runs "
        "| recruited | error at T | of which bias | of all users | corrected bound "
        "| error / corrected, worst | printed bound | error / printed, worst |"
    )
    yield f"|---|---|{'---:|' * 11}"
    for name, task, one in _each(data):
        error, everyone = one["curves"]["error"], one["curves"]["error of all users"]
        cells = [
            name,
            task,
            f"{one['nobody']:.1%}",
            f"{one['nobody_in_auctions']:.1%}",
            f"{one['nobody_in_runs']:.0%}",
            f"{one['recruited']:.1f}",
            _last(error),
            f"{one['limit']:.2e}" if one["limit"] > 1e-12 else "0",
            _last(everyone),
            f"{error['corrected'][-1]:.2f}",
            format_quotient(one["worst"]["error / corrected"]["quotient"]),
            f"{error['printed'][-1]:.2f}",
            format_quotient(one["worst"]["error / printed"]["quotient"]),
        ]
        yield f"| {' | '.join(cells)} |"


def verdicts(data: Mapping[str, Any]) -> Iterator[str]:
    """How often each bound is too low, and whether the auctions recruit as the theory says."""
    tasks = [one for _, _, one in _each(data)]
    for what in tasks[0]["worst"]:
        quotients = [one["worst"][what]["quotient"] for one in tasks]
        right = sum(quotient <= 1 for quotient in quotients)
        yield (
            f"- {what}: at most 1 in {right} of {len(tasks)}; the largest is {max(quotients):.3g}."
        )
    wrong = sum(
        one["nobody"] * one["initial"] > one["curves"]["error"]["printed"][-1] for one in tasks
    )
    yield (
        "- The chance that nobody joins times the error of the initial model is above the printed "
        f"bound for T in {wrong} of {len(tasks)}: there it is false, whatever was measured."
    )
    off = []
    for one in tasks:
        p, n = one["nobody"], one["auctions"]
        spread = max((p * (1 - p) / n) ** 0.5, 1 / n)
        off.append(abs(one["nobody_in_auctions"] - p) / spread)
    yield (
        f"- How often nobody joins, in {len(MORE):,} auctions, and the exact chance: "
        f"{max(off):.1f} standard errors apart at most, in {len(off)} comparisons."
    )


def make_panels(data: Mapping[str, Any]) -> list[BudgetPanel]:
    """One panel per mechanism and task: errors and bounds at T over the budget."""
    panels = []
    for kind in NAMES.values():
        for task in LAWS:
            own = [tasks[task] for name, tasks in data.items() if name.startswith(kind)]
            errors = [one["curves"]["error"] for one in own]
            last = {what: np.array([e[what][-1] for e in errors]) for what in errors[0]}
            panels.append(
                BudgetPanel(
                    title=kind,
                    told=f"the {task} task",
                    budgets=np.array([one["budget"] for one in own]),
                    mean=last["mean"],
                    error=last["standard_error"],
                    everyone=np.array(
                        [one["curves"]["error of all users"]["mean"][-1] for one in own]
                    ),
                    bounds={
                        "theorem, corrected": last["corrected"],
                        "theorem, printed": last["printed"],
                    },
                    nobody=np.array([one["nobody"] for one in own]),
                    share=np.array([one["nobody_in_runs"] for one in own]),
                )
            )
    return panels


def _last(curve: Mapping[str, Sequence[float]]) -> str:
    """A measured error at T; of equal errors the standard error is a rounding error."""
    mean, error = curve["mean"][-1], curve["standard_error"][-1]
    return f"{mean:.2e} ± {error:.0e}" if error > 1e-12 * mean else f"{mean:.2e} ± 0"


def _each(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    return ((name, task, one) for name, tasks in data.items() for task, one in tasks.items())
