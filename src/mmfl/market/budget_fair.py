"""Budget-Fair: the same budget for each task, proportional share.

Section "Fairness With Respect to the Same Budget across Tasks" of the paper; the mechanism is
Y. Singer, "Budget feasible mechanisms", FOCS 2010.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mmfl.config import Positive, component
from mmfl.market.bids import Bids, at_most, check_positive
from mmfl.market.options import check_choice
from mmfl.market.recruitment import Recruitment, recruit_cheapest

__all__ = ["BudgetFair", "budget_fair"]

Payment = Literal["critical", "share"]


def budget_fair(bids: Any, budget: float, *, payment: Payment = "critical") -> Recruitment:
    """Maximise each task's take-up within B / S, with one price for all of a task's winners.

    For each task with its share beta = B / S:

    1. k is the largest t with t * b(t) <= beta; the k lowest bidders win.
    2. Each is paid min(beta / k, b(k + 1)), the highest bid with which it would still have won
       ("critical": truthful), or beta / k ("share": as printed in the paper, not truthful).

    Args:
        bids: N x S, anything array-like; inf or None = unwilling.
        budget: B, shared by all tasks.
        payment: "critical" or "share".
    """
    table, B = Bids.of(bids), check_positive(budget, "budget")
    check_choice(payment, ("critical", "share"), "payment")
    N, S = table.shape
    beta = B / S
    t = np.arange(1, N + 2)
    with np.errstate(over="ignore"):  # t * b(t) does not fall with t: the affordable t are a prefix
        k = np.array([np.searchsorted(t * row, at_most(beta), "right") for row in table.ascending])
    share = beta / np.maximum(k, 1)
    price = share if payment == "share" else np.minimum(share, table.smallest(k + 1))
    return recruit_cheapest(table, k, price.tolist())


@component
class BudgetFair:
    """The paper's Budget-Fair auction: truthful with `payment = "critical"`.

    Attributes:
        budget: B, shared equally by the tasks.
        payment: "critical", or "share" as printed in the paper (not truthful).
    """

    budget: Positive
    payment: Payment = "critical"

    def recruit(self, bids: Any) -> Recruitment:
        """See `budget_fair`."""
        return budget_fair(bids, self.budget, payment=self.payment)
