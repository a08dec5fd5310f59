"""MMFL-LVR: probabilities that make the variance of the global step as small as possible.

H. Zhang, Z. Gong, Z. Li, M. Siew, C. Joe-Wong, R. El-Azouzi: "Towards Optimal Heterogeneous Client
Sampling in Multi-Model Federated Learning" (arXiv 2504.05138).

**The problem.** Client i trains task s with probability p_is, at most one task, and m clients train
in expectation; updates are weighed by d_is / p_is (the aggregator `unbiased`). Choose p. Minimise
the sum of U_is^2 / p_is, the part of the variance that depends on p.

**The solution** (the paper's theorem, by Lagrange multipliers). With M_i = sum over s of U_is:

    p_is = (m - n + l) U_is / (sum of the l smallest M_j)     for the clients with the l smallest M
    p_is = U_is / M_i                                         for the others, which train for sure

where n is the number of clients, and l the largest for which no client's sum exceeds 1. For MMFL-
LVR, U_is = d_is f_is with the client's loss f_is; for gradients, U_is = d_is |G_is|.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, Strict

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.rows import draw_rows
from mmfl.config import component
from mmfl.rng import Stream

__all__ = ["Lvr", "Share", "allocate_by_need", "fill_unknown", "water_fill"]

Share = Annotated[float, Strict(), Field(gt=0, le=1)]

_MOST = 1e100


def water_fill(needs: Floats, m: float) -> Floats:
    """(n) q_i = min(1, c M_i), with c such that they add up to m, or all with M_i > 0 are 1.

    Args:
        needs: (n) M_i >= 0.
        m: How many clients train in expectation, at most n.
    """
    n = len(needs)
    order = np.argsort(needs, kind="stable")
    ascending = needs[order]
    sums = np.cumsum(ascending)
    left = m - n + np.arange(1, n + 1)  # m - n + l for each l
    possible = np.flatnonzero((left * ascending <= sums * (1 + 1e-12)) & (left > 0))
    q = np.ones(n)
    if len(possible) and sums[possible[-1]] > 0:
        last = possible[-1]
        some = order[: last + 1]
        q[some] = np.minimum(1.0, left[last] * needs[some] / sums[last])
    q[needs == 0] = 0.0
    return q


@component
class Lvr:
    """Clients draw tasks in proportion to U_is = d_is f_is: share of the examples times loss.

    Use it with `aggregator = "unbiased"`, as the paper does; with `mean`, only who trains what is
    the paper's. Weights of tasks are ignored.

    Decided here: the paper's server samples m of all clients. Here, the n active clients that may
    train something are its clients, and m = share n. By default all active clients train, as under
    the other rules, and each draws p_is = U_is / M_i. For the paper's own setting, make all clients
    active (`clients.active = 1.0`) and let the rule choose with `share`. In the paper, every client
    reports its loss at every task in each round. Here, it is that of its last turn at the task; a
    loss that is not known counts as the mean of those that are known of the task, or of all tasks.
    Shares d_is are of the active clients' examples.

    Attributes:
        by: "loss" (MMFL-LVR) or "norm" (the same with the norm of the last update).
        share: The share of the active clients that train, in expectation.
    """

    by: Literal["loss", "norm"] = "loss"
    share: Share = 1.0

    aggregator: ClassVar[str] = "unbiased"

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """One draw for each client; all are independent."""
        known = view.loss if self.by == "loss" else view.norm
        return allocate_by_need(view, fill_unknown(known, view), self.share, rng=rng), state


def allocate_by_need(view: View, need: Floats, share: float, *, rng: Stream) -> Assignments:
    """The paper's probabilities, and a draw from them.

    A client all of whose U_is are 0 trains any of its tasks, all equally likely, if all clients
    train; otherwise it rests.

    Args:
        view: The round.
        need: (n, S) f_is or |G_is|, finite and >= 0; what a client may not train is ignored. It
            is overwritten.
        share: m / n.
        rng: The round's stream.
    """
    held = np.where(view.eligible, view.sizes, 0).astype(np.float64)
    need *= held  # U_is, up to a factor for each task
    total = held.sum(axis=0)
    need *= np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
    M = need.sum(axis=1)
    able = np.asarray(view.eligible.any(axis=1))
    if share == 1:
        nothing = able & (M == 0)
        need[nothing] = view.eligible[nothing]
        M[nothing] = need[nothing].sum(axis=1)
    q = np.zeros(len(M))
    q[able] = water_fill(M[able], share * int(able.sum()))
    return draw_rows(view, need, q, rng=rng)


def fill_unknown(known: Floats, view: View) -> Floats:
    """(n, S) what is known, >= 0; else the mean of the task, else of all tasks, else 1.

    A client may claim any finite loss: sums of what is returned do not overflow.
    """
    there = np.isfinite(known) & view.eligible
    value = np.where(there, known, 0.0)
    np.clip(value, 0.0, _MOST, out=value)
    count = there.sum(axis=0)
    mean = np.full(value.shape[1], value.sum() / count.sum() if count.any() else 1.0)
    np.divide(value.sum(axis=0), count, out=mean, where=count > 0)
    np.copyto(value, mean, where=~there)
    return value
