"""A quantity that falls with the work done: a learning curve, fitted and carried on.

Work is U = sum over trained rounds of n_t^beta, where n_t is the number of clients whose updates
were accepted. With beta = 1 only client turns count, with beta = 0 only rounds do; in between, a
round with more clients is worth more, but not in proportion.

Within the data a curve is the falling one that is closest to it (isotonic regression); beyond, it
is a power law a + b (U + 1)^-d, or stays where it is if there is too little to fit one to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError

__all__ = ["Curve", "PowerLaw", "work_done"]

Floats = npt.NDArray[np.float64]

_LEAST = 5
"""So many places at which something was measured are needed to fit a power law's three numbers."""
_STEEPEST = 3.0


def work_done(clients: npt.ArrayLike, beta: float) -> Floats:
    """(T) U after each of T rounds, from the number of accepted clients in each.

    >>> work_done([4, 0, 9], beta=0.5)
    array([2., 2., 5.])
    """
    n = np.asarray(clients, dtype=np.float64)
    return np.cumsum(np.where(n > 0, n**beta, 0.0))


@dataclass(frozen=True)
class PowerLaw:
    """a + b (U + 1)^-d: falls from a + b towards a."""

    a: float
    b: float
    d: float

    @classmethod
    def fit(cls, work: Floats, value: Floats, weight: Floats, floor: float) -> PowerLaw:
        """The one with the least squared error; a and b are linear, so only d is searched.

        Args:
            work: (n) U.
            value: (n) what was measured.
            weight: (n) how often.
            floor: What the quantity cannot fall below: a is at least that.
        """
        from scipy.optimize import minimize_scalar

        def error(d: float) -> float:
            return cls._linear(work, value, weight, floor, d)[1]

        found = minimize_scalar(error, bounds=(1e-3, _STEEPEST), method="bounded")
        return cls._linear(work, value, weight, floor, float(found.x))[0]

    @classmethod
    def _linear(
        cls, work: Floats, value: Floats, weight: Floats, floor: float, d: float
    ) -> tuple[PowerLaw, float]:
        """The best a >= floor and b >= 0 for this d, and their squared error."""
        x = (work + 1.0) ** -d
        x_mean, y_mean = np.average(x, weights=weight), np.average(value, weights=weight)
        slope = float((weight * (x - x_mean) * (value - y_mean)).sum())
        b = max(0.0, slope / (float((weight * np.square(x - x_mean)).sum()) or 1.0))
        a = float(y_mean - b * x_mean)
        if a < floor:
            a = floor
            b = max(0.0, float((weight * x * (value - a)).sum() / (weight * x * x).sum()))
        return cls(a, b, d), float((weight * np.square(a + b * x - value)).sum())

    def at(self, work: float) -> float:
        """The value after this work."""
        return self.a + self.b * math.exp(-self.d * math.log1p(work))


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity after so much work; it never rises.

    Attributes:
        work: (n) U at which it was measured, ascending.
        value: (n) the quantity, falling; straight lines lie between. Before the first it is as
            after the first: it was not measured earlier.
        law: How it goes on; None = not at all.
    """

    work: Floats
    value: Floats
    law: PowerLaw | None

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
        law = PowerLaw.fit(places, mean, weight, floor) if len(places) >= _LEAST else None
        return cls(places, fitted, law)

    @property
    def end(self) -> float:
        """The most work at which it was measured; what comes later is extrapolated."""
        return float(self.work[-1])

    def at(self, work: float) -> float:
        """The quantity after this work."""
        inside = float(np.interp(work, self.work, self.value))
        if work <= self.end or self.law is None:
            return inside
        return min(inside, self.law.at(work))
