"""Verifiers of auctions: each property is a predicate and a finder of witnesses.

`is_...` answers yes or no; the `..._violation` of the same name says in one sentence where the
property is broken first, or None. They look at the outcome alone and share no code with the
auctions, so they can also check outcomes from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from mmfl.errors import InputError
from mmfl.market.bids import SLACK, Bids, at_most, check_positive
from mmfl.market.recruitment import Recruitment

__all__ = [
    "budget_violation",
    "is_budget_feasible",
    "is_individually_rational",
    "is_max_min_optimal",
    "max_min_optimum",
    "optimality_violation",
    "rationality_violation",
]


def is_budget_feasible(outcome: Recruitment, budget: float, *, per_task: bool = False) -> bool:
    """Whether the payments stay within the budget; `per_task`: within B / S for each task, too."""
    return budget_violation(outcome, budget, per_task=per_task) is None


def budget_violation(outcome: Recruitment, budget: float, *, per_task: bool = False) -> str | None:
    """What is overspent, or None."""
    B = check_positive(budget, "budget")
    _check_shapes(outcome, outcome.bids)
    tasks = outcome.bids.tasks
    spend = [_total(outcome.payment[:, s]) for s in range(len(tasks))]
    if per_task:
        share = B / len(tasks)
        for task, spent in zip(tasks, spend, strict=True):
            if not spent <= at_most(share):
                return f"task {task!r} spends {spent:.9g}, more than its share {share:.9g}"
    if not _total(spend) <= at_most(B):
        return f"{_total(spend):.9g} is spent, more than the budget {B:.9g}"
    return None


def is_individually_rational(outcome: Recruitment, bids: Any = None) -> bool:
    """Whether everybody is paid at least its bid for what it does, and nothing for nothing.

    Args:
        outcome: The auction's.
        bids: What to hold it against; by default the bids that the auction saw.
    """
    return rationality_violation(outcome, bids) is None


def rationality_violation(outcome: Recruitment, bids: Any = None) -> str | None:
    """The first client (by row, then task) that loses money or gets it for nothing, or None."""
    table = outcome.bids if bids is None else outcome.bids.read_alike(bids)
    _check_shapes(outcome, table)
    x, pay, asked = outcome.participation, outcome.payment, table.values
    joins = x > 0
    with np.errstate(invalid="ignore", over="ignore"):
        cost = np.where(joins, x * asked, 0.0)
        sound = (x >= 0) & (x <= 1) & np.isfinite(pay)
        wrong = ~sound | ~(pay * (1 + SLACK) >= cost) | (~joins & (pay != 0))
    if not wrong.any():
        return None
    row, s = np.argwhere(wrong)[0]
    who = f"client {table.clients[row]!r}, task {table.tasks[s]!r}"
    if not sound[row, s]:
        return f"{who}: participation {x[row, s]:g} and payment {pay[row, s]:g} are not valid"
    if not joins[row, s]:
        return f"{who} is paid {pay[row, s]:.9g} without taking part"
    if math.isinf(asked[row, s]):
        return f"{who} is unwilling, yet takes part"
    part = "" if x[row, s] == 1 else f" times its participation {x[row, s]:.9g}"
    return f"{who} is paid {pay[row, s]:.9g}, less than its bid {asked[row, s]:.9g}{part}"


def max_min_optimum(bids: Any, budget: float) -> int:
    """The largest number of clients that every task can have at once if each is paid its bid.

    The max-min problem asks for the largest t such that t clients can be chosen for every task and
    all their bids add up to at most B. For a given t the t lowest bids of each task are the
    cheapest choice, and their cost rises with t; so the answer is found by halving, with exactly
    rounded sums.
    """
    table, B = Bids.of(bids), check_positive(budget, "budget")
    columns = [column[np.isfinite(column)] for column in table.values.T]
    low, high = 0, min(len(column) for column in columns)
    while low < high:
        t = (low + high + 1) // 2
        cost = _total([_total(np.partition(column, t - 1)[:t]) for column in columns])
        low, high = (t, high) if cost <= at_most(B) else (low, t - 1)
    return low


def is_max_min_optimal(outcome: Recruitment, budget: float) -> bool:
    """Whether no other choice within the budget, paid by its bids, gives the worst task more."""
    return optimality_violation(outcome, budget) is None


def optimality_violation(outcome: Recruitment, budget: float) -> str | None:
    """The task that could have more full clients if all were paid their bids, or None."""
    _check_shapes(outcome, outcome.bids)
    best = max_min_optimum(outcome.bids, budget)
    for task, found in zip(outcome.bids.tasks, outcome.take_up.tolist(), strict=True):
        if not found * (1 + SLACK) >= best:
            return f"task {task!r} recruits {found:g} clients; {best} for every task are affordable"
    return None


def _check_shapes(outcome: Recruitment, table: Bids) -> None:
    for name in ("participation", "payment"):
        shape = np.shape(getattr(outcome, name))
        if shape != table.shape:
            N, S = table.shape
            raise InputError(f"{name} must be {N} clients x {S} tasks like the bids, got {shape}")


def _total(amounts: Iterable[float]) -> float:
    """Their sum, rounded once; inf if a float cannot hold it."""
    try:
        return math.fsum(amounts)
    except (OverflowError, ValueError):
        return math.inf
