"""MMFL Max-Min Fair round by round: the paper's Algorithm 3, corrected, in exact arithmetic.

Slow and plain: it reads like the pseudocode, with the lines of Algorithm 3 in the margin and the
repairs marked. `mmfl.market.max_min_fair` is the fast version. Every number is a rational, so no
decision depends on rounding; the one tolerance, the budget's, is the specification's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction as Q
from itertools import count as count_from
from typing import Any

import numpy as np

from mmfl.market.bids import SLACK, Bids, check_positive
from mmfl.market.budget_fair import Payment
from mmfl.market.options import check_choice, check_flag
from mmfl.market.recruitment import Fraction, Recruitment, Stop

__all__ = ["Round", "max_min_fair_by_rounds", "rounds_of"]

Money = dict[int, Q]  # by task


@dataclass(frozen=True)
class Round:
    """One round of Algorithm 3.

    Attributes:
        t: Its number.
        funds: B_s before the round.
        need: t * b(t, s), what a task must have so that its t-th user joins; a task without a t-th
            bidder is left out.
        poor: S_{t-1}: tasks whose t-th user cannot join from their own funds.
        rich: S_t: tasks whose t-th user can.
        A: What the poor lack.
        C: What the rich have left.
        after: B_s after the round; as before if the auction ends with it.
        ends: Whether the auction ends with it: the money does not suffice, or bidders do not.
    """

    t: int
    funds: Money
    need: Money
    poor: tuple[int, ...]
    rich: tuple[int, ...]
    A: Q
    C: Q
    after: Money
    ends: bool


def max_min_fair_by_rounds(
    bids: Any, budget: float, *, payment: Payment = "critical", fractional: bool = True
) -> Recruitment:
    """The same as `mmfl.market.max_min_fair`, told as the paper tells it; for small tables."""
    table, B = Bids.of(bids), Q(check_positive(budget, "budget"))
    check_choice(payment, ("critical", "share"), "payment")
    check_flag(fractional, "fractional")
    order = _order(table)
    *_, last = rounds_of(table, B)
    funds, count = dict(last.funds), dict.fromkeys(order, last.t - 1)
    parts: dict[int, Fraction] = {}
    if fractional:  # lines 17-20
        parts, given = _fractions(table, last, payment)
        rich = _affords(last)
        funds |= _lower({s: funds[s] for s in rich}, last.need, given)  # C is paid by the rich
        count |= dict.fromkeys(rich, last.t)
    stop: Stop = "exhausted" if len(last.need) < len(order) else "budget"
    return _pay(table, {s: order[s][: count[s]] for s in order}, funds, parts, payment, stop)


def rounds_of(bids: Any, budget: float | Q) -> Iterator[Round]:
    """The rounds of Algorithm 3, lines 1-16; the last one yielded is the one that fails."""
    table, B = Bids.of(bids), Q(budget)
    order = _order(table)  # line 2
    S = tuple(order)
    slack = Q(SLACK) * B
    funds: Money = {s: B / len(S) for s in S}  # line 1; printed B / s, which adds up to more than B
    for t in count_from(1):  # line 3
        need = {s: t * Q(table.values[order[s][t - 1], s]) for s in S if t <= len(order[s])}
        poor = tuple(s for s in need if need[s] > funds[s])  # line 6; printed b <= B / t, not B_s/t
        rich = tuple(s for s in need if need[s] <= funds[s])
        A = sum((need[s] - funds[s] for s in poor), Q(0))  # line 12
        C = sum((funds[s] - need[s] for s in rich), Q(0))  # line 13
        ends = len(need) < len(S) or C + slack < A  # line 14; printed A < C refuses an exact fit
        after = funds
        if not ends:  # line 15
            after = _lower({s: funds[s] for s in rich}, need, A) | {s: need[s] for s in poor}
        yield Round(t, funds, need, poor, rich, A, C, after, ends)
        if ends:
            return
        funds = after


def _order(table: Bids) -> dict[int, list[int]]:
    """Per task, the willing users by ascending bid, equal bids by ascending row."""
    order = {}
    for s, asked in enumerate(table.values.T.tolist()):
        willing = (i for i, bid in enumerate(asked) if bid < float("inf"))
        order[s] = sorted(willing, key=asked.__getitem__)
    return order


def _affords(last: Round) -> list[int]:
    """Tasks whose t-th user joins in the partial round, from their own funds."""
    return [s for s in last.need if last.need[s] <= last.funds[s] * (1 + Q(SLACK))]


def _fractions(table: Bids, last: Round, payment: Payment) -> tuple[dict[int, Fraction], Q]:
    """Lines 17-20: the users that join in part, and what of their pay the rich tasks give."""
    T, order = last.t - 1, _order(table)
    rich = _affords(last)
    b = {s: last.need[s] / last.t for s in last.need if s not in rich}
    C = sum((max(Q(0), last.funds[s] - last.need[s]) for s in rich), Q(0))
    own = {s: _own(last.funds[s], T, b[s], payment) for s in b}
    gift = _share({s: b[s] - own[s] for s in b}, C)  # printed C / |S_{t-1}|, the rest lost
    pay = {s: own[s] + gift[s] for s in b}
    parts = {
        s: Fraction(order[s][T], float(pay[s] / b[s]), float(pay[s]))
        for s in b
        if pay[s] > Q(SLACK) * b[s]  # less is nobody
    }
    return parts, sum(gift.values(), Q(0))


def _pay(
    table: Bids,
    winners: Mapping[int, list[int]],
    funds: Money,
    parts: Mapping[int, Fraction],
    payment: Payment,
    stop: Stop,
) -> Recruitment:
    """Line 8, after the last round; printed p = B_s / t at the time of joining overspends."""
    participation, paid = np.zeros(table.shape), np.zeros(table.shape)
    price: list[float | None] = []
    order = _order(table)
    for s, rows in winners.items():
        price.append(None)
        if rows:
            share = funds[s] / len(rows)
            if payment == "critical" and len(rows) < len(order[s]):
                share = min(share, Q(table.values[order[s][len(rows)], s]))
            price[s] = max(float(share), float(table.values[rows[-1], s]))
            participation[rows, s], paid[rows, s] = 1.0, price[s]
        if s in parts:
            user, x, pay = parts[s]
            participation[user, s], paid[user, s] = x, pay
    return Recruitment(
        bids=table,
        participation=participation,
        payment=paid,
        winners=tuple(np.array(rows, dtype=np.int64) for rows in winners.values()),
        price=tuple(price),
        fractional=tuple(parts.get(s) for s in winners),
        stop=stop,
    )


def _own(funds: Q, T: int, b: Q, payment: Payment) -> Q:
    """What a poor task can spend on its fractional user before others give."""
    if T == 0:
        return funds
    return max(Q(0), funds - T * b) if payment == "critical" else Q(0)


def _lower(funds: Money, floor: Mapping[int, Q], amount: Q) -> Money:
    """Purses after `amount` was taken: the fullest are lowered together, none below its floor."""
    funds = dict(funds)
    while amount > 0:
        above = [s for s in funds if funds[s] > floor[s]]
        if not above:  # the budget's tolerance: nothing is left to take
            break
        top = max(funds[s] for s in above)
        fullest = [s for s in above if funds[s] == top]
        below = max([floor[s] for s in fullest] + [funds[s] for s in above if funds[s] < top])
        step = min(top - below, amount / len(fullest))
        for s in fullest:
            funds[s] -= step
        amount -= step * len(fullest)
    return funds


def _share(lack: Mapping[int, Q], amount: Q) -> Money:
    """Gifts that add up to `amount`: all alike, none above what lacks, the rest split again."""
    gift = dict.fromkeys(lack, Q(0))
    while amount > 0:
        open_ = [s for s in lack if gift[s] < lack[s]]
        if not open_:
            break
        step = min([amount / len(open_), *(lack[s] - gift[s] for s in open_)])
        for s in open_:
            gift[s] += step
        amount -= step * len(open_)
    return gift
