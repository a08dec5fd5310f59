"""Who is selected, and how much each then weighs: the quantities behind the convergence theorems.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning", the section on
convergence. One task is looked at. Each of K clients is allocated to it with probability q = p_s
(independently: `Sel` is the random set), and those in `Sel` are averaged with weights p_k / sum of
p over `Sel`, where p_k is client k's share of the task's data.

What the paper conditions on nothing is also offered given that `Sel` is not empty, which is what
its theorems need: a round in which nobody trains the task changes nothing.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError

__all__ = [
    "enumerate_moments",
    "expected_weights",
    "gamma_gap",
    "integrate_moments",
    "inverse_size_term",
    "normalise",
    "pair_weight",
    "selection_probability",
    "selection_probability_active",
    "selection_skew",
    "skew_bounds",
    "square_weight_term",
]

Floats = npt.NDArray[np.float64]
Method = Literal["auto", "enumeration", "integral"]

_SMALL = 12
"""Up to this many clients, all 2^K sets are tried."""

_MOST = 20
"""For more clients they would not fit into memory."""


def selection_probability(size: int, K: int, q: float) -> float:
    """B_Sel: the chance that exactly this set of `size` of K clients is selected.

    q^n (1 - q)^(K - n) with q = p_s, that is with the exponent alpha - 1 of the allocation rule.
    The paper prints alpha, which contradicts the rule (see `printed.selection_probability`).
    """
    return selection_probability_active(size, K, K, q)


def selection_probability_active(size: int, K: int, m: int, q: float) -> float:
    """B_Sel where m of the K clients, drawn without replacement, are active in a round.

    C(K-n, m-n) / C(K, m) q^n (1 - q)^(m - n): all of the set must be active, and of the active
    exactly the set must be selected.
    """
    n = _whole(size, "size")
    _whole(K, "K"), _whole(m, "m"), _probability(q)
    if not n <= K or not m <= K:
        raise InputError(f"size and m must be at most K = {K}, got {size} and {m}")
    if n > m:
        return 0.0
    place = np.arange(n)
    return float(np.prod(q * (m - place) / (K - place)) * (1.0 - q) ** (m - n))


def pair_weight(weights: npt.ArrayLike) -> float:
    """P^{k,2}: the sum of w_k w_k' over unordered pairs of a selection, w normalised.

    (1 - sum w^2) / 2, at most (1 - 1/n) / 2 < 1/2. The lemma sums over ordered pairs, which is
    twice as much; its proof and the corollary use this one.
    """
    w = normalise(weights)
    return float(1.0 - np.square(w).sum()) / 2.0


def expected_weights(p: npt.ArrayLike, q: float, *, method: Method = "auto") -> Floats:
    """omega_k = E[p_k 1{k in Sel} / sum of p over Sel]: a client's mean weight.

    They add up to 1 - (1-q)^K. Equal selection probability does not make them proportional to p_k:
    large clients lose, small ones gain (`selection_skew`). A client with p_k = 0 has weight 0.

    Args:
        p: (K) shares of the task's data; any positive scale.
        q: The task's allocation probability.
        method: "enumeration" of all 2^K sets, the "integral" (any K; relative error below 1e-10),
            or "auto": enumeration up to K = 12.
    """
    return _over_sets(p, q, method, power=1)


def square_weight_term(
    p: npt.ArrayLike, q: float, *, method: Method = "auto", given_nonempty: bool = False
) -> float:
    """E[sum over Sel of (p_k / sum of p over Sel)^2]: what the noise term of the theorem is times.

    For p_k = 1/K it is `inverse_size_term`.
    """
    term = float(_over_sets(p, q, method, power=2).sum())
    if not given_nonempty:
        return term
    return term / _nonempty(q, _clients(p)) if q else 1.0


def inverse_size_term(q: float, K: int, given_nonempty: bool = False) -> float:
    """g(q) = E[1/|Sel|; Sel not empty], or given that it is not empty: the corollary on alpha.

    sum over m of ((1-q)^(K-m) - (1-q)^K) / m, computed without cancellation. It *rises* with q up
    to K q of about 1.33 to 1.5 and only then falls, so the corollary is false; given that `Sel` is
    not empty, it never rises.
    """
    _probability(q)
    if _whole(K, "K") == 0:
        raise InputError("K must be at least 1, got 0")
    if q == 0.0:
        return 1.0 if given_nonempty else 0.0  # the limit: one client alone
    if q == 1.0:
        return 1.0 / K
    m = np.arange(1, K + 1)
    log = math.log1p(-q)
    term = float(np.sum(np.exp((K - m) * log) * -np.expm1(m * log) / m))
    return term / _nonempty(q, K) if given_nonempty else term


def selection_skew(
    p: npt.ArrayLike, gaps: npt.ArrayLike, q: float, given_nonempty: bool = False
) -> float:
    """rho(w') = sum omega_k gap_k / sum p_k gap_k: whether selection favours clients far behind.

    Args:
        p: (K) shares of the task's data, which add up to 1.
        gaps: (K) F_k(w') - F_k*, each >= 0; not all 0, since then the skew is undefined.
        q: The task's allocation probability.
        given_nonempty: Whether omega is taken given that somebody was selected.
    """
    share, gap = _fractions(p), np.asarray(gaps, dtype=np.float64)
    if gap.shape != share.shape or not (np.isfinite(gap) & (gap >= 0)).all():
        raise InputError(f"gaps must be {len(share)} finite numbers >= 0, got {gaps!r}")
    whole = float(share @ gap)
    if whole == 0:
        raise InputError("the skew is undefined where no client with data has a gap")
    return float(_conditional(p, q, given_nonempty) @ gap) / whole


def skew_bounds(p: npt.ArrayLike, q: float, *, given_nonempty: bool = False) -> tuple[float, float]:
    """The least and the greatest `selection_skew` over all w': min and max of omega_k / p_k.

    Exact, since rho is a mean of these ratios with the weights p_k gap_k. For p_k = 1/K both are
    1 - (1-q)^K (1 given that `Sel` is not empty), and the bias term of the bounds vanishes.
    """
    share = _fractions(p)
    ratio = _conditional(p, q, given_nonempty)[share > 0] / share[share > 0]
    return float(ratio.min()), float(ratio.max())


def gamma_gap(p: npt.ArrayLike, F_at_global_optimum: npt.ArrayLike, F_star: npt.ArrayLike) -> float:
    """Gamma_s = sum p_k (F_k(w*) - F_k*) >= 0: how far apart the clients' own optima are."""
    share = _fractions(p)
    here, best = (np.asarray(x, dtype=np.float64) for x in (F_at_global_optimum, F_star))
    if not here.shape == best.shape == share.shape:
        raise InputError(f"F at the optima must be {len(share)} numbers each")
    if not (here >= best - 1e-12 * np.maximum(1.0, np.abs(best))).all():
        raise InputError("no client's loss can be below its own optimum F_star")
    return max(float(share @ (here - best)), 0.0)


def enumerate_moments(p: npt.ArrayLike, q: float, power: int = 1) -> Floats:
    """E[w_k^power; k in Sel] for each client by all 2^K selections, as the definition says."""
    share = normalise(p)
    K = len(share)
    if K > _MOST:
        raise InputError(f"enumeration is for {_MOST} clients at most, got {K}; take the integral")
    sets = (np.arange(2**K)[:, None] >> np.arange(K)) & 1 == 1
    chance = np.where(sets, q, 1.0 - q).prod(axis=1)
    sums = sets @ share
    weights = np.divide(
        sets * share, sums[:, None], out=np.zeros(sets.shape), where=sums[:, None] > 0
    )
    found: Floats = chance @ weights**power
    return found


def integrate_moments(p: npt.ArrayLike, q: float, power: int = 1) -> Floats:
    """E[w_k^power; k in Sel] for any K, by one integral.

    Since 1/s = int e^(-us) du, omega_k = int q p_k e^(-u p_k) prod_{j != k} (1 - q + q e^(-u p_j))
    du; with u = e^x the integrand is smooth on every scale. The paper's form, in v = e^(-u p_k), is
    the same. For the square of a weight, 1/s^2 = int u e^(-us) du.
    """
    from scipy.integrate import quad_vec

    share = normalise(p)
    if q == 0.0:
        return np.zeros_like(share)
    own = share[share > 0]

    def integrand(x: float) -> Floats:
        u = math.exp(x)
        fading = np.exp(-u * own)
        stays = 1.0 - q + q * fading
        # at q = 1 a factor may be 0; then so is the product over the others, far in the tail
        others = np.exp(np.log(stays).sum() - np.log(stays)) if stays.all() else 0.0
        found: Floats = q * (own * u) ** power * fading * others
        return found

    ends = math.log(1e-17), math.log(750.0 / float(own.min()))
    total, _ = quad_vec(integrand, *ends, epsabs=1e-15, epsrel=1e-12, limit=100_000)
    found = np.zeros_like(share)
    found[share > 0] = total
    return found


def _over_sets(p: npt.ArrayLike, q: float, method: Method, power: int) -> Floats:
    _probability(q)
    if method not in ("auto", "enumeration", "integral"):
        raise InputError(f"method must be auto, enumeration or integral, got {method!r}")
    if method == "auto":
        method = "enumeration" if normalise(p).size <= _SMALL else "integral"
    return (
        enumerate_moments(p, q, power)
        if method == "enumeration"
        else integrate_moments(p, q, power)
    )


def _conditional(p: npt.ArrayLike, q: float, given_nonempty: bool) -> Floats:
    """omega, maybe given that Sel is not empty; at q = 0 its limit: one client alone."""
    if given_nonempty and q == 0.0:
        has = normalise(p) > 0
        alone: Floats = has / has.sum()
        return alone
    return expected_weights(p, q) / (_nonempty(q, _clients(p)) if given_nonempty else 1.0)


def _nonempty(q: float, K: int) -> float:
    """1 - (1 - q)^K."""
    return -math.expm1(K * math.log1p(-q)) if q < 1.0 else 1.0


def _clients(p: npt.ArrayLike) -> int:
    """How many hold data."""
    return int((normalise(p) > 0).sum())


def normalise(p: npt.ArrayLike) -> Floats:
    """Shares that add up to 1; refused unless they are finite numbers >= 0 and not all 0."""
    try:
        share = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"shares must be a vector of numbers, got {p!r}") from None
    if share.ndim != 1 or share.size == 0:
        raise InputError(f"shares must be a non-empty vector, got shape {share.shape}")
    if not (np.isfinite(share) & (share >= 0)).all() or not share.any():
        raise InputError("shares must be finite and >= 0, and not all 0")
    share = share / share.max()  # so that the sum of huge ones is finite
    normal: Floats = share / share.sum()
    return normal


def _fractions(p: npt.ArrayLike) -> Floats:
    """Shares as they are given, where their scale counts; rounded ones need not add up exactly."""
    normalise(p)
    share = np.asarray(p, dtype=np.float64)
    if abs(float(share.sum()) - 1.0) > 1e-3:
        raise InputError(f"shares must add up to 1, got a sum of {share.sum():g}; divide by it")
    return share


def _probability(q: float) -> float:
    if not 0 <= q <= 1:
        raise InputError(f"q must be a probability in [0, 1], got {q!r}")
    return float(q)


def _whole(n: int, name: str) -> int:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
        raise InputError(f"{name} must be a whole number >= 0, got {n!r}")
    return int(n)
