"""MMFL Max-Min Fair: recruit for all tasks alike, within one budget (the paper's Algorithm 3).

As printed, Algorithm 3 overspends and pays winners less than they bid. This is the repaired rule in
closed form: one sort of the bids, then arithmetic over the S tasks. `mmfl.market.by_rounds` has the
same rule round by round, as the paper tells it; tests hold the two against each other.
docs/explanation/auctions.md says what was repaired, and why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmfl.config import Flag, Positive, component
from mmfl.market.bids import SLACK, Bids, at_most, check_positive
from mmfl.market.budget_fair import Payment
from mmfl.market.options import check_choice, check_flag
from mmfl.market.recruitment import Fraction, Recruitment, Stop, recruit_cheapest

__all__ = ["MaxMinFair", "max_min_fair", "water_fill"]


def max_min_fair(
    bids: Any, budget: float, *, payment: Payment = "critical", fractional: bool = True
) -> Recruitment:
    """Recruit the same number of clients for every task, plus one fractional client.

    The funds of the tasks, B / S each at first, move in rounds: in round t every task needs
    t * b(t, s) to pay t clients the price b(t, s), and tasks that have more lend to those that have
    less, those with the most funds first. The funds always add up to B, so:

    1. T is the largest t with t * sum_s b(t, s) <= B; the T lowest bidders of every task win.
    2. The funds then are B_s = max(T * b(T, s), lam), with lam such that they add up to B.
    3. With `fractional`, the tasks that can afford one more client recruit it (donors). The rest of
       their funds buys the same fraction of the next client of every other task.
    4. Every winner of a task is paid the same: money_s / k_s ("share"), or
       min(money_s / k_s, b(k_s + 1, s)) ("critical").

    Args:
        bids: N x S, anything array-like; inf or None = unwilling.
        budget: B, shared by all tasks.
        payment: "critical" or "share".
        fractional: Whether to spend the rest on fractional clients (step 3). False gives all tasks
            the same number of clients, and fewer ways to gain by a false bid.
    """
    table, B = Bids.of(bids), check_positive(budget, "budget")
    check_choice(payment, ("critical", "share"), "payment")
    check_flag(fractional, "fractional")
    N, S = table.shape
    with np.errstate(over="ignore"):
        need = np.arange(1, N + 2) * table.ascending.sum(axis=0)  # t * sum_s b(t, s)
    T = int(np.searchsorted(need, at_most(B), "right"))
    floors = [T * bid for bid in table.smallest(T)] if T else [0.0] * S
    funds = water_fill(floors, [math.inf] * S, B)
    if fractional:
        end = _last_round(table, T, funds, own_savings=payment == "critical")
    else:
        end = _Ending([T] * S, funds, [None] * S)
    price = [money / max(k, 1) for money, k in zip(end.money, end.counts, strict=True)]
    if payment == "critical":
        following = table.smallest(np.array(end.counts) + 1)
        price = [min(p, bid) for p, bid in zip(price, following, strict=True)]
    stop: Stop = "exhausted" if table.willing.min() <= T else "budget"
    return recruit_cheapest(table, end.counts, price, fractional=end.fractional, stop=stop)


@dataclass(frozen=True)
class _Ending:
    """How many win each task, what money pays them, and who joins in part."""

    counts: list[int]
    money: list[float]
    fractional: list[Fraction | None]


def _last_round(bids: Bids, T: int, funds: list[float], *, own_savings: bool) -> _Ending:
    """The partial round t = T + 1: donors take their next client, the others a part of theirs."""
    t = T + 1
    b = bids.smallest(t)
    end = _Ending([T] * len(b), list(funds), [None] * len(b))
    # Tasks without a t-th bidder keep their funds for their T winners, and take no part.
    served = [s for s, bid in enumerate(b) if bid < math.inf]
    donors = [s for s in served if t * b[s] <= at_most(funds[s])]
    needy = [s for s in served if t * b[s] > at_most(funds[s])]

    own = [0.0] * len(needy)  # what a needy task can spend on its own
    if T == 0:
        own = [funds[s] for s in needy]
    elif own_savings:  # its T winners are paid b(t, s) at most: the rest of the funds is saved
        own = [max(0.0, funds[s] - T * b[s]) for s in needy]
    lack = [b[s] - has for s, has in zip(needy, own, strict=True)]
    floors = [t * b[s] for s in donors]
    spare = sum(max(0.0, funds[s] - floor) for s, floor in zip(donors, floors, strict=True))  # C
    given = min(spare, sum(lack))  # M
    gifts = water_fill([0.0] * len(needy), lack, given)
    for s, has, gift in zip(needy, own, gifts, strict=True):
        pay = min(has + gift, b[s])
        if pay > SLACK * b[s]:  # less is nobody: dust of rounding
            end.fractional[s] = Fraction(int(bids.order[s, T]), pay / b[s], pay)

    full = [max(floor, funds[s]) for s, floor in zip(donors, floors, strict=True)]
    kept = water_fill(floors, full, sum(full) - given)
    for s, money in zip(donors, kept, strict=True):
        end.counts[s], end.money[s] = t, money
    return end


def water_fill(low: Sequence[float], high: Sequence[float], total: float) -> list[float]:
    """Raise values from `low` to one common level, at most to `high`, until they add up to `total`.

    If the sum of `low` is already larger, the result is `low`; if the sum of `high` is smaller, it
    is `high`. This is level waterfilling (section 5.1 of the specification), for raising and for
    lowering.
    """
    marks = [(bottom, 1) for bottom in low] + [(rim, -1) for rim in high if rim < math.inf]
    level, held, open_ = min(low, default=0.0), sum(low), 0
    for mark, change in sorted(marks):
        more = (mark - level) * open_
        if held + more > total:
            break
        level, held, open_ = mark, held + more, open_ + change
    if open_ and total > held:
        level += (total - held) / open_
    return [min(max(level, bottom), rim) for bottom, rim in zip(low, high, strict=True)]


@component
class MaxMinFair:
    """The paper's MMFL Max-Min Fair auction, repaired.

    Attributes:
        budget: B, shared by all tasks.
        payment: "critical", or "share" (the printed price rule).
        fractional: Whether the rest of the budget buys fractions of clients.
    """

    budget: Positive
    payment: Payment = "critical"
    fractional: Flag = True

    def recruit(self, bids: Any) -> Recruitment:
        """See `max_min_fair`."""
        return max_min_fair(bids, self.budget, payment=self.payment, fractional=self.fractional)
