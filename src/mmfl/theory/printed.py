"""The paper's formulas as printed, in one place, to be held against the corrected ones.

Each is wrong in the way that its docstring says; docs/explanation/theory.md has the
counter-examples. Nothing of mmfl but the comparisons uses them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.theory.constants import Constants

__all__ = [
    "auction_bound",
    "join_max_min_least",
    "joint_sum",
    "no_user_probability",
    "ordered_pair_weight",
    "selection_probability",
    "t_step_bound",
    "variance",
]


def variance(values: npt.ArrayLike) -> float:
    """The "variance" in the proof of the lemma on variance: the mean is squared without its 1/S.

    Of (3, 1) it is -11; see `mmfl.fairness.variance`.
    """
    f = np.asarray(values, dtype=np.float64)
    return float(np.square(f).mean() - np.square(f.sum()))


def selection_probability(
    size: int, K: int, losses: npt.ArrayLike, task: int, alpha: float
) -> float:
    """B_Sel with the exponent alpha: at alpha = 1 it does not belong to a uniform allocation."""
    f = np.asarray(losses, dtype=np.float64) ** alpha
    q = float(f[task] / f.sum())
    return q**size * (1.0 - q) ** (K - size)


def ordered_pair_weight(weights: npt.ArrayLike) -> float:
    """P^{k,2} summed over k != k', each pair twice: up to 1, not the 1/2 of the proof."""
    w = np.asarray(weights, dtype=np.float64)
    return float(1.0 - np.square(w / w.sum()).sum())


def t_step_bound(T: float, constants: Constants, distance: float) -> float:
    """The corollary "Model Convergence": lacks a factor L, and 16 is not the theorem's 32."""
    return _bound(T, constants, distance, 64.0)


def auction_bound(T: float, constants: Constants, distance: float, joins: npt.ArrayLike) -> float:
    """The theorem "Convergence with Auctions", where `joins` are the N users' joining chances.

    It improves as people stop joining, and lacks a factor L.
    """
    return _bound(T, constants, distance, 64.0 * joint_sum(joins))


def joint_sum(joins: npt.ArrayLike) -> float:
    """The sum of J_W over all sets W of one user or more: 1 - prod(1 - p_i), whatever W is."""
    p = np.asarray(joins, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("joining chances must be probabilities in [0, 1]")
    with np.errstate(divide="ignore"):  # somebody who joins for sure
        return float(-np.expm1(np.log1p(-p).sum()))


def join_max_min_least(bid: float, N: int, S: int, B: float, own: float) -> float:
    """The first of the two terms of Max-Min's joining probability, and so the least it can be.

    P(r b < B/S), which is Budget-Fair's: it forgets that other tasks can end the auction, and that
    the task's funds may have shrunk.

    Args:
        bid: The user's.
        N: Users, who all bid.
        S: Tasks.
        B: The budget.
        own: The chance that another user's bid for the task is below `bid`.
    """
    from scipy.stats import binom

    if not 0 < bid < math.inf or S < 1:
        raise InputError(f"bid must be finite and > 0, and S at least 1, got {bid} and {S}")
    ranks = math.ceil(B / (S * bid)) - 1  # r < B / (S b)
    return float(binom.cdf(ranks - 1, N - 1, own))


def no_user_probability(B: float, rate: float) -> tuple[float, float]:
    """(Max-Min's, Budget-Fair's) chance that one of two tasks gets nobody, bids ~ exp(rate).

    The formulas are right if the *least* bid is exponential with that rate; they are printed for
    the bids themselves, and the smaller one is called strictly greater.
    """
    y = rate * B
    return math.exp(-y) * (1.0 + y), math.exp(-y) * (2.0 * math.exp(y / 2.0) - 1.0)


def _bound(T: float, c: Constants, distance: float, drift: float) -> float:
    noise = (drift * (c.tau * c.G) ** 2 + 4.0 * c.sigma**2) / (3.0 * c.rho_lo * c.mu**2)
    apart = 8.0 * c.L**2 * c.gap / c.mu**2
    start = c.L * c.offset * distance / 2.0
    bias = 8.0 * c.L * c.gap / (3.0 * c.mu) * (c.rho_hi / c.rho_lo - 1.0)
    return (noise + apart + start) / (T + c.offset) + bias
