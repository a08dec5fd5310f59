"""Who starves: the chance that a task has no client in a round, and what an auction recruits.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning". In a round of
Algorithm 1, m of K clients are active, drawn without replacement (line 3), and each active client
draws its task by itself (line 5). A task is left without anybody with the probability that the
convergence theorem overlooks (spec, errors 4 and 5: `Sel` may be empty).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.theory.joining import Law

__all__ = ["expected_clients", "expected_take_up", "starvation_probability"]

Floats = npt.NDArray[np.float64]


def starvation_probability(p: npt.ArrayLike, m: int | None = None) -> float:
    """The chance that none of m active clients of K draws the task: e_m(1 - p) / C(K, m).

    e_m is the elementary symmetric polynomial: the sum over all sets of m clients of the product of
    their 1 - p_k. Its mean over the sets is computed, client by client, so that nothing overflows.

    Args:
        p: (K) the chance that each client draws the task, if it is active.
        m: How many of them are active in a round; by default all.
    """
    miss, m = 1.0 - _chances(p), _active(p, m)
    mean = np.zeros(m + 1)  # over the sets of j of the clients so far, of the products
    mean[0] = 1.0
    j = np.arange(1, m + 1)
    for k, x in enumerate(miss.tolist(), start=1):
        with_it = np.minimum(j, k) / k  # the share of the sets of j that the k-th client is in
        mean[1:] = (1.0 - with_it) * mean[1:] + with_it * x * mean[:-1]
    return float(mean[m])


def expected_clients(p: npt.ArrayLike, m: int | None = None) -> float:
    """The expected number of m active clients of K that draw the task: m/K times the sum of p_k."""
    chances = _chances(p)
    return _active(p, m) / len(chances) * float(chances.sum())


def expected_take_up(
    N: int, law: Law, join: Callable[[float], float], *, cells: int = 400
) -> float:
    """The expected number of N users that a task recruits: N times the chance that one joins.

    The joining probability is integrated over the law of bids by the midpoint rule on equally
    likely cells, because it may jump where the money suffices for one user fewer. As it falls with
    the bid, the error is at most N / (2 cells), and usually far smaller.

    Args:
        N: Users, whose bids for the task are independent and of the same law.
        law: The law of a bid, by its quantiles; `mmfl.market.bids_io` has some.
        join: From a bid to the chance that it wins, e.g. ``lambda b: join_budget_fair(b, N, S, B,
            cdf)``.
        cells: How many.
    """
    if not N >= 1:
        raise InputError(f"N must be at least 1, got {N!r}")
    bids = law.quantile((np.arange(cells) + 0.5) / cells)
    return N * float(np.mean([join(bid) for bid in bids.tolist()]))


def _chances(p: npt.ArrayLike) -> Floats:
    found = np.asarray(p, dtype=np.float64)
    if found.ndim != 1 or not found.size or not ((found >= 0) & (found <= 1)).all():
        raise InputError("p must be a vector of probabilities in [0, 1], one for each client")
    return found


def _active(p: npt.ArrayLike, m: int | None) -> int:
    K = len(np.asarray(p))
    if m is not None and not 0 <= m <= K:
        raise InputError(f"m must be from 0 to K = {K}, got {m}")
    return K if m is None else m
