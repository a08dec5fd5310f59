"""One call that checks an auction: budget, rationality, optimality, truthfulness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmfl.market.baselines import ValueThreshold
from mmfl.market.bids import Bids, Ints
from mmfl.market.budget_fair import BudgetFair
from mmfl.market.max_min_fair import MaxMinFair
from mmfl.market.options import check_count
from mmfl.market.recruitment import Recruitment
from mmfl.market.truthfulness.best_response import Response, Rule, best_response, function_of
from mmfl.market.verify import budget_violation, max_min_optimum, rationality_violation
from mmfl.rng import stream

__all__ = ["Audit", "audit"]

_CELLS = 500_000_000  # bids that all auctions of a search may read, about
_FEWEST = 64  # of tries a client and task, below which fewer clients are looked at


@dataclass(frozen=True)
class Audit:
    """What was found out about an outcome and its mechanism.

    Attributes:
        outcome: The auction's, on the bids as they are.
        budget: B; None if the mechanism has none.
        overspent: What breaks the budget; None if nothing does, or if there is none.
        irrational: Who is paid less than its bid; None if nobody is.
        optimum: How many clients every task could have if all were paid their bids; None without
            a budget.
        proved: Whether the mechanism is known to be truthful, by a theorem.
        best: The best lie found; None if there was nobody to look at.
        users: How many clients' lies were searched.
        tried: How many auctions that took.
    """

    outcome: Recruitment
    budget: float | None
    overspent: str | None
    irrational: str | None
    optimum: int | None
    proved: bool
    best: Response | None
    users: int
    tried: int

    @property
    def gain(self) -> float:
        """The best gain by a lie that was found: a lower bound on the largest there is."""
        return 0.0 if self.best is None else self.best.gain


def audit(
    mechanism: Rule, bids: Any, *, users: int | None = 20, tries: int = 400, seed: int = 0
) -> Audit:
    """Run an auction, verify its outcome, and search for profitable lies.

    Bids are taken as true costs. The search covers the clients around each task's cut-off (the last
    winner, the fractional one, the first loser), where lies pay most, and others at random. On
    large tables it tries fewer clients and bids, but at least one client and about a hundred
    auctions for each of its tasks.

    Args:
        mechanism: A mechanism with its options, or a function from `Bids` to a `Recruitment`.
        bids: N x S, anything array-like.
        users: How many clients to check for profitable lies; None: all.
        tries: Approximate number of bids to try for each client and task.
        seed: Seed for the choice of clients.
    """
    check_count(tries, "tries")
    if users is not None:
        check_count(users, "users")
    table = Bids.of(bids)
    N, S = table.shape
    outcome = function_of(mechanism)(table)
    budget = getattr(mechanism, "budget", None)
    wanted = N if users is None else min(users, N)
    if users is not None:
        auctions = max(4 * _FEWEST, _CELLS // max(N * S, 1))
        wanted = min(wanted, max(1, auctions // (S * _FEWEST)))
        tries = max(min(tries, auctions // max(wanted * S, 1)), _FEWEST)
    lies = [
        best_response(mechanism, table, user, most=tries)
        for user in _suspects(outcome, wanted, seed).tolist()
    ]
    return Audit(
        outcome=outcome,
        budget=budget,
        overspent=None if budget is None else budget_violation(outcome, budget),
        irrational=rationality_violation(outcome),
        optimum=None if budget is None else max_min_optimum(table, budget),
        proved=_is_proved(mechanism, S),
        best=max(lies, key=lambda response: response.gain, default=None),
        users=len(lies),
        tried=sum(response.tried for response in lies),
    )


def _suspects(outcome: Recruitment, wanted: int, seed: int) -> Ints:
    """Rows of the clients to look at: those around the cuts first, then others at random."""
    table = outcome.bids
    N, S = table.shape
    first: dict[int, None] = {}
    for s in range(S):
        losers = np.where(outcome.participation[:, s] > 0, np.inf, table.values[:, s])
        part = outcome.fractional[s]
        near = [*outcome.winners[s][-1:].tolist(), *([part.user] if part else [])]
        if np.isfinite(losers).any():
            near.append(int(losers.argmin()))
        first |= dict.fromkeys(near)
    others = stream(seed, "audit").choice(N, min(N, wanted + len(first)), replace=False)
    rows = list(dict.fromkeys([*first, *others.tolist()]))
    return np.array(sorted(rows[:wanted]), dtype=np.int64)


def _is_proved(mechanism: Rule, S: int) -> bool:
    """Whether a theorem says that bidding one's costs is best, whatever the others do."""
    if isinstance(mechanism, BudgetFair):
        return mechanism.payment == "critical"
    if isinstance(mechanism, MaxMinFair):  # with one task it is Budget-Fair
        return S == 1 and mechanism.payment == "critical" and not mechanism.fractional
    return isinstance(mechanism, ValueThreshold)
