"""Mechanisms side by side: over budgets, and over seeds of simulated bids."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mmfl.errors import InputError
from mmfl.market.bids import Bids, at_most
from mmfl.market.recruitment import Mechanism, has_budget, replace_budget
from mmfl.system.user_code import guard_part

__all__ = ["Contest", "Result", "auctions", "contest", "make_contest"]


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
        unbudgeted: The names of the mechanisms that have no budget: whatever it is, they do the
            same.
    """

    tasks: tuple[str, ...]
    mechanisms: tuple[str, ...]
    budgets: tuple[float, ...]
    results: tuple[Result, ...]
    unbudgeted: frozenset[str] = frozenset()

    @cached_property
    def _by_mechanism(self) -> dict[tuple[str, float], list[Result]]:
        groups: dict[tuple[str, float], list[Result]] = {}
        for result in self.results:
            groups.setdefault((result.mechanism, result.budget), []).append(result)
        return groups

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the simulated bids, in order; none if the bids were given."""
        return tuple(dict.fromkeys(r.seed for r in self.results if r.seed is not None))

    def of(self, mechanism: str, budget: float) -> list[Result]:
        """The results of a mechanism with a budget, one for each seed."""
        return list(self._by_mechanism.get((mechanism, budget), ()))

    def values(self, mechanism: str, budget: float, quantity: str) -> list[float]:
        """By seed: "min_take_up", "difference" or "spent"."""
        return [getattr(r, quantity) for r in self.of(mechanism, budget)]

    def mean(self, mechanism: str, budget: float, quantity: str) -> float:
        """A quantity's mean over seeds."""
        return statistics.fmean(self.values(mechanism, budget, quantity))

    def data(self) -> dict[str, Any]:
        """Plain data for JSON: what was compared, and one object for each result."""
        return {
            "tasks": list(self.tasks),
            "mechanisms": list(self.mechanisms),
            "without_budget": sorted(self.unbudgeted),
            "budgets": list(self.budgets),
            "seeds": list(self.seeds),
            "results": [
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
            ],
        }


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
    tables = {seed: Bids.of(table) for seed, table in tables.items()}
    return make_contest(mechanisms, tables, budgets, auctions(mechanisms, tables, budgets))


def auctions(
    mechanisms: Mapping[str, Mechanism],
    tables: Mapping[int | None, Bids],
    budgets: Sequence[float],
) -> Iterator[Result]:
    """The auctions of a contest, one after the other, so that progress can be shown."""
    if not mechanisms or not tables or not budgets:
        raise InputError("a contest needs mechanisms, bids and budgets")
    if len({table.tasks for table in tables.values()}) > 1:
        raise InputError("all tables of a contest must have the same tasks")
    return (
        _result(name, mechanism, budget, seed, table)
        for name, mechanism in mechanisms.items()
        for budget in _sort_budgets(budgets)
        for seed, table in tables.items()
    )


def make_contest(
    mechanisms: Mapping[str, Mechanism],
    tables: Mapping[int | None, Bids],
    budgets: Sequence[float],
    results: Iterable[Result],
) -> Contest:
    """The contest, from what `auctions` yielded."""
    return Contest(
        tasks=next(iter(tables.values())).tasks,
        mechanisms=tuple(mechanisms),
        budgets=_sort_budgets(budgets),
        results=tuple(results),
        unbudgeted=frozenset(name for name, m in mechanisms.items() if not has_budget(m)),
    )


def _sort_budgets(budgets: Sequence[float]) -> tuple[float, ...]:
    return tuple(sorted(set(map(float, budgets))))


def _result(
    name: str, mechanism: Mechanism, budget: float, seed: int | None, table: Bids
) -> Result:
    with guard_part("mechanism", mechanism, kind=InputError):
        outcome = replace_budget(mechanism, budget).recruit(table)
    spent = outcome.spent
    within = spent <= at_most(budget)
    return Result(name, budget, seed, tuple(outcome.take_up.tolist()), spent, within)
