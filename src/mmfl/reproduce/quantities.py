"""The numbers about a run that the paper's claims and figures are about, by name.

A single round is noisy, so that "final" is the mean over the last tenth of the rounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mmfl.errors import ConfigError
from mmfl.report import Curves, Quantity
from mmfl.reproduce.times import find_time

__all__ = ["PAPER_ROUNDS", "curve", "find_quantity", "scale_round"]

Floats = npt.NDArray[np.float64]

PAPER_ROUNDS = 120
"""T in all of the paper's experiments with training."""

_KNOWN = (
    "'worst', 'mean', 'variance', 'difference', the same with 'over rounds', 'variance at 60' or "
    "'worst at budget 29', 'task NAME', 'turns NAME', 'rounds to 0.5', 'rounds to target' "
    "or 'seconds to target', the last three also as in 'rounds of NAME to 0.5'"
)


def scale_round(number: int, rounds: int) -> int:
    """The round of a shorter run that corresponds to one of the paper's 120."""
    return min(max(1, round(number * rounds / PAPER_ROUNDS)), rounds)


def curve(name: str) -> Callable[[Curves], Floats]:
    """What "worst", "mean", "variance", "difference" or "task NAME" is after each round."""
    if name == "worst":
        return lambda run: run.worst
    if name == "mean":
        return lambda run: np.asarray(run.merit.mean(axis=1))
    if name == "variance":
        return _compute_variance
    if name == "difference":
        return _compute_difference
    if name.startswith("task "):
        task = name.removeprefix("task ")
        return lambda run: np.asarray(run.merit[:, _column(run, task)])
    raise ConfigError(f"unknown quantity {name!r}; known: {_KNOWN}")


@np.errstate(invalid="ignore")  # of a model that diverged: NaN
def _compute_variance(run: Curves) -> Floats:
    return np.asarray(run.merit.var(axis=1))


@np.errstate(invalid="ignore")
def _compute_difference(run: Curves) -> Floats:
    return np.asarray(run.merit.max(axis=1) - run.merit.min(axis=1))


def find_quantity(name: str) -> Quantity:
    """The quantity of this name."""
    if time := find_time(name):
        return Quantity(name, "lower", time.of, 1, counts_rounds=time.unit == "rounds")
    better = "lower" if name.startswith(("variance", "difference")) else "higher"
    decimals = 4 if name.startswith("variance") else 3
    if name.startswith("turns "):
        task = name.removeprefix("turns ")
        return Quantity(name, better, lambda run: _share(run, task))
    if at := re.fullmatch(r"(.+) at budget (\d+)", name):  # of a sweep, which has budgets 1, 2, ...
        values, place = curve(at[1]), int(at[2]) - 1
        return Quantity(name, better, lambda run: float(values(run)[place]), 1)
    if at := re.fullmatch(r"(.+) at (\d+)", name):
        values, number = curve(at[1]), int(at[2])
        return Quantity(
            name,
            better,
            lambda run: float(values(run)[scale_round(number, run.rounds) - 1]),
            decimals,
        )
    if name.endswith(" over rounds"):
        values = curve(name.removesuffix(" over rounds"))
        return Quantity(name, better, lambda run: float(np.nanmean(values(run))), decimals)
    values = curve(name)
    return Quantity(name, better, lambda run: _final(values(run)), decimals)


def _final(values: Floats) -> float:
    return float(values[-max(1, len(values) // 10) :].mean())


def _share(run: Curves, task: str) -> float:
    return float(run.turns[_column(run, task)] / max(1, run.turns.sum()))


def _column(run: Curves, task: str) -> int:
    if task not in run.tasks:
        raise ConfigError(f"there is no task {task!r}; the run has {', '.join(run.tasks)}")
    return run.tasks.index(task)
