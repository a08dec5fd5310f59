"""A learning curve: a quantity that falls with the work done, fitted and extrapolated.

Work is U = sum over trained rounds of n_t^beta, where n_t is the number of clients whose updates
were accepted. With beta = 1 only client turns count, with beta = 0 only rounds do; in between, a
round with more clients is worth more, but not in proportion.

Within the data a curve is the falling one that is closest to it (isotonic regression); beyond, it
continues as a power law a + b (U + c)^-d that is fitted to the same data, or stays constant if
there is too little data to fit one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError

__all__ = ["Curve", "PowerLaw", "work_done"]

Floats = npt.NDArray[np.float64]

_LEAST = 8
"""How many measured points it takes to fit a power law's four numbers."""
_SHIFTS = np.geomspace(0.01, 1.0, 20)
_POWERS = np.geomspace(0.05, 3.0, 40)
_TAIL = 0.25
"""The last quarter of the work tells where a curve stands when a power law takes over."""


def work_done(clients: npt.ArrayLike, beta: float) -> Floats:
    """(T) U after each of T rounds, from the number of accepted clients in each.

    >>> work_done([4, 0, 9], beta=0.5)
    array([2., 2., 5.])
    """
    n = np.asarray(clients, dtype=np.float64)
    return np.cumsum(np.where(n > 0, n**beta, 0.0))


@dataclass(frozen=True)
class PowerLaw:
    """a + b (U + c)^-d: falls towards a."""

    a: float
    b: float
    c: float
    d: float

    @classmethod
    def fit(cls, work: Floats, value: Floats, weight: Floats, floor: float) -> PowerLaw:
        """The one with the least squared error.

        a and b are linear, so they are computed, for each c from a hundredth of the work up to all
        of it and each d up to 3, on a grid.

        Args:
            work: (n) U, ascending, the last one above 0.
            value: (n) what was measured.
            weight: (n) how often.
            floor: What the quantity cannot fall below: a is at least that.
        """
        c, d = np.meshgrid(_SHIFTS * work[-1], _POWERS, indexing="ij")
        w = weight / weight.sum()
        x = (1.0 + work / c[..., None]) ** -d[..., None]  # (c, d, n)
        x_mean, y_mean = x @ w, float(value @ w)
        spread = np.square(x - x_mean[..., None]) @ w
        b = np.maximum(((x - x_mean[..., None]) * (value - y_mean)) @ w, 0.0) / spread
        a = y_mean - b * x_mean
        low = a < floor
        b[low] = np.maximum((x[low] * (value - floor)) @ w / (np.square(x[low]) @ w), 0.0)
        a[low] = floor
        error = np.square(a[..., None] + b[..., None] * x - value) @ w
        at = np.unravel_index(int(error.argmin()), error.shape)
        return cls(float(a[at]), float(b[at] * c[at] ** d[at]), float(c[at]), float(d[at]))

    def at(self, work: float) -> float:
        """The value after this work."""
        return self.a + self.b * math.exp(-self.d * math.log(work + self.c))


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity as a function of the work done; it never rises.

    Attributes:
        work: (n) U at which it was measured, ascending.
        value: (n) the quantity, falling; straight lines lie between. Before the first it is as
            after the first: it was not measured earlier.
        mean: (n) what was measured there, on average.
        weight: (n) how often.
        floor: What the quantity cannot fall below.
    """

    work: Floats
    value: Floats
    mean: Floats
    weight: Floats
    floor: float

    @classmethod
    def fit(cls, work: npt.ArrayLike, value: npt.ArrayLike, *, floor: float = -math.inf) -> Curve:
        """Fit measurements, of one run or of several.

        Args:
            work: (n) U at each measurement, in any order.
            value: (n) what was measured; NaN = nothing was.
            floor: What the quantity cannot fall below, e.g. 0 for a difficulty.
        """
        from scipy.optimize import isotonic_regression

        x, y = np.asarray(work, dtype=np.float64), np.asarray(value, dtype=np.float64)
        known = np.isfinite(x) & np.isfinite(y)
        if not known.any():
            raise InputError("a curve needs at least one measurement")
        places, which, count = np.unique(x[known], return_inverse=True, return_counts=True)
        weight = count.astype(np.float64)
        mean = np.bincount(which, weights=y[known]) / weight
        fitted = isotonic_regression(mean, weights=weight, increasing=False).x
        return cls(places, fitted, mean, weight, floor)

    @cached_property
    def law(self) -> PowerLaw | None:
        """How it goes on after the end; None = not at all."""
        if len(self.work) < _LEAST:
            return None
        return PowerLaw.fit(self.work, self.mean, self.weight, self.floor)

    @cached_property
    def _above(self) -> float:
        """How much higher than the law the end of the data lies."""
        assert self.law is not None
        tail = self.work >= (1.0 - _TAIL) * self.end
        apart = self.mean[tail] - [self.law.at(u) for u in self.work[tail].tolist()]
        return float(np.average(apart, weights=self.weight[tail]))

    @property
    def end(self) -> float:
        """The most work at which it was measured; what comes later is extrapolated."""
        return float(self.work[-1])

    def at(self, work: float) -> float:
        """The quantity after this work."""
        inside = float(np.interp(work, self.work, self.value))
        if work <= self.end or self.law is None:
            return inside
        return max(self.floor, min(inside, self.law.at(work) + self._above))
