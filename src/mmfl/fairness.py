"""How even a result is over tasks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["jain", "merit", "variance", "worst"]


def worst(values: npt.ArrayLike) -> float:
    """The least of the values; NaN if one of them is unknown."""
    return float(np.min(np.asarray(values, dtype=np.float64)))


def variance(values: npt.ArrayLike) -> float:
    """Population variance over tasks, the paper's measure of unfairness."""
    with np.errstate(invalid="ignore"):  # of a model that diverged: NaN
        return float(np.var(np.asarray(values, dtype=np.float64)))


def jain(values: npt.ArrayLike) -> float:
    """Jain's index (sum x)^2 / (S sum x^2): 1 when all are equal, 1/S when one has all.

    NaN where it means nothing: for values below 0, or not finite.
    """
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all() or x.min() < 0:
        return math.nan
    x = x / (x.max() or 1.0)  # of the same index, but its squares cannot overflow
    squares = float(np.square(x).sum())
    return float(np.square(x.sum())) / (x.size * squares) if squares else 1.0


def merit(metric: float, better: str) -> float:
    """A metric as a number of which more is better: where lower is, an error e counts as 1 - e."""
    return metric if better == "higher" else 1.0 - metric
