"""Curves of a variant over its seeds: the mean, the lowest and the highest, at some rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.report.curves import Curves
from mmfl.report.statistics import Variant

__all__ = ["MEASURES", "bin_rounds", "jain_by_round", "pick_rounds", "round_off", "summarise"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_FEWEST, _MOST = 60, 500
_NUMBERS = 60_000
"""About how many numbers the curves of a report have."""

_BINS = 25
_DIGITS = 6
"""Significant digits of a number in a curve."""


def jain_by_round(merit: Floats) -> Floats:
    """(T) Jain's index of (T, S) merits, as `mmfl.fairness.jain` has it for each round."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        top = merit.max(axis=1, keepdims=True)
        x = merit / np.where(top == 0, 1.0, top)
        squares = np.square(x).sum(axis=1)
        index = np.square(x.sum(axis=1)) / (merit.shape[1] * squares)
    index = np.where(squares == 0, 1.0, index)
    known = np.isfinite(merit).all(axis=1) & (merit >= 0).all(axis=1)
    return np.where(known, index, math.nan)


def _variance(merit: Floats) -> Floats:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isfinite(merit).all(axis=1), merit.var(axis=1), math.nan)


MEASURES: dict[str, Callable[[Floats], Floats]] = {
    "worst": lambda merit: merit.min(axis=1),
    "mean": lambda merit: merit.mean(axis=1),
    "variance": _variance,
    "jain": jain_by_round,
}
"""Of all tasks together, from (T, S) merits to (T) values."""


def pick_rounds(rounds: int, lines: int) -> Ints:
    """The rounds, from 1, at which curves have a point: all, or so many that a report stays small.

    Args:
        rounds: How many rounds there are.
        lines: How many numbers each of them takes.
    """
    most = min(max(_NUMBERS // max(lines, 1), _FEWEST), _MOST)
    if rounds <= most:
        return np.arange(1, rounds + 1)
    return np.unique(np.linspace(1, rounds, most).round().astype(np.int64))


def bin_rounds(rounds: int) -> Ints:
    """The edges of at most 25 bins: bin b has the rounds after edge b, up to edge b + 1."""
    return np.append(np.arange(0, rounds, -(-rounds // _BINS)), rounds)


def summarise(
    variant: Variant, picked: Ints, of: Callable[[Curves], Floats]
) -> dict[str, list[float | None]]:
    """The mean, the lowest and the highest over the seeds, at the picked rounds.

    A run that is shorter than another keeps its last value. A round in which one seed is not known
    is not known.

    Args:
        variant: The runs.
        picked: The rounds, from 1.
        of: From a run to a value for each of its rounds.
    """
    rows = []
    for run in variant.runs.values():
        values = of(run)
        rows.append(values[np.minimum(picked, len(values)) - 1])
    table = np.array(rows)
    with np.errstate(invalid="ignore", over="ignore"):
        found = {"mean": table.mean(axis=0), "low": table.min(axis=0), "high": table.max(axis=0)}
    return {key: round_off(values) for key, values in found.items()}


def round_off(values: Floats | Sequence[float]) -> list[Any]:
    """As JSON has them, with six significant digits; what is not known is None."""
    return [
        float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
        for value in np.asarray(values, np.float64).tolist()
    ]
