"""How even a result is across tasks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError

__all__ = [
    "Price",
    "alpha_fair_objective",
    "check_weights",
    "cosine_similarity",
    "jain",
    "merit",
    "price_of_fairness",
    "variance",
    "worst",
]


def worst(values: npt.ArrayLike) -> float:
    """The lowest of the values; NaN if one of them is unknown."""
    return float(np.min(np.asarray(values, dtype=np.float64)))


def variance(values: npt.ArrayLike) -> float:
    """Population variance over tasks, the paper's measure of unfairness."""
    with np.errstate(invalid="ignore"):  # of a model that diverged: NaN
        return float(np.var(np.asarray(values, dtype=np.float64)))


def jain(values: npt.ArrayLike) -> float:
    """Jain's index (sum x)^2 / (S sum x^2): 1 when all are equal, 1/S when one has all.

    NaN where it is undefined: for values below 0, or not finite.
    """
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all() or x.min() < 0:
        return math.nan
    x = x / (x.max() or 1.0)  # of the same index, but its squares cannot overflow
    squares = float(np.square(x).sum())
    return float(np.square(x.sum())) / (x.size * squares) if squares else 1.0


def cosine_similarity(values: npt.ArrayLike) -> float:
    """The cosine between values and equal ones: 1 if all are equal, 1/sqrt(S) if one has all.

    The paper's measure of its second lemma (there without the constant 1/sqrt(S)); for values >= 0
    the root of Jain's index. NaN where it is undefined: if all are 0, or one is not finite.
    """
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all() or not x.any():
        return math.nan
    x = x / np.abs(x).max()
    return float(x.sum() / (math.sqrt(x.size) * math.sqrt(float(np.square(x).sum()))))


def alpha_fair_objective(
    losses: npt.ArrayLike, alpha: float, weights: npt.ArrayLike | None = None
) -> float:
    """What alpha-fair training minimises: the sum of w_s f_s^alpha over tasks; the worst f at inf.

    Args:
        losses: (S) f_s.
        alpha: Emphasis on fairness, in [1, inf].
        weights: (S) w_s, how much each task counts; by default all count alike. They do not matter
            at inf: w_s^(1/alpha) is 1 there.
    """
    f = np.asarray(losses, dtype=np.float64)
    if not (f >= 0).all():
        raise InputError("losses must be >= 0 to be raised to alpha")
    if not alpha >= 1:
        raise InputError(f"alpha must be >= 1 (inf included), got {alpha}")
    w = 1.0 if weights is None else check_weights(weights, f.size)
    return float(f.max()) if math.isinf(alpha) else float((w * f**alpha).sum())


def check_weights(weights: npt.ArrayLike, tasks: int) -> npt.NDArray[np.float64]:
    """The weights of that many tasks as a vector, or one sentence about what is wrong with them."""
    try:
        w = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"weights must be a vector of numbers, got {weights!r}") from None
    if w.shape != (tasks,):
        raise InputError(f"weights must be one number per task ({tasks}), got shape {w.shape}")
    bad = ~(np.isfinite(w) & (w > 0))
    if bad.any():
        raise InputError(f"weights must be finite and > 0, got {w[bad][0]} for task {bad.argmax()}")
    return w


class Price(NamedTuple):
    """The cost and the gain of fairness.

    Attributes:
        mean_lost: How much lower the mean over tasks is.
        worst_gained: How much higher the worst task is.
    """

    mean_lost: float
    worst_gained: float

    @property
    def rate(self) -> float:
        """Mean lost for one unit of worst gained; NaN where the worst task did not gain."""
        return self.mean_lost / self.worst_gained if self.worst_gained > 0 else math.nan


def price_of_fairness(fair: npt.ArrayLike, base: npt.ArrayLike) -> Price:
    """The price of a fair result against another of the same tasks; more is better in both."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (fair, base))
    if x.shape != y.shape or x.size == 0:
        raise InputError(f"both results need the same tasks, got {x.size} and {y.size} values")
    return Price(float(y.mean() - x.mean()), float(x.min() - y.min()))


def merit(metric: float, better: str) -> float:
    """A metric as a number where more is better: if lower is better, an error e becomes 1 - e."""
    return metric if better == "higher" else 1.0 - metric
