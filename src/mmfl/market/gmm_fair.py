"""GMMFair: the greedy optimum of the max-min problem (the paper's Algorithm 2).

It recruits as many clients for the worst-off task as any rule can, and pays each its bid; so every
winner gains by asking for more, and it is a yardstick rather than a mechanism for real bidders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.config import Positive, component
from mmfl.market.bids import Bids, at_most, check_positive
from mmfl.market.recruitment import Recruitment, Stop, recruit_cheapest

__all__ = ["GMMFair", "gmm_fair"]


def gmm_fair(bids: Any, budget: float) -> Recruitment:
    """Maximise min_s sum_i x[i, s] such that the bids of all winners add up to at most B.

    Rounds t = 1, 2, ...: while every task has a t-th bidder and all bids up to round t add up to at
    most B, the t-th cheapest client of every task joins and is paid its bid (lines 6-12).

    Args:
        bids: N x S, anything array-like; inf or None = unwilling.
        budget: B, shared by all tasks.
    """
    table, B = Bids.of(bids), check_positive(budget, "budget")
    with np.errstate(over="ignore"):
        total = table.ascending.sum(axis=0).cumsum()  # sum over j <= t and s of b(j, s)
    T = int(np.searchsorted(total, at_most(B), "right"))
    stop: Stop = "exhausted" if table.willing.min() <= T else "budget"
    return recruit_cheapest(table, np.full(table.shape[1], T), None, stop=stop)


@component
class GMMFair:
    """The greedy max-min optimum, each winner paid its bid.

    Attributes:
        budget: B, shared by all tasks.
    """

    budget: Positive

    def recruit(self, bids: Any) -> Recruitment:
        """See `gmm_fair`."""
        return gmm_fair(bids, self.budget)
