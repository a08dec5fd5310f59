"""Measure who gains by lying in each auction: the tables in results/.

    make experiment-manipulability
    python -m experiments.manipulability.run [--out FOLDER] [--workers 2] [--seed 0] [--quick]

Columns of the first table are markets, rows are mechanisms. In the small markets costs are uniform
on [0, 1] and the budget is uniform between .05 and .25 for each client and task, a tenth to a half
of what all clients ask for on average; such budgets recruit between 1 and nearly N clients per
task. Costs are drawn in units of the budget (all mechanisms are scale free). The last column is
Experiment 5 of the paper with B = 29, where 8 clients per instance are examined.

An additional row has what winners gain under Max-Min Fair with critical payments and without
fractions, by the formula theta_s - price_s, over many more instances and all clients. The last
tables are about clients that do not know each other's bids: blind mark-ups.

It writes table.md and table.json, the same for any number of workers.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from experiments.harness import arguments
from mmfl.market import (
    Bids,
    BudgetFair,
    GMMFair,
    GreedyWithinBudget,
    MaxMinFair,
    Mechanism,
    manipulability,
)
from mmfl.market.bids_io import IncreasingLinear, TruncatedNormal
from mmfl.market.truthfulness import InTask, Manipulability, MarkUps, mark_ups
from mmfl.rng import Stream, stream

__all__ = ["main"]

FORMULA = 1000
PER_CLIENT = (0.05, 0.25)  # budget for each client and task, in a market of costs on [0, 1]

MECHANISMS: dict[str, Mechanism] = {
    "Budget-Fair critical": BudgetFair(1.0),
    "Budget-Fair share": BudgetFair(1.0, "share"),
    "Max-Min critical int": MaxMinFair(1.0, "critical", False),
    "Max-Min critical frac": MaxMinFair(1.0, "critical", True),
    "Max-Min share int": MaxMinFair(1.0, "share", False),
    "Max-Min share frac": MaxMinFair(1.0, "share", True),
    "GMMFair": GMMFair(1.0),
    "Greedy": GreedyWithinBudget(1.0),
}


def small(rng: Stream, N: int, S: int) -> Any:
    """Uniform costs in units of a random budget."""
    return rng.random((N, S)) / (rng.uniform(*PER_CLIENT) * N * S)


def experiment_5(rng: Stream) -> Any:
    """100 clients; task 1 truncated normal, task 2 density 2x; in units of the budget 29."""
    models = (TruncatedNormal(0.5, 0.2), IncreasingLinear())
    return np.stack([model.quantile(rng.random(100)) for model in models], axis=1) / 29.0


@dataclasses.dataclass(frozen=True)
class Column:
    """A market, how often it is drawn, and how many clients are examined each time."""

    name: str
    sampler: Callable[[Stream], Any]
    instances: int
    users: int | None = None

    @property
    def counts(self) -> dict[str, Any]:
        """How many instances and clients to examine, as arguments for the library."""
        return {"instances": self.instances, "users": self.users}


COLUMNS = (
    Column("N=6 S=2", partial(small, N=6, S=2), 60),
    Column("N=12 S=2", partial(small, N=12, S=2), 30),
    Column("N=12 S=3", partial(small, N=12, S=3), 20),
    Column("N=12 S=1", partial(small, N=12, S=1), 50),
    Column("Exp5 N=100 B=29", experiment_5, 30, 8),
)
BLIND = (
    Column("N=20 S=2", partial(small, N=20, S=2), 300),
    Column("Exp5 N=100 B=29", experiment_5, 30),
)

# Section 11 of the specification, verbatim: pairs, instances, gain.
SPECIFIED = {
    "Budget-Fair critical": ("0", "0", "0", "0", "0"),
    "Budget-Fair share": ("4.0%, 30%, all under", "1.8%, 26%", "2.3%, 44%", "2.1%, 18%", ".2%, 3%"),
    "Max-Min critical int": (
        *("15.4%, 71%, gain 16%", "16.9%, 83%, 11%", "19.7%, 91%, 11%", "0"),
        "16.9%, 100%, 1.5%",
    ),
    "Max-Min critical frac": (
        *("32.6%, 99.6%, gain 20%", "30.4%, 99%, 13%", "32.5%, 100%, 13%", "6.1%, 59%, 2.5%"),
        "25.8%, 100%, 1.3%",
    ),
    "Max-Min share int": (
        *("23.7% (8.3% under)", "20.9% (4.0%)", "23.9% (4.2%)", "2.1%", "17.9% (1.0%)"),
    ),
    "Max-Min share frac": (
        *("30.7% (2.4% under)", "29.5% (.7%)", "30.5% (.7%)", "2.1%", "26.0% (.2%)"),
    ),
    "GMMFair": ("42.4%, 99%", "48.7%, 100%", "47.4%", "49.1%", "42.7%, gain 93%"),
    "Greedy": ("43.0%, 100%", "48.9%", "47.1%", "49.1%", "42.1%, gain 94%"),
}


def measure_cell(job: tuple[str, Column, int]) -> Manipulability:
    """Measure one cell of the first table."""
    name, column, seed = job
    return manipulability(
        MECHANISMS[name], column.sampler, seed=seed, factors=(1.1,), **column.counts
    )


def measure_markups(job: tuple[str, Column, int]) -> MarkUps:
    """Measure one cell of the second table."""
    name, column, seed = job
    return mark_ups(MECHANISMS[name], column.sampler, seed=seed, **column.counts)


def compute_by_formula(column: Column, seed: int) -> str:
    """A cell of Max-Min critical int without a search: a winner gains theta_s - price_s."""
    mechanism, pairs, touched = MaxMinFair(1.0, fractional=False), 0, 0
    gains: list[float] = []
    for number in range(FORMULA):
        costs = Bids(column.sampler(stream(seed, "formula", number)))
        outcome = mechanism.recruit(costs)
        T, before = len(outcome.winners[0]), len(gains)
        if T:
            last, following = costs.smallest(T), costs.smallest(T + 1)
            prices = [float(price or 0.0) for price in outcome.price]  # None without a winner
            for price, own, after in zip(prices, last, following, strict=True):
                theta = min(1.0 / T - sum(last) + own, after)
                if theta - price > 1e-8 * max(prices):
                    gains += [theta / price - 1] * T
        pairs += costs.values.size
        touched += len(gains) > before
    mean = f", gain {np.mean(gains):.1%}" if gains else ""
    return f"{len(gains) / pairs:.1%}, {touched / FORMULA:.0%}{mean}" if gains else "0"


def main() -> None:
    """Measure all cells and write the tables."""
    wanted = arguments(__doc__, __file__)
    wanted.add_argument("--workers", type=int, default=2, help="processes")
    wanted.add_argument("--seed", type=int, default=0, help="of all draws")
    wanted.add_argument("--quick", action="store_true", help="two instances a cell: does it run?")
    given = wanted.parse_args()
    columns, blind = (
        [dataclasses.replace(c, instances=2) if given.quick else c for c in some]
        for some in (COLUMNS, BLIND)
    )
    with ProcessPoolExecutor(given.workers) as pool:
        first = _table(pool.map, measure_cell, columns, given.seed)
        second = _table(pool.map, measure_markups, blind, given.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    data = {
        "seed": given.seed,
        "lies": [_plain(name, column, found) for (name, column), found in first.items()],
        "mark_ups": [_plain(name, column, found) for (name, column), found in second.items()],
    }
    (given.out / "table.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    text = "\n".join(_text(columns, blind, first, second, given.seed))
    (given.out / "table.md").write_text(text + "\n", encoding="utf-8")


def _table(
    run: Callable[..., Iterable[Any]],
    cell: Callable[..., Any],
    columns: Sequence[Column],
    seed: int,
) -> dict[tuple[str, str], Any]:
    jobs = [(name, column, seed) for column in columns for name in MECHANISMS]
    found = {}
    for (name, column, _), result in zip(jobs, run(cell, jobs), strict=True):
        found[name, column.name] = result
        sys.stderr.write(f"{column.name}: {name}\n")
    return found


def _plain(name: str, column: str, found: Any) -> dict[str, Any]:
    return {"mechanism": name, "market": column, **dataclasses.asdict(found)}


def _text(
    columns: Sequence[Column],
    blind: Sequence[Column],
    first: dict[tuple[str, str], Manipulability],
    second: dict[tuple[str, str], MarkUps],
    seed: int,
) -> Iterable[str]:
    yield "# Who gains by lying\n"
    yield "Made by `make experiment-manipulability`; what it means is in [README.md](README.md).\n"
    yield "## One client knows all bids and changes one of its own\n"
    yield (
        "Share of the client-task pairs that gain (in brackets: by an underbid), of the instances "
        "with such a pair, and the mean gain as a share of a winner's truthful pay. First line: in "
        "the misreported task alone; in italics: the specification's, which seems to count so; "
        "third line: in all tasks together, what matters to the client.\n"
    )
    yield "| | " + " | ".join(f"{c.name}, {c.instances} instances" for c in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name in MECHANISMS:
        cells = [
            f"{_cell(first[name, column.name].in_task)}<br>*{said}*<br>"
            f"{_cell(first[name, column.name])}"
            for column, said in zip(columns, SPECIFIED[name], strict=True)
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"
    cells = [compute_by_formula(column, seed) for column in columns]
    yield f"| Max-Min critical int by formula, {FORMULA} instances | " + " | ".join(cells) + " |"
    yield "\n## What a lie does to the min take-up\n"
    yield (
        "Mean and largest fall by the best lies that pay; largest fall by any lie tried; pairs "
        "that gain only through another task. Over all markets.\n"
    )
    yield "| | mean, paying | largest, paying | largest, any | pairs elsewhere | auctions |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in MECHANISMS:
        found = [first[name, column.name] for column in columns]
        gaining = [each.pairs_that_gain * each.pairs for each in found]
        falls = sum(n * each.mean_fall for n, each in zip(gaining, found, strict=True))
        elsewhere = sum(each.pairs_elsewhere * each.pairs for each in found)
        yield (
            f"| {name} | {falls / max(sum(gaining), 1):.3f} "
            f"| {max(each.largest_fall for each in found):.3f} "
            f"| {max(each.any_fall for each in found):.3f} "
            f"| {elsewhere / sum(each.pairs for each in found):.2%} "
            f"| {sum(each.tried for each in found):,} |"
        )
    yield "\n## Blind mark-ups\n"
    yield (
        "Expected utility of a client that bids its costs, in thousandths of the budget, and what "
        "a factor on all its bids adds to it, with twice the standard error; second line: min "
        "take-up and money spent if all clients use that factor, relative to truth.\n"
    )
    for column in blind:
        factors = list(second["GMMFair", column.name].blind)
        yield f"**{column.name}**, {column.instances} instances\n"
        yield "| | truth | " + " | ".join(f"x{factor:g}" for factor in factors) + " |"
        yield "|---" * (len(factors) + 2) + "|"
        for name in MECHANISMS:
            one = second[name, column.name]
            cells = [
                f"{1000 * (one.blind[f] - one.truthful):+.3f} ± {2000 * one.error[f]:.3f}<br>"
                f"{one.together[f][0]:.2f}, {one.together[f][1]:.2f}"
                for f in factors
            ]
            yield f"| {name} | {1000 * one.truthful:.3f} | " + " | ".join(cells) + " |"
        yield ""


def _cell(found: InTask | Manipulability) -> str:
    if not found.pairs_that_gain:
        return "0"
    gain = f", gain {found.relative_gain:.1%}" if found.relative_gain else ""
    under = f" ({found.pairs_underbid:.1%} under)" if found.pairs_underbid else ""
    return f"{found.pairs_that_gain:.1%}{under}, {found.instances_with_gain:.0%}{gain}"


if __name__ == "__main__":
    main()
