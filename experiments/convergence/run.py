"""Compare the convergence bounds with measured errors: tables in results/, and figures.

    make experiment-convergence
    make experiment-convergence ARGS="--only auctions --seeds 0-29"
    python -m experiments.convergence.run [--only bounds|auctions] [--seeds 0-19] [--workers 2]
        [--quick] [--out FOLDER]

Strongly convex tasks with known constants (`mmfl.convergence`) are trained by the real round loop,
each until it has trained in T rounds; the data of a setting is the same in all seeds. `auctions.py`
has the settings in which clients are recruited first. docs/explanation/convergence.md explains the
results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from experiments.convergence import auctions
from experiments.convergence.curves import (
    EVEN,
    Points,
    find_worst,
    format_quotient,
    pick_points,
    points,
)
from experiments.harness import HOUSE, arguments, date_and_machine
from mmfl.comparison import read_seeds
from mmfl.convergence import (
    Logistic,
    Problem,
    Quadratic,
    RunTrace,
    Setting,
    Trajectory,
    collect_trajectories,
    trace_run,
)
from mmfl.report.figures import BoundPanel, save_bounds, save_budgets
from mmfl.rng import stream
from mmfl.runs import environment_now

__all__ = ["main"]

MAKE = "make experiment-convergence"
PAGE = "docs/explanation/convergence.md"
ALPHAS = (1.0, 2.0, 5.0)
EQUAL, UNEQUAL = (3,) * 5, (2, 3, 5, 8, 12)
MORE, UNEQUAL_MORE = (12,) * 5, (4, 6, 10, 16, 24)
WHOLE = 1 << 20  # a batch is the whole shard
REPEATED = {"alone": 10}  # this many times as many seeds, where there is only noise


def on_a_line(a: float, start: float, curvature: float) -> Quadratic:
    """One client with two examples, at a and -a."""
    return Quadratic(clients=(((a,), (-a,)),), start=(start,), curvature=(curvature,))


def quadratic(name: str, sizes: Sequence[int], spread: float) -> Quadratic:
    """Each client's points lie around its own centre; the start is away from the optimum."""
    rng = stream(0, "laboratory", name)
    clients = tuple(points(rng.normal(rng.normal(size=3), spread, size=(n, 3))) for n in sizes)
    return Quadratic(clients=clients, start=(2.0, -2.0, 2.0), curvature=(1.0, 0.5, 0.25))


def logistic(name: str, sizes: Sequence[int], strength: float) -> Logistic:
    """Each client's labels follow its own rule; a larger `strength` leaves less noise."""
    rng = stream(0, "laboratory", name)
    common, clients = rng.normal(size=4), []
    for n in sizes:
        x, rule = rng.normal(size=(n, 4)), strength * (common + rng.normal(size=4))
        y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-x @ rule)), 1.0, -1.0)
        clients.append(points(x * y[:, None]))
    return Logistic(clients=tuple(clients), start=(0.0,) * 4, penalty=0.2)


def quadratics(sizes: Sequence[int]) -> dict[str, Problem]:
    """Two tasks: the second has larger losses, even at its optimum."""
    return {"mild": quadratic("mild", sizes, 1.0), "wild": quadratic("wild", sizes, 1.3)}


def logistics(sizes: Sequence[int]) -> dict[str, Problem]:
    """Two tasks: the second is harder to learn."""
    return {"clear": logistic("clear", sizes, 3.0), "vague": logistic("vague", sizes, 0.5)}


def grid() -> dict[str, Setting]:
    """All settings by name."""
    families = {
        "quadratic": (quadratics(EQUAL), ((1, 1), (5, 2))),
        "quadratic, unequal": (quadratics(UNEQUAL), ((1, 2), (5, WHOLE))),
        "logistic": (logistics(MORE), ((1, 4),)),
        "logistic, unequal": (logistics(UNEQUAL_MORE), ((5, WHOLE),)),
    }
    found = {
        f"{name}, tau {tau}, alpha {alpha:g}": Setting(
            tasks=tasks, alpha=alpha, tau=tau, batch_size=batch_size
        )
        for name, (tasks, ways) in families.items()
        for tau, batch_size in ways
        for alpha in ALPHAS
    }
    three = quadratics(UNEQUAL) | {"vague": logistic("vague", UNEQUAL_MORE, 0.5)}
    found["three tasks"] = Setting(tasks=three, alpha=2.0, tau=5)
    found["quadratic, passes"] = Setting(tasks=quadratics(EQUAL), alpha=2.0, tau=5, batch_size=1)
    found["logistic, passes"] = Setting(tasks=logistics(MORE), alpha=2.0, tau=5, batch_size=4)
    return found | special()


def special() -> dict[str, Setting]:
    """Settings designed to break a bound."""
    steep = on_a_line(1e-3, start=0.0, curvature=1000.0)
    alike = dataclasses.replace(steep, clients=steep.clients * 5)
    poor = on_a_line(2.0**0.5, start=1.0, curvature=1.0)
    rich = on_a_line(600.0**0.5, start=1.0, curvature=1.0)
    many: Points = ((0.0, 0.0),) * 99
    skewed = Quadratic(clients=(many, ((0.0, 1.0),)), start=(0.0, 0.01), curvature=(1e4, 1.0))
    return {
        "alone": Setting(tasks={"steep": steep}, batch_size=1, T=1000),
        "alike": Setting(tasks={"one": alike, "other": alike}, batch_size=1, T=300),
        "idle": Setting(tasks={"poor": poor, "rich": rich}, alpha=2.0, T=10),
        "skewed": Setting(tasks={"skewed": skewed}, tau=20, active=0.5, T=1000),
    }


Found = dict[str, dict[str, Trajectory]]


def run(settings: Mapping[str, Setting], seeds: Sequence[int], workers: int) -> Found:
    """Run all settings and seeds, several runs at a time."""
    found: Found = {}
    with ProcessPoolExecutor(workers) as pool:
        for name, setting in settings.items():
            started = time.perf_counter()
            own = [seed + 1000 * k for k in range(REPEATED.get(name, 1)) for seed in seeds]
            traces: list[dict[str, RunTrace]] = list(pool.map(trace_run, [setting] * len(own), own))
            found[name] = collect_trajectories(setting, traces)
            sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
    return found


def drift(course: Trajectory) -> float:
    """The share of 32 tau^2 G^2 in the corrected corollary at T."""
    c = course.constants
    part = 128.0 * c.L * (c.tau * c.G) ** 2 / (3.0 * c.rho_lo * c.mu**2) / (course.T + c.offset)
    return part / float(course.corrected[-1])


def numbers(setting: Setting, task: str, course: Trajectory) -> dict[str, Any]:
    """The results of a task, as plain data."""
    bounds = {
        "corrected": course.corrected,
        "theorem_by_rounds": course.recursion,
        "theorem_by_steps": course.by_steps,
        "sharper": course.sharper,
        "printed": course.as_printed,
    }
    scale = 2.0 / course.constants.L
    apart = {name: bounds[name] * scale for name in ("theorem_by_rounds", "theorem_by_steps")}
    apart["sharper"] = course.sharper * scale
    all_rounds = {"corrected": course.corollary(len(course.by_round.mean) - 1)}
    curves = {
        "error": (course.error, bounds),
        "distance": (course.distance, apart),
        "error by all rounds": (course.by_round, all_rounds),
    }
    return {
        "constants": dataclasses.asdict(course.constants),
        "alpha": setting.alpha,
        "batch_size": None if setting.batch_size == WHOLE else setting.batch_size,
        "sizes": setting.tasks[task].sizes.tolist(),
        "exact": course.exact,
        "seeds": len(course.traces),
        "T": course.T,
        "rounds": [one.rounds for one in course.traces],
        "clients": course.clients,
        "idle": course.idle,
        "drift_share": drift(course),
        "worst": {
            f"{what} / {name}": find_worst(measured, bound)
            for what, (measured, some) in curves.items()
            for name, bound in some.items()
        },
        "curves": {
            what: pick_points(*curve)
            for what, curve in curves.items()
            if what != "error by all rounds" or course.idle > 0.5
        },
    }


def table(data: Mapping[str, Any]) -> Iterator[str]:
    """The results as Markdown."""
    yield (
        "| setting | task | batch | clients | idle | T | error at T | / corrected | worst "
        "| / theorem | worst | / sharper | worst | / printed, worst | drift |"
    )
    yield f"|---|---|{'---:|' * 13}"
    for name, task, one in _each(data):
        error = one["curves"]["error"]
        cells = [
            name if one["exact"] else f"{name} *",
            task,
            one["batch_size"] or "all",
            f"{one['clients']:.1f}",
            f"{one['idle']:.1%}",
            one["T"],
            f"{error['mean'][-1]:.2e} ± {error['standard_error'][-1]:.0e}",
        ]
        for bound in ("corrected", "theorem_by_rounds", "sharper"):
            cells += [format_quotient(error["mean"][-1] / error[bound][-1])]
            cells += [format_quotient(one["worst"][f"error / {bound}"]["quotient"])]
        cells += [
            format_quotient(one["worst"]["error / printed"]["quotient"]),
            f"{one['drift_share']:.0%}",
        ]
        yield f"| {' | '.join(map(str, cells))} |"


def verdicts(data: Mapping[str, Any]) -> Iterator[str]:
    """How often each bound is below the measured value, and where."""
    yield "| measured / bound | holds | largest quotient | where it is above 1 |"
    yield "|---|---:|---:|---|"
    tasks = list(_each(data))
    for what in tasks[0][2]["worst"]:
        found = [(one["worst"][what], f"{name}: {task}") for name, task, one in tasks]
        wrong = [
            f"{where} {one['quotient']:.3g} (t = {one['t']}, {one['standard_errors']:.1f} s.e.)"
            for one, where in found
            if one["quotient"] > EVEN
        ]
        most = format_quotient(max(one["quotient"] for one, _ in found))
        right = len(found) - len(wrong)
        yield f"| {what} | {right} of {len(found)} | {most} | {', '.join(wrong)} |"


def _each(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    return ((name, task, one) for name, tasks in data.items() for task, one in tasks.items())


NAMES = {
    "corrected": "corollary, corrected",
    "theorem_by_rounds": "theorem, once a round",
    "sharper": "theorem, once a step, less drift",
    "printed": "corollary, printed",
}


def make_panels(data: Mapping[str, Any]) -> list[BoundPanel]:
    """Panels: two tasks by alpha, and three settings that break a bound."""
    panels = []
    for family, task, clients, steps in (
        ("quadratic, unequal, tau 5", "wild", "5 unequal clients", "5 full steps"),
        ("logistic, tau 1", "vague", "5 equal clients", "1 step, a third of the shard"),
    ):
        for alpha in ALPHAS:
            one = data[f"{family}, alpha {alpha:g}"][task]
            title = f"{family.split(',')[0].title()}, alpha {alpha:g}"
            told = f"{clients}, {one['clients']:.1f} a round; {steps}"
            panels.append(_panel(one, "error", title, told, scale=family))
    alone, idle, skewed = (next(iter(data[name].values())) for name in ("alone", "idle", "skewed"))
    told = "F = 500 w², noise 1, begun at the optimum: the printed corollary lacks a factor L"
    panels.append(_panel(alone, "error", "One steep client", told))
    told = f"Nobody trains it in {idle['idle']:.1%} of the rounds, and all are counted"
    title = "A task that is mostly idle"
    panels.append(_panel(idle, "error by all rounds", title, told, rounds="all rounds"))
    told = "|w - w*|², which the theorem is about; shares .99 and .01, L/mu = 10,000"
    panels.append(_panel(skewed, "distance", "20 steps, very unequal clients", told))
    return panels


def _panel(one: Mapping[str, Any], what: str, title: str, told: str, **rest: Any) -> BoundPanel:
    curves = {name: np.array(curve) for name, curve in one["curves"][what].items()}
    bounds = {text: curves[name] for name, text in NAMES.items() if name in curves}
    t, mean, error = (curves[name] for name in ("t", "mean", "standard_error"))
    return BoundPanel(title, told, t, mean, error, bounds, **rest)


def measure_bounds(given: argparse.Namespace) -> None:
    """Run the grid; write the numbers, the tables and the figure."""
    settings, seeds = grid(), read_seeds(given.seeds)
    if given.quick:
        settings = {
            name: dataclasses.replace(setting, T=min(5, setting.T), rounds=50)
            for name, setting in settings.items()
        }
    found = run(settings, seeds, given.workers)
    data = {
        name: {task: numbers(settings[name], task, course) for task, course in courses.items()}
        for name, courses in found.items()
    }
    parts = {"Measured errors and their bounds": table(data), "What holds": verdicts(data)}
    write_results(given, "convergence", "Do the convergence bounds hold?", data, parts)
    title = "Measured errors, and the bounds on them"
    most = REPEATED["alone"] * len(seeds)
    foot = f"Mean of {len(seeds)} seeds (steep: {most}); band: two standard errors on either side."
    save_bounds(make_panels(data), given.figure, title=title, foot=foot)


def measure_auctions(given: argparse.Namespace) -> None:
    """Run the settings with an auction; write the numbers, the table and the figure."""
    seeds = read_seeds(given.seeds)
    settings = auctions.grid(T=5) if given.quick else auctions.grid()
    found = auctions.run(settings, seeds, given.workers)
    data = {name: auctions.describe(settings[name], courses) for name, courses in found.items()}
    parts = {
        "Measured errors and their bounds": auctions.table(data),
        "What holds": auctions.verdicts(data),
    }
    write_results(given, "auctions", "Does the auction theorem hold?", data, parts)
    T = next(iter(settings.values())).setting.T
    title = "The auction theorem: as printed, it is best when nobody joins"
    foot = (
        f"After T = {T} rounds in which the task trained; without winners, the initial model. Mean "
        f"of {len(seeds)} seeds, each with its own auction; band: two standard errors on either "
        "side. The theorem is about the objective of the recruited clients, not of all users."
    )
    save_budgets(auctions.make_panels(data), given.auction_figure, title=title, foot=foot)


def write_results(
    given: argparse.Namespace,
    name: str,
    question: str,
    data: Mapping[str, Any],
    parts: Mapping[str, Iterable[str]],
) -> None:
    """Write all numbers as JSON and the tables as Markdown, with the command, date and machine."""
    made = environment_now()
    minutes = round((read_processor_seconds() - given.before) / 60, 1)
    date, where = date_and_machine(made).split(", ", 1)
    about = {"command": made["command"], "seeds": given.seeds, "processor_minutes": minutes}
    about |= {"date": date, "hardware": where, "versions": made["versions"]}
    given.out.mkdir(parents=True, exist_ok=True)
    rows = [f"{json.dumps(key)}: {json.dumps(tasks)}" for key, tasks in data.items()]
    settled = ",\n".join(rows)  # a line for each setting
    text = f'{{"about": {json.dumps(about)},\n"settings": {{\n{settled}\n}}}}\n'
    (given.out / f"{name}.json").write_text(text, encoding="utf-8")
    options = " ".join(sys.argv[1:])
    command = f'make experiment-convergence ARGS="{options}"' if options else MAKE
    lines = [
        f"# {question}\n",
        f"`{command}`, seeds {given.seeds}; {date}, {minutes} minutes of processor time on "
        f"{where}. What it means is in [{PAGE}](../../../{PAGE}).\n",
    ]
    for title, rows_of in parts.items():
        lines += [f"## {title}\n", *rows_of, ""]
    (given.out / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def read_processor_seconds() -> float:
    """Processor seconds that this process and its children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Run the requested part; by default both."""
    parts = {"bounds": measure_bounds, "auctions": measure_auctions}
    wanted = arguments(__doc__, __file__)
    wanted.add_argument("--only", choices=parts, help="one part; by default both")
    wanted.add_argument("--seeds", default="0-19", help="e.g. 0-19")
    wanted.add_argument("--workers", type=int, default=2, help="processes")
    wanted.add_argument("--quick", action="store_true", help="at most 5 rounds: does it run?")
    pictures = HOUSE / "docs/pictures"
    figure, auction_figure = pictures / "convergence.png", pictures / "convergence_auctions.png"
    wanted.add_argument("--figure", "--plot", type=Path, default=figure)
    wanted.add_argument("--auction-figure", type=Path, default=auction_figure)
    given = wanted.parse_args()
    for name, measure in parts.items():
        if given.only in (None, name):
            given.before = read_processor_seconds()
            measure(given)


if __name__ == "__main__":
    main()
