"""Experiment 5 of the paper: its auctions, figures and tables, and which of its claims hold.

    make experiment-exp5
    python -m experiments.exp5.run [--runs FOLDER] [--out FOLDER]

Runs `mmfl auction compare` on the two markets next to this file, reads the results, runs the
larger grids that the claims need, and writes to results/. It takes about a minute.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from experiments.harness import HOUSE, arguments, date_and_machine
from mmfl.market import (
    Bids,
    BudgetFair,
    GreedyWithinBudget,
    Market,
    MaxMinFair,
    Mechanism,
    RandomWithinBudget,
    ValueThreshold,
    contest,
)
from mmfl.market.bids_io import IncreasingLinear, TruncatedNormal
from mmfl.market.truthfulness import Contest
from mmfl.runs import environment_now

NAMES = {"mu05": "mean .5, sd .2", "mu02": "mean .2, sd .1"}
SHOWN = (5, 10, 20, 29, 40, 50, 60)
ORDER = (
    "max_min_fair",
    "max_min_fair integer",
    "gmm_fair",
    "budget_fair",
    "greedy_within_budget",
    "random_within_budget",
    "value_threshold 0.4",
    "value_threshold 0.6",
)
OURS, OTHERS = ORDER[0], ORDER[3:]
# The specification's numbers (mean .5, sd .2; five seeds of numpy's default_rng): min take-up /
# difference, in the order above.
SPEC = {
    5: "9.1/.2 8.6/0 11.6/0 8.2/1.2 10.8/1.8 2.8/1.8 15.8/15.4 34.4/36.4",
    10: "14.5/.5 14.2/0 18.8/0 13.0/2.6 17.2/3.2 6.6/3.2 15.8/15.4 34.4/36.4",
    20: "23.7/.6 23.4/0 30.4/0 21.2/5.0 27.8/5.6 14.2/5.4 15.8/15.4 34.4/36.4",
    29: "30.5/.6 30.2/0 39.2/0 27.4/7.0 35.8/8.0 20.6/8.0 15.8/15.4 34.4/36.4",
    40: "37.5/.3 37.0/0 48.6/0 33.8/9.2 44.4/10.4 29.8/9.4 15.8/15.4 34.4/36.4",
    50: "44.0/.3 43.4/0 56.6/0 38.8/11.0 51.4/12.8 38.0/12.4 15.8/15.4 34.4/36.4",
    60: "49.5/.3 49.2/0 64.0/0 43.8/12.4 57.8/14.8 45.4/14.0 15.8/15.4 34.4/36.4",
}
# The grid of Gaussians for the claims: 20 of them.
MEANS, SDS = (0.2, 0.3, 0.4, 0.5, 0.6), (0.05, 0.1, 0.2, 0.3)
BUDGETED: dict[str, Mechanism] = {
    "max_min_fair": MaxMinFair(1.0),
    "budget_fair": BudgetFair(1.0),
    "greedy_within_budget": GreedyWithinBudget(1.0),
    "random_within_budget": RandomWithinBudget(1.0),
}
Tables = dict[int | None, Bids]
POSTED: dict[str, Mechanism] = {f"value_threshold {p}": ValueThreshold(p) for p in (0.4, 0.6)}


class Outcomes:
    """The results of one `mmfl auction compare --out`."""

    def __init__(self, path: Path) -> None:
        self.data: dict[str, Any] = json.loads(path.read_text())
        self.budgets: list[float] = self.data["budgets"]
        self.seeds: list[int] = self.data["seeds"]
        self._rows: dict[tuple[str, float], list[dict[str, Any]]] = {}
        for row in self.data["results"]:
            self._rows.setdefault((row["mechanism"], row["budget"]), []).append(row)

    def values(self, mechanism: str, budget: float, quantity: str) -> list[float]:
        """By seed."""
        return [row[quantity] for row in self._rows[mechanism, float(budget)]]

    def mean(self, mechanism: str, budget: float, quantity: str) -> float:
        """Over seeds."""
        return fmean(self.values(mechanism, budget, quantity))

    def compact(self, made: dict[str, str]) -> str:
        """Take-up by mechanism, task and seed, as a list over budgets."""
        head = {
            key: self.data[key] for key in ("command", "version", "options", "seeds", "budgets")
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in (made | head).items()]
        rows = []
        for name in self.data["mechanisms"]:
            free = name in self.data["without_budget"]
            for at, seed in enumerate(self.seeds):
                found: dict[str, Any] = {"mechanism": name, "seed": seed}
                for task in self.data["tasks"]:
                    series = [self._rows[name, b][at]["take_up"][task] for b in self.budgets]
                    found[task] = [_plain(v) for v in (series[:1] if free else series)]
                rows.append(json.dumps(found, separators=(",", ":")))
        lines.append('"take_up": [\n  ' + ",\n  ".join(rows) + "\n ]")
        return "{\n " + ",\n ".join(lines) + "\n}\n"


def _plain(value: float) -> float | int:
    return round(value) if math.isclose(value, round(value)) else round(value, 4)


def _pair(low: float, difference: float) -> str:
    return f"{low:.1f} / {difference:.1f}"


def table(five: Outcomes, twenty: Outcomes, spec: bool) -> list[str]:
    """Min take-up / difference at some budgets."""
    lines = ["| budget | | " + " | ".join(f"`{name}`" for name in ORDER) + " |"]
    lines.append("|---:|---|" + "---:|" * len(ORDER))
    for budget in SHOWN:
        for label, runs in (("5 seeds", five), ("20 seeds", twenty)):
            cells = [
                _pair(runs.mean(n, budget, "min_take_up"), runs.mean(n, budget, "difference"))
                for n in ORDER
            ]
            lines.append(f"| {budget} | {label} | " + " | ".join(cells) + " |")
        if spec:
            cells = [_pair(*map(float, cell.split("/"))) for cell in SPEC[budget].split()]
            lines.append(f"| {budget} | specification | " + " | ".join(cells) + " |")
    return lines


def compare_with_spec(twenty: Outcomes) -> str:
    """How far the specification's means over five seeds are from ours, in standard errors."""
    scores = []
    for budget, line in SPEC.items():
        for name, cell in zip(ORDER, line.split(), strict=True):
            for quantity, expected in zip(
                ("min_take_up", "difference"), cell.split("/"), strict=True
            ):
                values = twenty.values(name, budget, quantity)
                error = stdev(values) * math.sqrt(1 / 5 + 1 / len(values))
                gap = abs(fmean(values) - float(expected))
                scores.append(max(0.0, gap - 0.05) / error if error else float(gap > 0.05) * 99)
    return (
        f"{len(scores)} numbers of the specification against our means of 20 seeds: "
        f"{sum(s <= 1 for s in scores)} within one standard error of the difference of the two "
        f"means, {sum(s <= 2 for s in scores)} within two, the farthest {max(scores):.1f} away."
    )


def cells_won(found: Contest | Outcomes, quantity: str, other: str, low: bool) -> int:
    """For how many budgets our mean is at most (`low`) or at least the other's."""
    sign = 1 if low else -1
    return sum(
        sign * found.mean(OURS, b, quantity) <= sign * found.mean(other, b, quantity) + 1e-9
        for b in found.budgets
    )


def lowest_by_seed(runs: Outcomes) -> int:
    """In how many individual auctions our difference is the lowest."""
    count = 0
    for b in runs.budgets:
        others = zip(*(runs.values(name, b, "difference") for name in OTHERS), strict=True)
        ours = runs.values(OURS, b, "difference")
        count += sum(own <= min(row) + 1e-9 for own, row in zip(ours, others, strict=True))
    return count


def runs_of(budgets: list[float]) -> str:
    """Budgets as ranges: 1-4, 7."""
    parts: list[list[float]] = []
    for budget in budgets:
        if parts and budget == parts[-1][-1] + 1:
            parts[-1].append(budget)
        else:
            parts.append([budget])
    texts = [f"{p[0]:g}" if len(p) == 1 else f"{p[0]:g}-{p[-1]:g}" for p in parts]
    return ", ".join(texts) or "none"


def claim_b(name: str, runs: Outcomes) -> list[str]:
    """Where our min take-up is above that of each other mechanism."""
    lines = []
    for other in OTHERS:
        above = [
            b
            for b in runs.budgets
            if runs.mean(OURS, b, "min_take_up") > runs.mean(other, b, "min_take_up") + 1e-9
        ]
        at = f"{runs.mean(OURS, 29, 'min_take_up'):.1f} : {runs.mean(other, 29, 'min_take_up'):.1f}"
        lines.append(f"| {name} | `{other}` | {len(above)} of 60 | {runs_of(above)} | {at} |")
    return lines


def market(mean: float, sd: float, clients: int) -> Market:
    """The market with another Gaussian."""
    return Market(clients, {"task 1": TruncatedNormal(mean, sd), "task 2": IncreasingLinear()})


def grid() -> tuple[list[str], dict[str, int], list[str]]:
    """Claims (a) and (b) over 20 Gaussians, 60 budgets and 20 seeds: how many cells hold."""
    lines, lower = [], []
    sums = dict.fromkeys(("lowest", *OTHERS), 0)
    for mean in MEANS:
        for sd in SDS:
            bids: Tables = {seed: market(mean, sd, 100).bids(seed) for seed in range(20)}
            found = contest(BUDGETED | POSTED, bids, range(1, 61))
            above = set()
            for b in found.budgets:
                ours = found.mean(OURS, b, "difference")
                for name in OTHERS:
                    if (other := found.mean(name, b, "difference")) < ours - 1e-9:
                        above.add(b)
                        lower.append(
                            f"mean {mean:g}, sd {sd:g}, budget {b:g}: `{name}` {other:.2f}, "
                            f"Max-Min {ours:.2f}"
                        )
            lowest = len(found.budgets) - len(above)
            wins = [cells_won(found, "min_take_up", name, low=False) for name in OTHERS]
            cells = " | ".join(map(str, (lowest, *wins)))
            lines.append(f"| {mean:g} | {sd:g} | {cells} |")
            for key, count in zip(sums, (lowest, *wins), strict=True):
                sums[key] += count
    return lines, sums, lower


def growth() -> list[str]:
    """Where the difference of Greedy and Budget-Fair is largest, and its value at some budgets."""
    lines = []
    rules = {name: BUDGETED[name] for name in ("greedy_within_budget", "budget_fair")}
    for key, (mean, sd) in (("mu05", (0.5, 0.2)), ("mu02", (0.2, 0.1))):
        bids: Tables = {seed: market(mean, sd, 100).bids(seed) for seed in range(20)}
        found = contest(rules, bids, range(1, 201))
        for name in rules:
            curve = {b: found.mean(name, b, "difference") for b in found.budgets}
            peak = max(curve, key=lambda b: curve[b])
            at = " | ".join(f"{curve[float(b)]:.1f}" for b in (10, 30, 60, 80, 100, 150, 200))
            lines.append(f"| {NAMES[key]} | `{name}` | {peak:g} ({curve[peak]:.1f}) | {at} |")
    return lines


def large_n(clients: int = 4000) -> list[str]:
    """The rule Q1(tau) <= Q2(tau) / 3 against simulated auctions with many clients.

    Greedy's share tau of task 2 satisfies B / 2 = N * integral of Q2 up to tau, which for the
    linear density is 2/3 tau Q2(tau) N; ours reaches tau iff tau (Q1 + Q2) N <= B. So the rule says
    who has more clients for task 2, which is the min take-up only where Greedy has fewer for task
    2.
    """
    tally = {True: [0, 0, 0], False: [0, 0, 0]}  # task 2 is the smaller: cases, we win, rule right
    wrong = []
    for mean in MEANS:
        for sd in SDS:
            where = market(mean, sd, clients)
            bids: Tables = {None: where.bids(0)}
            for budget in SHOWN:
                B = budget * clients / 100
                rules = {n: BUDGETED[n] for n in (OURS, "greedy_within_budget")}
                found = contest(rules, bids, [B])
                greedy = found.of("greedy_within_budget", B)[0].take_up
                tau = np.array([greedy[1] / clients])
                q1, q2 = (float(d.quantile(tau)[0]) for d in where.tasks.values())
                ours = found.mean(OURS, B, "min_take_up")
                said, true, second = q1 <= q2 / 3, ours >= min(greedy), greedy[1] <= greedy[0]
                for place, one in enumerate((True, true, said == true)):
                    tally[second][place] += one
                if said != true:
                    wrong.append(
                        f"- wrong: mean {mean:g}, sd {sd:g}, budget {B:g}: Q1 {q1:.3f}, Q2/3 "
                        f"{q2 / 3:.3f}; Greedy {greedy[0]:.0f} and {greedy[1]:.0f}, "
                        f"Max-Min {ours:.0f}"
                    )
    lines = [
        f"{clients} clients, seed 0, {len(MEANS) * len(SDS)} Gaussians, {len(SHOWN)} budgets.",
        "",
        "| Greedy has fewer for | cases | Max-Min has at least Greedy's min | rule is right |",
        "|---|---:|---:|---:|",
    ]
    for second, name in ((True, "task 2"), (False, "task 1")):
        lines.append(f"| {name} | " + " | ".join(map(str, tally[second])) + " |")
    return [*lines, "", *wrong]


Runs = dict[tuple[str, int], Outcomes]


def compare(key: str, seeds: int, folder: Path, out: Path) -> Outcomes:
    """Run `mmfl auction compare` on one market with this many seeds, and draw its figure."""
    stored = folder / f"{key}-{seeds}.json"
    file, figure = (os.path.relpath(p, HOUSE) for p in (stored, out / f"{key}-{seeds}.png"))
    market = f"experiments/exp5/exp5-{key}.toml"
    options = ["--budget", "1-60", "--threshold", "0.4,0.6", "--seeds", f"0-{seeds - 1}"]
    options += ["--out", file, "--force", "--figure", figure]
    command = [sys.executable, "-m", "mmfl", "auction", "compare", market, *options]
    subprocess.run(command, check=True, cwd=HOUSE)
    return Outcomes(stored)


def write_takeup(runs: Runs, made: dict[str, str], out: Path) -> None:
    """Write table.md, and take-up by seed as JSON."""
    text = ["# Experiment 5: take-up", "", f"{made['date']}, {made['hardware']}. Commands:", ""]
    text += [f"    {found.data['command']}" for found in runs.values()]
    text += ["", "Cells: min take-up / difference, means over seeds.", ""]
    for key, name in NAMES.items():
        text += [f"## Task 1: {name}", "", f"![5 seeds]({key}-5.png)", ""]
        text += [f"![20 seeds]({key}-20.png)", ""]
        text += [*table(runs[key, 5], runs[key, 20], spec=key == "mu05"), ""]
        if key == "mu05":
            text += [compare_with_spec(runs[key, 20]), ""]
        (out / f"{key}.json").write_text(runs[key, 20].compact(made))
    (out / "table.md").write_text("\n".join(text))


def write_claims(runs: Runs, made: dict[str, str], out: Path) -> None:
    """Write claims.md: in how many cells each claim holds."""
    lines, sums, lower = grid()
    n = len(MEANS) * len(SDS) * 60
    text = ["# Experiment 5: which claims hold", "", f"{made['date']}, {made['hardware']}; "]
    text[-1] += "made by `make experiment-exp5`; seeds 0 to 19 unless said otherwise."
    text += ["", "## Cells in which they hold", ""]
    text.append(
        "Per Gaussian of task 1, of 60 budgets (1 to 60), means over 20 seeds: in how many "
        "Max-Min's difference is the lowest (GMMFair apart), and its min take-up not smaller."
    )
    text += ["", "| mean | sd | lowest difference | " + " | ".join(f"`{o}`" for o in OTHERS) + " |"]
    text += ["|---:|---:|" + "---:|" * (1 + len(OTHERS)), *lines]
    text += ["| **all** | | " + " | ".join(f"**{c} of {n}**" for c in sums.values()) + " |"]
    text += ["", "Where another difference is lower:", "", *(f"- {case}" for case in lower), ""]
    for key, name in NAMES.items():
        text.append(
            f"Auction by auction (task 1: {name}; 60 budgets, 20 seeds), Max-Min's is the lowest "
            f"in {lowest_by_seed(runs[key, 20])} of 1200."
        )
    text += ["", "## Where Max-Min's min take-up is above another's", ""]
    text += ["| task 1 | against | budgets | which | at budget 29 |", "|---|---|---:|---|---:|"]
    for key, name in NAMES.items():
        for seeds in (5, 20):
            text += claim_b(f"{name}, {seeds} seeds", runs[key, seeds])
    text += ["", "## Difference as the budget grows", ""]
    text += ["| task 1 | | largest at budget | 10 | 30 | 60 | 80 | 100 | 150 | 200 |"]
    text += ["|---|---|---:|" + "---:|" * 7, *growth()]
    text += ["", "## Large numbers of clients", ""]
    text.append(
        "The rule: Max-Min's min take-up is at least Greedy's iff Q1(tau) <= Q2(tau) / 3, where "
        "tau is Greedy's share of clients in task 2."
    )
    text += ["", *large_n(), ""]
    (out / "claims.md").write_text("\n".join(text))


def main() -> None:
    """Run the auctions, and write all results."""
    parser = arguments(__doc__, __file__)
    parser.add_argument("--runs", type=Path, default=Path("runs/exp5"))
    given = parser.parse_args()
    folder, out = given.runs.resolve(), given.out.resolve()
    for place in (folder, out):
        place.mkdir(parents=True, exist_ok=True)
    runs = {(key, n): compare(key, n, folder, out) for key in NAMES for n in (5, 20)}
    date, hardware = date_and_machine(environment_now()).split(", ", 1)
    made = {"date": date, "hardware": hardware}
    write_takeup(runs, made, out)
    write_claims(runs, made, out)


if __name__ == "__main__":
    main()
