"""Does anybody gain by lying? A search for the best false bid of one client who knows all others.

The paper's theorem "Untruthfulness Conditions" says in which rounds of Algorithm 3 an overbid pays;
this search knows nothing of rounds and asks any mechanism the same question. One task at a time it
tries

1. every other client's bid, just below it, just above it, and the middle between two neighbours;
2. a grid, zero, and withdrawal;
3. the edges where the client passes from winning fully to winning in part, or to losing, found by
   halving: these are the thresholds B / (S t), B / t - sum of the others' b(t, s') and the like,
   whatever the mechanism's formula for them;
4. bids around the best one so far, closer and closer;

and then common mark-ups over all tasks. Lies of several tasks by different factors are not tried.
So what it finds is a *lower bound* on what a liar can gain: it can prove that a mechanism is not
truthful, and never that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mmfl.config import short
from mmfl.errors import InputError
from mmfl.market.bids import SLACK, Bids
from mmfl.market.options import check_count
from mmfl.market.recruitment import Mechanism, Recruitment

__all__ = ["MARKUPS", "Response", "Rule", "best_response", "function_of", "responses"]

Rule = Mechanism | Callable[[Bids], Recruitment]
"""A mechanism, or any function from bids to a `Recruitment`."""

MARKUPS = (0.5, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0)
"""Factors by which a client multiplies all its bids at once."""

BidRow = tuple[float, ...]  # what the client bids, by task

_NUDGE = 1e-7  # how far "just below" another bid is, relative to that bid
_GRID = 24
_FEWEST = 8
_DOUBLINGS = 40  # beyond the highest bid, for mechanisms that pay whatever is asked
_CLOSE = 1e-10  # how near to each other the two sides of an edge are, relative to the bid
_HALVINGS = 60  # at most: an edge at zero has no relative distance
_HIGHEST = 1e300
_ZOOMS = 6


@dataclass(frozen=True)
class Response:
    """The best false bid that was found for a client.

    Attributes:
        user: Its row.
        task: The one task in which it lies; None: it multiplies all its bids by one factor.
        bids: What it should bid; its costs, if no lie was found that pays.
        truthful: Its utility if it bids its costs.
        utility: Its utility with `bids`.
        underbid: The largest gain by a lie below the cost; 0 if there is none.
        in_task: The largest gain in the utility of `task` alone, whatever becomes of the other
            tasks; 0 if there is none, or no such task.
        in_task_underbid: The same by a lie below the cost.
        take_up: The min take-up if it bids its costs, and with `bids`.
        lowest: The lowest min take-up that any lie brought, whether it pays or not.
        tried: How many auctions were run for all responses of the client.
    """

    user: int
    task: int | None
    bids: tuple[float, ...]
    truthful: float
    utility: float
    underbid: float
    in_task: float
    in_task_underbid: float
    take_up: tuple[float, float]
    lowest: float
    tried: int

    @property
    def gain(self) -> float:
        """What the lie adds; 0 if none was found that pays."""
        return self.utility - self.truthful


def best_response(
    mechanism: Rule, costs: Any, user: int | str, *, most: int | None = None
) -> Response:
    """The best false bid found for a client, if all others bid their costs: a lower bound.

    Args:
        mechanism: A mechanism with its options, such as ``BudgetFair(29.0)``, or a function from
            `Bids` to a `Recruitment`.
        costs: N x S true costs; inf = unwilling.
        user: The row of the client, or its name.
        most: Try at most about this many bids per task; by default all that can matter.
    """
    return max(responses(mechanism, costs, user, most=most), key=lambda found: found.gain)


def responses(
    mechanism: Rule, costs: Any, user: int | str, *, most: int | None = None
) -> tuple[Response, ...]:
    """The best lie in each task that the client is willing to train, and last in all at once."""
    table = Bids.of(costs)
    named = isinstance(user, str) and user in table.clients
    row = table.clients.index(user) if named else user
    whole = isinstance(row, int | np.integer) and not isinstance(row, bool)
    if isinstance(row, str) or not whole or not 0 <= row < table.shape[0]:
        last = table.shape[0] - 1
        rule = f"a row of the costs, 0 to {last}, or a client's name"
        raise InputError(f"user must be {rule}, got {short(user)}")
    if most is not None:
        check_count(most, "most")
    search = _LieSearch(function_of(mechanism), table, int(row))
    lies = {s: search.lies_in(s, most) for s, cost in enumerate(search.true) if cost < np.inf}
    mark_ups = [tuple(cost * factor for cost in search.true) for factor in MARKUPS]
    found = [*(search.best(rows, s) for s, rows in lies.items()), search.best(mark_ups, None)]
    return tuple(replace(each, tried=found[-1].tried) for each in found)


def function_of(mechanism: Rule) -> Callable[[Bids], Recruitment]:
    """The mechanism as a function from bids to a `Recruitment`."""
    found = getattr(mechanism, "recruit", mechanism)
    if not callable(found):
        rule = "a mechanism must have a `recruit` method or be a function"
        raise InputError(f"{rule}, got {short(mechanism)}")
    return found


class _Tried(NamedTuple):
    """What one row of bids brings the client.

    Attributes:
        utility: (S) pay - x * cost, for each task.
        place: (S) 0: not recruited, 1: in part, 2: fully, for each task.
        take_up: The min take-up.
        worth: The largest payment to anybody: gains that are tiny compared with it are rounding.
    """

    utility: list[float]
    place: list[int]
    take_up: float
    worth: float


class _LieSearch:
    """The search for one client's best lie; all others bid their costs."""

    def __init__(self, rule: Callable[[Bids], Recruitment], costs: Bids, user: int) -> None:
        self._rule = rule
        self._costs = costs
        self._user = user
        self._known: dict[BidRow, _Tried] = {}
        self.true: BidRow = tuple(costs.values[user].tolist())
        self._truth = self._try(self.true)

    def best(self, rows: Iterable[BidRow], task: int | None) -> Response:
        """The best of some rows of bids."""
        honest = sum(self._truth.utility)
        best, bids, take_up = honest, self.true, self._truth.take_up
        under, in_task, in_task_under, lowest = 0.0, 0.0, 0.0, self._truth.take_up
        for row in rows:
            found = self._try(row)
            lowest = min(lowest, found.take_up)
            dust = 10 * SLACK * max(found.worth, self._truth.worth)
            below = all(bid <= cost for bid, cost in zip(row, self.true, strict=True))
            if task is not None:
                own = found.utility[task] - self._truth.utility[task]
                in_task = max(in_task, own if own > dust else 0.0)
                in_task_under = max(in_task_under, own if own > dust and below else 0.0)
            utility = sum(found.utility)
            if not utility - honest > dust:
                continue
            if below:
                under = max(under, utility - honest)
            if utility > best:
                best, bids, take_up = utility, row, found.take_up
        return Response(
            user=self._user,
            task=task,
            bids=bids,
            truthful=honest,
            utility=best,
            underbid=under,
            in_task=in_task,
            in_task_underbid=in_task_under,
            take_up=(self._truth.take_up, take_up),
            lowest=lowest,
            tried=len(self._known),
        )

    def lies_in(self, s: int, most: int | None) -> list[BidRow]:
        """Rows that differ from the costs in task s, with all bids that can matter."""
        tried = self._candidates(s, most)
        tried += self._beyond(s, tried[-1])
        edges = [bid for low, high in pairwise(tried) for bid in self._edges(s, low, high)]
        tried = sorted({*tried, *edges})
        for _ in range(_ZOOMS):
            gains = [self._gain(s, bid) for bid in tried]
            place = max(range(len(tried)), key=gains.__getitem__)
            if gains[place] <= 0:
                break
            around = tried[max(place - 1, 0) : place + 2]
            tried = sorted({*tried, *np.linspace(around[0], around[-1], 9).tolist()})
        return [self._row(s, bid) for bid in [*tried, np.inf]]

    def _candidates(self, s: int, most: int | None) -> list[float]:
        """Finite bids, ascending, at which something can change or that lie in between."""
        others = np.delete(self._costs.values[:, s], self._user)
        others = np.unique(others[np.isfinite(others)])
        if most is not None and len(others) > max(most - _GRID, _FEWEST) // 4:
            keep = np.linspace(0, len(others) - 1, max(most - _GRID, _FEWEST) // 4)
            others = others[np.unique(keep.round().astype(int))]
        known = max(self.true[s], self._truth.worth, others.max(initial=0.0))
        top = min(1.25 * float(known), _HIGHEST) or 1.0
        with np.errstate(over="ignore"):  # what is too large is left out
            near = [others, others * (1 - _NUDGE), others * (1 + _NUDGE)]
            between = (others[1:] + others[:-1]) / 2
        grid = np.linspace(0.0, top, _GRID)
        found = np.concatenate([*near, between, grid, [self.true[s]]])
        return [float(bid) for bid in np.unique(found[found < np.inf])]

    def _beyond(self, s: int, top: float) -> list[float]:
        """Higher and higher bids, until the client is no more recruited than if it withdrew."""
        found: list[float] = []
        while len(found) < _DOUBLINGS and self._place(s, top) != self._place(s, np.inf):
            top *= 2
            if math.isinf(top):
                break
            found.append(top)
        return found

    def _edges(self, s: int, low: float, high: float) -> list[float]:
        """Pairs of bids, very near to each other, between which the client's place changes."""
        found: list[float] = []
        for _ in range(2):  # from fully to in part, and from there to not at all
            place, above = self._place(s, low), high
            if place == self._place(s, high):
                break
            for _ in range(_HALVINGS):
                if above - low <= _CLOSE * above:
                    break
                middle = (low + above) / 2
                low, above = (middle, above) if self._place(s, middle) == place else (low, middle)
            found += [low, above]
            low = above
        return found

    def _place(self, s: int, bid: float) -> int:
        return self._try(self._row(s, bid)).place[s]

    def _gain(self, s: int, bid: float) -> float:
        return sum(self._try(self._row(s, bid)).utility) - sum(self._truth.utility)

    def _row(self, s: int, bid: float) -> BidRow:
        return (*self.true[:s], bid, *self.true[s + 1 :])

    def _try(self, row: BidRow) -> _Tried:
        """Each row is tried once."""
        if row not in self._known:
            outcome = self._rule(self._costs.replace_row(self._user, row))
            x = outcome.participation[self._user].tolist()
            pay = outcome.payment[self._user].tolist()
            self._known[row] = _Tried(
                # x = 0 apart: an unwilling client's cost is infinite
                utility=[p - (y and y * c) for p, y, c in zip(pay, x, self.true, strict=True)],
                place=[(y > 0) + (y >= 1) for y in x],
                take_up=outcome.min_take_up,
                worth=float(outcome.payment.max()),
            )
        return self._known[row]
