"""Does anybody gain by lying? A search for the best false bid of one client who knows all others.

The search tries, one task at a time, the bids at which an outcome can change (just below, at and
just above every other client's bid, between them, a grid, zero, withdrawal, and the edges between
winning fully, in part and not at all, found by halving), and common mark-ups over all tasks. What
it finds is a *lower bound* on what a liar can gain: it proves that a mechanism is not truthful, and
never that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmfl.errors import InputError
from mmfl.market.bids import SLACK, Bids, Floats
from mmfl.market.recruitment import Mechanism, Recruitment
from mmfl.sentences import short

__all__ = ["MARKUPS", "Response", "Rule", "best_response", "responses"]

Rule = Mechanism | Callable[[Any], Recruitment]
"""A mechanism, or any function from bids to a `Recruitment`."""

MARKUPS = (0.5, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0)
"""Factors by which a client multiplies all its bids at once."""

_NUDGE = 1e-7  # how far "just below" another bid is, relative to the scale of the instance
_GRID = 24
_HALVINGS = 34
_FEWEST = 8


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
        take_up: The min take-up if it bids its costs, and with `bids`.
        tried: How many auctions were run.
    """

    user: int
    task: int | None
    bids: tuple[float, ...]
    truthful: float
    utility: float
    underbid: float
    take_up: tuple[float, float]
    tried: int

    @property
    def gain(self) -> float:
        """What the lie adds; 0 if none was found that pays."""
        return self.utility - self.truthful


def best_response(mechanism: Rule, costs: Any, user: int, *, most: int | None = None) -> Response:
    """The best false bid found for a client, if all others bid their costs.

    Args:
        mechanism: A mechanism with its options, such as ``BudgetFair(29.0)``, or a function from
            bids to a `Recruitment`.
        costs: N x S true costs; inf = unwilling.
        user: The row of the client.
        most: Try at most about this many bids a task; by default all that can matter.
    """
    return max(responses(mechanism, costs, user, most=most), key=lambda found: found.gain)


def responses(
    mechanism: Rule, costs: Any, user: int, *, most: int | None = None
) -> tuple[Response, ...]:
    """The best lie in each task that the client is willing to train, and in all at once."""
    table = Bids.of(costs)
    if not isinstance(user, int | np.integer) or not 0 <= user < table.shape[0]:
        last = table.shape[0] - 1
        raise InputError(f"user must be a row of the costs, 0 to {last}, got {short(user)}")
    game = _Game(_function(mechanism), table, int(user))
    willing = [s for s, cost in enumerate(game.true) if np.isfinite(cost)]
    return (*(game.lies_in(s, most) for s in willing), game.marks_up())


def _function(mechanism: Rule) -> Callable[[Any], Recruitment]:
    found = getattr(mechanism, "recruit", mechanism)
    if not callable(found):
        raise InputError(f"a mechanism has `recruit` or is a function, got {short(mechanism)}")
    return found


class _Game:
    """One client against all others, who bid their costs."""

    def __init__(self, rule: Callable[[Any], Recruitment], costs: Bids, user: int) -> None:
        self._rule = rule
        self._bids = costs.values.copy()
        self.user = user
        self.true: Floats = costs.values[user].copy()
        self._tried = 0
        outcome = self._outcome(self.true)
        self._truthful = self._utility(outcome)
        self._take_up = outcome.min_take_up
        known = costs.values[np.isfinite(costs.values)]
        self._scale = max(known.max(initial=0.0), outcome.payment.max(initial=0.0))

    def lies_in(self, s: int, most: int | None) -> Response:
        """The best bid for task s, the others as they are."""
        rows = [self._row(s, bid) for bid in self._candidates(s, most)]
        places = [self._place(row, s) for row in rows]
        edges = [
            self._edge(s, low[s], high[s], place)
            for (low, place), (high, other) in zip(
                zip(rows, places, strict=True), zip(rows[1:], places[1:], strict=True), strict=False
            )
            if place != other and np.isfinite(high[s])
        ]
        return self._best([*rows, *(self._row(s, bid) for pair in edges for bid in pair)], s)

    def marks_up(self) -> Response:
        """The best common factor over all tasks."""
        return self._best([self.true * factor for factor in MARKUPS], None)

    def _best(self, rows: Sequence[Floats], task: int | None) -> Response:
        best, bids, take_up, under = self._truthful, self.true, self._take_up, 0.0
        for row in rows:
            outcome = self._outcome(row)
            utility = self._utility(outcome)
            if not utility - self._truthful > 10 * SLACK * self._scale:  # rounding is no gain
                continue
            if (row <= self.true).all():
                under = max(under, utility - self._truthful)
            if utility > best:
                best, bids, take_up = utility, row, outcome.min_take_up
        return Response(
            user=self.user,
            task=task,
            bids=tuple(bids.tolist()),
            truthful=self._truthful,
            utility=best,
            underbid=under,
            take_up=(self._take_up, take_up),
            tried=self._tried,
        )

    def _candidates(self, s: int, most: int | None) -> list[float]:
        """Ascending bids at which something can change."""
        others = np.delete(self._bids[:, s], self.user)
        others = np.unique(others[np.isfinite(others)])
        grid = np.linspace(0.0, 1.25 * self._scale, _GRID)
        if most is not None and len(others) > max(most - _GRID, _FEWEST) // 4:
            keep = np.linspace(0, len(others) - 1, max(most - _GRID, _FEWEST) // 4)
            others = others[np.unique(keep.round().astype(int))]
        nudge = _NUDGE * self._scale
        between = (others[1:] + others[:-1]) / 2
        found = np.concatenate(
            [others, others - nudge, others + nudge, between, grid, [self.true[s], np.inf]]
        )
        return [float(bid) for bid in np.unique(found[found >= 0])]

    def _edge(self, s: int, low: float, high: float, place: int) -> tuple[float, float]:
        """Two bids, very near to each other, between which the client's place changes."""
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._place(self._row(s, middle), s) == place:
                low = middle
            else:
                high = middle
        return low, high

    def _place(self, row: Floats, s: int) -> int:
        """0: not recruited for the task, 1: in part, 2: fully."""
        x = self._outcome(row).participation[self.user, s]
        return int(x > 0) + int(x >= 1)

    def _row(self, s: int, bid: float) -> Floats:
        row = self.true.copy()
        row[s] = bid
        return row

    def _outcome(self, row: Floats) -> Recruitment:
        self._tried += 1
        self._bids[self.user] = row
        outcome = self._rule(self._bids)
        self._bids[self.user] = self.true
        return outcome

    def _utility(self, outcome: Recruitment) -> float:
        """Sum over tasks of pay - x * cost."""
        x, pay = outcome.participation[self.user], outcome.payment[self.user]
        joins = x > 0
        return float((pay[joins] - x[joins] * self.true[joins]).sum())
