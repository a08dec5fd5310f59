"""Mechanisms side by side: over budgets, and over seeds of simulated bids."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmfl.errors import InputError
from mmfl.market.bids import Bids
from mmfl.market.recruitment import Mechanism

__all__ = ["Contest", "Result", "contest", "with_budget"]


@dataclass(frozen=True)
class Result:
    """What one mechanism did with one table of bids.

    Attributes:
        mechanism: Its name in the contest.
        budget: B; also given where the mechanism ignores it.
        seed: Of the bids; None if they were given.
        take_up: Per task.
        spent: Of all payments.
        within: Whether it stayed within the budget.
    """

    mechanism: str
    budget: float
    seed: int | None
    take_up: tuple[float, ...]
    spent: float
    within: bool

    @property
    def min_take_up(self) -> float:
        """The take-up of the task that recruited least."""
        return min(self.take_up)

    @property
    def difference(self) -> float:
        """The largest take-up minus the smallest."""
        return max(self.take_up) - min(self.take_up)


@dataclass(frozen=True)
class Contest:
    """All results, and their means over seeds.

    Attributes:
        tasks: The names.
        mechanisms: The names, in order.
        budgets: Ascending.
        results: One for each mechanism, budget and table of bids.
    """

    tasks: tuple[str, ...]
    mechanisms: tuple[str, ...]
    budgets: tuple[float, ...]
    results: tuple[Result, ...]

    def of(self, mechanism: str, budget: float) -> list[Result]:
        """The results of a mechanism with a budget, one for each seed."""
        return [r for r in self.results if (r.mechanism, r.budget) == (mechanism, budget)]

    def mean(self, mechanism: str, budget: float, quantity: str) -> float:
        """A quantity's mean over seeds: "min_take_up", "difference" or "spent"."""
        return statistics.fmean(getattr(r, quantity) for r in self.of(mechanism, budget))

    def data(self) -> list[dict[str, Any]]:
        """Plain data for JSON: one object for each result."""
        return [
            {
                "mechanism": r.mechanism,
                "budget": r.budget,
                "seed": r.seed,
                "take_up": dict(zip(self.tasks, r.take_up, strict=True)),
                "min_take_up": r.min_take_up,
                "difference": r.difference,
                "spent": r.spent,
                "within_budget": r.within,
            }
            for r in self.results
        ]


def with_budget(mechanism: Mechanism, budget: float) -> Mechanism:
    """The same mechanism with another budget; itself if it has none."""
    if not dataclasses.is_dataclass(mechanism) or not hasattr(mechanism, "budget"):
        return mechanism
    changed: Mechanism = dataclasses.replace(mechanism, budget=budget)
    return changed


def contest(
    mechanisms: Mapping[str, Mechanism],
    tables: Mapping[int | None, Bids],
    budgets: Sequence[float],
) -> Contest:
    """Run every mechanism on every table with every budget.

    Args:
        mechanisms: By name; their own budgets are replaced.
        tables: Bids by seed, all with the same tasks; None for bids that were given.
        budgets: The budgets.
    """
    if not mechanisms or not tables or not budgets:
        raise InputError("a contest needs mechanisms, bids and budgets")
    tasks = {table.tasks for table in tables.values()}
    if len(tasks) > 1:
        raise InputError("all tables of a contest must have the same tasks")

    def results() -> Iterator[Result]:
        for name, mechanism in mechanisms.items():
            for budget in ordered:
                for seed, table in tables.items():
                    outcome = with_budget(mechanism, budget).recruit(table)
                    spent = outcome.spent
                    take_up = tuple(outcome.take_up.tolist())
                    within = spent <= budget * (1 + 1e-9)
                    yield Result(name, budget, seed, take_up, spent, within)

    ordered = sorted(set(map(float, budgets)))
    return Contest(tasks.pop(), tuple(mechanisms), tuple(ordered), tuple(results()))
