"""The baselines of Experiment 5: a posted price, and two ways to spend B / S on each task."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.config import Natural, Positive, component, short
from mmfl.errors import InputError
from mmfl.market.bids import Bids, Ints, at_most, check_positive
from mmfl.market.recruitment import Recruitment, recruit_cheapest

__all__ = [
    "GreedyWithinBudget",
    "RandomWithinBudget",
    "ValueThreshold",
    "greedy_within_budget",
    "random_within_budget",
    "value_threshold",
]


def value_threshold(bids: Any, threshold: float) -> Recruitment:
    """A posted price: every client that asks for less than `threshold` joins and is paid it.

    Args:
        bids: N x S, anything array-like; inf or None = unwilling.
        threshold: The price theta; there is no budget.
    """
    table, theta = Bids.of(bids), check_positive(threshold, "threshold")
    k = np.array([np.searchsorted(row, theta, "left") for row in table.ascending])
    return recruit_cheapest(table, k, [theta] * table.shape[1])


def greedy_within_budget(bids: Any, budget: float) -> Recruitment:
    """For each task, the cheapest clients join while their bids add up to at most B / S.

    Args:
        bids: N x S, anything array-like; inf or None = unwilling.
        budget: B, shared equally by the tasks. The rest is not spent.
    """
    table, B = Bids.of(bids), check_positive(budget, "budget")
    limit = at_most(B / table.shape[1])
    with np.errstate(over="ignore"):
        k = [np.searchsorted(row.cumsum(), limit, "right") for row in table.ascending]
    return recruit_cheapest(table, k, None)


def random_within_budget(
    bids: Any, budget: float, *, order: Any = None, seed: int = 0
) -> Recruitment:
    """For each task, willing clients join in random order until one does not fit into B / S.

    Args:
        bids: N x S, anything array-like; inf or None = unwilling.
        budget: B, shared equally by the tasks. The rest is not spent.
        order: S permutations of all clients; by default they are drawn.
        seed: Of the draws: task by task from one generator, ``default_rng(seed).permutation(N)``.
    """
    table, B = Bids.of(bids), check_positive(budget, "budget")
    N, S = table.shape
    orders = _draw_orders(seed, N, S) if order is None else _check_orders(order, N, S)
    limit = at_most(B / S)
    joins = np.zeros((N, S), dtype=bool)
    winners = []
    for s, rows in enumerate(orders):
        asked = table.values[rows, s]
        willing = np.isfinite(asked)
        rows, asked = rows[willing], asked[willing]  # noqa: PLW2901
        with np.errstate(over="ignore"):
            fit = rows[: np.searchsorted(asked.cumsum(), limit, "right")]
        joins[fit, s] = True
        winners.append(fit)
    return Recruitment(
        bids=table,
        participation=joins.astype(np.float64),
        payment=np.where(joins, table.values, 0.0),
        winners=tuple(winners),
        price=(None,) * S,
        fractional=(None,) * S,
    )


def _draw_orders(seed: object, N: int, S: int) -> list[Ints]:
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, got {short(seed)}")
    rng = np.random.default_rng(int(seed))
    return [rng.permutation(N) for _ in range(S)]


def _check_orders(order: Any, N: int, S: int) -> list[Ints]:
    try:
        rows = [np.asarray(one) for one in order]
    except (TypeError, ValueError):
        rows = []
    if len(rows) != S:
        raise InputError(f"order must have one permutation for each of the {S} tasks")
    for s, row in enumerate(rows):
        whole = row.ndim == 1 and (row.dtype.kind in "iu" or not len(row))
        if not whole or not np.array_equal(np.sort(row), np.arange(N)):
            raise InputError(f"order[{s}] must be a permutation of 0 to {N - 1}, got {short(row)}")
    return [row.astype(np.int64) for row in rows]


@component
class ValueThreshold:
    """A posted price without a budget.

    Attributes:
        threshold: The price; clients that bid less join.
    """

    threshold: Positive

    def recruit(self, bids: Any) -> Recruitment:
        """See `value_threshold`."""
        return value_threshold(bids, self.threshold)


@component
class GreedyWithinBudget:
    """The cheapest clients of each task within B / S, each paid its bid.

    Attributes:
        budget: B, shared equally by the tasks.
    """

    budget: Positive

    def recruit(self, bids: Any) -> Recruitment:
        """See `greedy_within_budget`."""
        return greedy_within_budget(bids, self.budget)


@component
class RandomWithinBudget:
    """Clients in random order within B / S, each paid its bid.

    Attributes:
        budget: B, shared equally by the tasks.
        seed: Seed of the random order.
    """

    budget: Positive
    seed: Natural = 0

    def recruit(self, bids: Any) -> Recruitment:
        """See `random_within_budget`."""
        return random_within_budget(bids, self.budget, seed=self.seed)
