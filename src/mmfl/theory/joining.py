"""Who joins: the chance that a bid wins, and that a task recruits nobody.

N users bid for each of S tasks, independently and from a continuous law per task. A user's rank r
in a task is one more than the number of lower bids, so r - 1 ~ Bin(N - 1, F_s(b)).

    Budget-Fair          wins iff r b <= B/S
    Max-Min, integer     wins iff r (b + sum over the other tasks of their r-th lowest bid) <= B

The second is exact, where the paper's is not even a bound (`printed.join_max_min_least`). The
fractional ending of Max-Min has no such formula: `join_sampled` holds auctions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.market import Mechanism

__all__ = [
    "Joining",
    "Law",
    "join_budget_fair",
    "join_max_min",
    "join_sampled",
    "lowest",
    "no_user_probability",
    "no_user_probability_exp",
    "sum_at_most",
]

Floats = npt.NDArray[np.float64]
Cdf = Callable[[Floats], npt.ArrayLike]

TOLERANCE = 1e-9
"""Auctions compare with this relative slack, so that exact ties are affordable."""


_AT_ONCE = 1 << 20
"""How many bids are drawn at a time."""


class Law(Protocol):
    """What users ask for a task, by its quantile function; `mmfl.market.bids_io` has some."""

    def quantile(self, u: Floats) -> Floats:
        """The bids below which a share u of all users stays; 0 < u < 1."""
        ...


def join_budget_fair(bid: float, N: int, S: int, B: float, cdf: Cdf) -> float:
    """The chance that a bid wins its task under Budget-Fair: P(r b <= B/S).

    Args:
        bid: The user's, >= 0; inf = unwilling.
        N: Users that bid for the task, this one included.
        S: Tasks.
        B: The budget of all tasks.
        cdf: F_s, the law of the others' bids, as a function.
    """
    from scipy.stats import binom

    _check(bid, N, B)
    if not S >= 1:
        raise InputError(f"S must be at least 1, got {S!r}")
    if math.isinf(bid):
        return 0.0
    ranks = N if bid == 0 else math.floor(min(B / S / bid * (1 + TOLERANCE), N))
    return float(binom.cdf(ranks - 1, N - 1, _at(cdf, bid)))


def join_max_min(
    bid: float, N: int, B: float, own_cdf: Cdf, other_cdfs: Sequence[Cdf], *, tol: float = 1e-7
) -> float:
    """The chance that a bid wins its task as a full user, under Max-Min with the integer ending.

    sum over r of P(rank r) P(sum over the other tasks of their r-th lowest bid <= B/r - b). For S =
    2 the last factor is P(Bin(N, F_2(y)) >= r); for more tasks it is a convolution.

    Args:
        bid: The user's, >= 0; inf = unwilling.
        N: Users, who bid for every task.
        B: The budget of all tasks.
        own_cdf: The law of bids for the task itself.
        other_cdfs: Those of the other S - 1 tasks.
        tol: Accuracy of the convolution (S >= 3).
    """
    from scipy.stats import binom

    _check(bid, N, B)
    if math.isinf(bid):
        return 0.0
    r = np.arange(1, N + 1)
    chance = binom.pmf(r - 1, N - 1, _at(own_cdf, bid))
    room = B / r - bid
    likely = (chance > 1e-18) & (room >= 0)
    found, ranks = 0.0, r[likely].tolist()
    for k in ranks:
        p, others = float(chance[k - 1]), [_OrderStatistic(cdf, k, N) for cdf in other_cdfs]
        allowed = min(tol / (p * len(ranks)), 1e-3)  # what is unlikely need not be known so well
        found += p * sum_at_most(float(room[k - 1]), others, tol=allowed)
    return min(found, 1.0)


def sum_at_most(y: float, cdfs: Sequence[Cdf], *, tol: float = 1e-7) -> float:
    """P(X_1 + ... + X_n <= y) of independent X_i >= 0 with continuous laws.

    By convolution on a grid that is made finer until the answer moves by less than `tol`; its error
    falls with the square of the grid's step, so that what is left is less than that.
    """
    if y < 0:
        return 0.0
    if not cdfs:
        return 1.0
    if len(cdfs) == 1:
        return _at(cdfs[0], y)
    return _refine(lambda cells: _convolve(y, cdfs, cells), tol)


def _refine(compute: Callable[[int], float], tol: float) -> float:
    """What is computed on a grid of ever more cells, once it moves by less than `tol`."""
    before, cells = math.nan, 128
    while True:
        found = compute(cells)
        if abs(found - before) < tol or cells >= 1 << 18:
            return found
        before, cells = found, cells * 2


def _convolve(y: float, cdfs: Sequence[Cdf], cells: int) -> float:
    from scipy.signal import fftconvolve

    grid = np.linspace(0.0, y, cells + 1)
    total = _on(cdfs[0], grid)
    for cdf in cdfs[1:]:
        law = _on(cdf, grid)
        # X in a cell counts as in its middle, where the law of the sum so far is its ends' mean
        middle = (total[:-1] + total[1:]) / 2.0
        added = fftconvolve(np.diff(law), middle)[:cells]
        total = law[0] * total + np.concatenate(([0.0], added))
    return float(min(max(total[-1], 0.0), 1.0))


def _sum_above(y: float, cdfs: Sequence[Cdf], *, tol: float = 1e-7) -> float:
    """P(X_1 + ... + X_n > y): 1 - `sum_at_most` without the subtraction, from the laws' tails."""
    if len(cdfs) == 1:
        return float(_tail(cdfs[0], np.array([y]))[0])
    if math.fsum(_most(cdf, y) for cdf in cdfs) <= y * (1 + TOLERANCE):
        return 0.0  # the sum of the largest values that there are
    return _refine(lambda cells: _tail_convolved(y, cdfs, cells), tol)


def _most(cdf: Cdf, y: float) -> float:
    """The least x <= y that X does not exceed, to the last bit; inf if it may exceed y."""
    if _tail(cdf, np.array([y]))[0] > 0:
        return math.inf
    low, high = -math.ulp(0.0), y
    while low < (middle := low + (high - low) / 2) < high:
        if _tail(cdf, np.array([middle]))[0] > 0:
            low = middle
        else:
            high = middle
    return high


def _tail_convolved(y: float, cdfs: Sequence[Cdf], cells: int) -> float:
    """As `_convolve`, of tails: only positive numbers are added."""
    from scipy.signal import fftconvolve

    grid = np.linspace(0.0, y, cells + 1)
    total, found = _tail(cdfs[0], grid), 0.0
    for cdf in cdfs[1:]:
        law, tail = _on(cdf, grid), _tail(cdf, grid)
        mass = np.where(law[1:] < 0.5, np.diff(law), -np.diff(tail))  # the more exact of the two
        middle = (total[:-1] + total[1:]) / 2.0
        found = tail[-1] + law[0] * total[-1] + math.fsum(mass * middle[::-1])  # at y
        added = fftconvolve(mass, middle)[:cells].clip(0.0)
        total = np.minimum(tail + law[0] * total + np.concatenate(([0.0], added)), 1.0)
    return float(min(found, 1.0))


@dataclass(frozen=True)
class _OrderStatistic:
    """The law of the r-th lowest of N bids: P(Bin(N, F(x)) >= r)."""

    cdf: Cdf
    r: int
    N: int

    def __call__(self, x: npt.ArrayLike) -> Floats:
        from scipy.special import betainc

        found: Floats = betainc(self.r, self.N - self.r + 1, self._below(x))
        return found

    def tail(self, x: npt.ArrayLike) -> Floats:
        """One minus that, where it is next to nothing too."""
        from scipy.special import betaincc

        found: Floats = betaincc(self.r, self.N - self.r + 1, self._below(x))
        return found

    def _below(self, x: npt.ArrayLike) -> Floats:
        return _on(self.cdf, np.asarray(x, dtype=np.float64))


def _tail(cdf: Cdf, x: Floats) -> Floats:
    """1 - F at these places."""
    return cdf.tail(x) if isinstance(cdf, _OrderStatistic) else 1.0 - _on(cdf, x)


def lowest(cdf: Cdf, N: int) -> Cdf:
    """The law of the lowest of N bids: 1 - (1 - F)^N."""
    return _OrderStatistic(cdf, 1, N)


def no_user_probability(
    B: float,
    lowest_cdfs: Sequence[Cdf],
    mechanism: Literal["budget_fair", "max_min_fair"] = "max_min_fair",
) -> float:
    """The chance that at least one task recruits nobody (no full user).

    Budget-Fair: that a task's lowest bid exceeds B/S. Max-Min: that the lowest bids add up to more
    than B, which is never likelier.

    Args:
        B: The budget of all tasks.
        lowest_cdfs: For each task the law of its *lowest* bid (`lowest` of the law of a bid).
        mechanism: "max_min_fair" or "budget_fair".
    """
    _check(0.0, 1, B)
    if not lowest_cdfs:
        raise InputError("at least one task is needed")
    if mechanism == "budget_fair":
        share = np.array([B / len(lowest_cdfs)])
        return _any_of([float(_tail(cdf, share)[0]) for cdf in lowest_cdfs])
    if mechanism != "max_min_fair":
        raise InputError(f"mechanism must be budget_fair or max_min_fair, got {mechanism!r}")
    return _sum_above(B, lowest_cdfs)


def _any_of(chances: Sequence[float]) -> float:
    """The chance that one or more of independent events happen: 1 - prod(1 - p)."""
    if max(chances) >= 1:
        return 1.0
    return 0.0 - math.expm1(math.fsum(math.log1p(-p) for p in chances))  # 0, and not -0


def no_user_probability_exp(
    B: float,
    rate: float,
    S: int = 2,
    mechanism: Literal["budget_fair", "max_min_fair"] = "max_min_fair",
) -> float:
    """`no_user_probability` where every task's *lowest* bid is exponential with this rate.

    For K bids ~ exp(lam) the lowest has the rate K lam. With y = rate B: Max-Min e^-y (1 + y) and
    Budget-Fair e^-y (2 e^(y/2) - 1) for two tasks, and the same for S of them.
    """
    from scipy.special import gammaincc

    _check(0.0, 1, B)
    if not 0 < rate < math.inf or S < 1:
        raise InputError(f"rate and S must be positive, got {rate} and {S}")
    if mechanism == "budget_fair":
        return _any_of([math.exp(-rate * B / S)] * S)
    if mechanism != "max_min_fair":
        raise InputError(f"mechanism must be budget_fair or max_min_fair, got {mechanism!r}")
    return float(gammaincc(S, rate * B))


@dataclass(frozen=True)
class Joining:
    """Shares of sampled auctions, with their standard errors.

    Attributes:
        full: In which the bid won as a full user.
        fractional: In which it won a fraction.
        participation: Mean participation x.
        full_error: Standard error of `full`.
        participation_error: Standard error of `participation`.
        nobody: In which the task got no full user at all.
    """

    full: float
    fractional: float
    participation: float
    full_error: float
    participation_error: float
    nobody: float


def join_sampled(
    bid: float,
    N: int,
    laws: Sequence[Law],
    mechanism: Mechanism,
    *,
    task: int = 0,
    draws: int = 1000,
    rng: np.random.Generator,
) -> Joining:
    """The chance that a bid wins, by holding auctions: for any mechanism, and as a check.

    Args:
        bid: The user's bid for `task`; its other bids are drawn like everybody's.
        N: Users.
        laws: For each task the law of its bids, by quantiles.
        mechanism: E.g. ``MaxMinFair(budget=29.0)``, whose ending is fractional.
        task: Column of the task.
        draws: Auctions.
        rng: Source of randomness.
    """
    from mmfl.market import Bids

    _check(bid, N, 1.0)
    if draws < 2:
        raise InputError(f"draws must be at least 2, got {draws!r}")
    x, nobody, at_once = np.empty(draws), 0, max(1, _AT_ONCE // (N * len(laws)))
    for start in range(0, draws, at_once):
        u = rng.random((min(at_once, draws - start), N, len(laws)))
        u = np.maximum(u, 2.0**-54)
        tables = np.stack([law.quantile(u[:, :, s]) for s, law in enumerate(laws)], axis=2)
        tables[:, 0, task] = bid
        for draw, table in enumerate(tables, start):
            outcome = mechanism.recruit(Bids(table))
            x[draw] = outcome.participation[0, task]
            nobody += not len(outcome.winners[task])
    full, root = float((x == 1).mean()), math.sqrt(draws)
    return Joining(
        full=full,
        fractional=float(((x > 0) & (x < 1)).mean()),
        participation=float(x.mean()),
        full_error=math.sqrt(full * (1 - full)) / root,
        participation_error=float(x.std(ddof=1)) / root,
        nobody=nobody / draws,
    )


def _on(cdf: Cdf, x: Floats) -> Floats:
    """A law at these places; one that knows only single numbers is asked one by one."""
    try:
        found = np.asarray(cdf(x), dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != x.shape:
        found = np.array([float(np.asarray(cdf(value))) for value in x.ravel()]).reshape(x.shape)  # type: ignore[arg-type]
    if not ((found >= -1e-12) & (found <= 1 + 1e-12)).all():
        raise InputError(f"a cdf must give probabilities in [0, 1], got {found.ravel()[:3]}")
    clipped: Floats = np.clip(found, 0.0, 1.0)
    return clipped


def _at(cdf: Cdf, x: float) -> float:
    return float(_on(cdf, np.array([x]))[0])


def _check(bid: float, N: int, B: float) -> None:
    if not bid >= 0:
        raise InputError(f"bid must be >= 0 (inf = unwilling), got {bid!r}")
    if not N >= 1:
        raise InputError(f"N must be at least 1, got {N!r}")
    if not 0 < B < math.inf:
        raise InputError(f"B must be finite and > 0, got {B!r}")
