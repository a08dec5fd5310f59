"""Models of bids: how much clients ask, as distributions.

A distribution is given by its quantile function: u in (0, 1) becomes a bid. `simulated_bids` turns
addressed random numbers into u, independent or correlated across tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from mmfl.config import Family, NonNegative, Positive, component
from mmfl.market.bids import Floats

__all__ = [
    "DISTRIBUTIONS",
    "Beta",
    "Distribution",
    "Exponential",
    "IncreasingLinear",
    "TruncatedNormal",
    "UniformBids",
    "cdf_of",
]


class Distribution(Protocol):
    """What clients ask for a task."""

    def quantile(self, u: Floats) -> Floats:
        """The bids below which a share u of all clients stays; 0 < u < 1."""
        ...


def cdf_of(distribution: Distribution) -> Callable[[Floats], Floats]:
    """The share of clients that ask at most x, as a function: its own `cdf`, or by bisection."""
    own: Callable[[Floats], Floats] | None = getattr(distribution, "cdf", None)
    return own or partial(_bisect, distribution)


def _bisect(distribution: Distribution, x: Floats) -> Floats:
    ends = np.array([2.0**-54, 1 - 2.0**-53])
    least, most = distribution.quantile(ends)
    low, high = np.full(np.shape(x), ends[0]), np.full(np.shape(x), ends[1])
    for _ in range(60):
        middle = (low + high) / 2
        below = distribution.quantile(middle) <= x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found: Floats = np.where(x < least, 0.0, np.where(x >= most, 1.0, low))
    return found


def _check_order(low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"low must be below high, got {low:g} and {high:g}")


def _share_below(x: Floats, low: float, high: float) -> Floats:
    """How much of the interval lies below x."""
    share: Floats = np.clip((np.asarray(x) - low) / (high - low), 0.0, 1.0)
    return share


def _in_lower_tail(first: float, last: float, u: Floats) -> Floats:
    """A share u of the way from `first` to `last` by normal probability, both <= 0.

    In logarithms, since the probability itself is 0 in floats below -38.
    """
    from scipy.special import log_ndtr, ndtri_exp

    low, high = np.log1p(-u) + log_ndtr(first), np.log(u) + log_ndtr(last)
    found: Floats = ndtri_exp(np.logaddexp(low, high))
    return found


def _share_of_lower_tail(first: float, last: float, z: Floats) -> Floats:
    """(Phi(z) - Phi(first)) / (Phi(last) - Phi(first)), also where each of them is 0 in floats."""
    from scipy.special import log_ndtr

    part, least = (np.exp(log_ndtr(x) - log_ndtr(last)) for x in (z, first))
    found: Floats = (part - least) / (1.0 - least)
    return found


@component
class TruncatedNormal:
    """A normal distribution cut off at both ends: task 1 of the paper's Experiment 5.

    Attributes:
        mean: Mean of the normal distribution before truncation.
        sd: Its standard deviation.
        low: The lowest bid.
        high: The highest bid.
    """

    mean: NonNegative
    sd: Positive
    low: NonNegative = 0.0
    high: Positive = 1.0

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def quantile(self, u: Floats) -> Floats:
        """By the inverse normal distribution; by its logarithm where only a tail is left."""
        from scipy.special import ndtr, ndtri

        a, b = (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd
        if a >= 0:
            z = -_in_lower_tail(-a, -b, u)
        elif b <= 0:
            z = _in_lower_tail(a, b, u)
        else:
            z = ndtri(ndtr(a) + u * (ndtr(b) - ndtr(a)))
        found: Floats = np.clip(self.mean + self.sd * z, self.low, self.high)
        return found

    def cdf(self, x: Floats) -> Floats:
        """Normal probability below x over that of the interval, seen from the lighter tail."""
        a, b = (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd
        z: Floats = (np.clip(x, self.low, self.high) - self.mean) / self.sd
        if a + b > 0:
            return 1.0 - _share_of_lower_tail(-b, -a, -z)
        return _share_of_lower_tail(a, b, z)


@component
class IncreasingLinear:
    """Density that rises linearly from 0 (2x on [0, 1]): task 2 of the paper's Experiment 5.

    Attributes:
        low: Where the density is 0.
        high: The highest bid.
    """

    low: NonNegative = 0.0
    high: Positive = 1.0

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def quantile(self, u: Floats) -> Floats:
        """The root of u, scaled."""
        return self.low + (self.high - self.low) * np.sqrt(u)

    def cdf(self, x: Floats) -> Floats:
        """The square, scaled."""
        return _share_below(x, self.low, self.high) ** 2


@component
class UniformBids:
    """All bids between `low` and `high` are equally likely.

    Attributes:
        low: The lowest bid.
        high: The highest bid.
    """

    low: NonNegative = 0.0
    high: Positive = 1.0

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    def quantile(self, u: Floats) -> Floats:
        """Linear in u."""
        return self.low + (self.high - self.low) * u

    def cdf(self, x: Floats) -> Floats:
        """Linear in x."""
        return _share_below(x, self.low, self.high)


@component
class Exponential:
    """Many low bids and few high ones, without an upper limit.

    Attributes:
        mean: The mean bid.
    """

    mean: Positive = 1.0

    def quantile(self, u: Floats) -> Floats:
        """-mean log(1 - u)."""
        return -self.mean * np.log1p(-u)

    def cdf(self, x: Floats) -> Floats:
        """1 - exp(-x / mean)."""
        return -np.expm1(-np.maximum(x, 0.0) / self.mean)


@component
class Beta:
    """The beta distribution on [0, high]: peaked, U-shaped or sloped, by its two shape parameters.

    Attributes:
        a: First shape parameter; the mean is high * a / (a + b).
        b: Second shape parameter.
        high: The highest bid.
    """

    a: Positive
    b: Positive
    high: Positive = 1.0

    def quantile(self, u: Floats) -> Floats:
        """The inverse incomplete beta function."""
        from scipy.special import betaincinv

        found: Floats = self.high * betaincinv(self.a, self.b, u)
        return found

    def cdf(self, x: Floats) -> Floats:
        """The incomplete beta function."""
        from scipy.special import betainc

        found: Floats = betainc(self.a, self.b, np.clip(np.asarray(x) / self.high, 0.0, 1.0))
        return found


DISTRIBUTIONS = Family(
    name="bid model",
    table={
        "beta": Beta,
        "exponential": Exponential,
        "increasing_linear": IncreasingLinear,
        "truncated_normal": TruncatedNormal,
        "uniform": UniformBids,
    },
    needs=("quantile",),
)
