"""Selection by Monte Carlo: the check on enumeration and integral, and for what has no formula."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.theory.selection import Floats, normalise

__all__ = ["Sampled", "sampled_weights"]

_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Sampled:
    """Means over sampled selections, and their standard errors.

    Attributes:
        weights: (K) omega_k, as `expected_weights`.
        weights_error: (K) standard errors.
        square: As `square_weight_term`.
        square_error: Its standard error.
        empty: The share of selections with nobody.
    """

    weights: Floats
    weights_error: Floats
    square: float
    square_error: float
    empty: float


def sampled_weights(
    p: npt.ArrayLike,
    q: float,
    *,
    active: int | None = None,
    draws: int = 10_000,
    rng: np.random.Generator,
) -> Sampled:
    """Draw selections and average.

    Args:
        p: (K) shares of the task's data; who has none takes no part.
        q: The task's allocation probability.
        active: m of the K clients are active in a round, drawn anew each time; by default all.
        draws: Selections.
        rng: Source of randomness.
    """
    share = normalise(p)
    if not 0 <= q <= 1:
        raise InputError(f"q must be a probability in [0, 1], got {q!r}")
    K = len(share)
    if active is not None and not 0 <= active <= K:
        raise InputError(f"active must be from 0 to K = {K}, got {active}")
    if draws < 2:
        raise InputError(f"draws must be at least 2, got {draws}")
    first, second = np.zeros(K), np.zeros(K)
    square = square_squared = 0.0
    empty = 0
    for start in range(0, draws, max(1, _AT_ONCE // K)):
        n = min(max(1, _AT_ONCE // K), draws - start)
        chosen = rng.random((n, K)) < q
        if active is not None:
            rank = rng.random((n, K)).argsort(axis=1).argsort(axis=1)
            chosen &= rank < active
        weight = chosen * share
        total = weight.sum(axis=1, keepdims=True)
        np.divide(weight, total, out=weight, where=total > 0)
        squares = np.square(weight).sum(axis=1)
        first += weight.sum(axis=0)
        second += np.square(weight).sum(axis=0)
        square += float(squares.sum())
        square_squared += float(np.square(squares).sum())
        empty += int((total == 0).sum())
    mean, mean_square = first / draws, square / draws
    return Sampled(
        weights=mean,
        weights_error=np.sqrt(np.maximum(second / draws - mean**2, 0.0) / (draws - 1)),
        square=mean_square,
        square_error=math.sqrt(max(square_squared / draws - mean_square**2, 0.0) / (draws - 1)),
        empty=empty / draws,
    )
