"""How even a result is over tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["jain", "variance", "worst"]


def worst(values: npt.ArrayLike) -> float:
    """The least of the values; NaN if one of them is unknown."""
    return float(np.min(np.asarray(values, dtype=np.float64)))


def variance(values: npt.ArrayLike) -> float:
    """Population variance over tasks, the paper's measure of unfairness."""
    with np.errstate(invalid="ignore"):  # of a model that diverged: NaN
        return float(np.var(np.asarray(values, dtype=np.float64)))


def jain(values: npt.ArrayLike) -> float:
    """Jain's index (sum x)^2 / (S sum x^2): 1 when all are equal, 1/S when one has all."""
    x = np.asarray(values, dtype=np.float64)
    squares = float((x**2).sum())
    return float(x.sum()) ** 2 / (x.size * squares) if squares else 1.0
