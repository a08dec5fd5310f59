"""How long a run takes to reach an accuracy, in rounds or in virtual seconds.

A run that never reaches it is *censored*: all that is known is that it takes longer than the run.
Its time counts as the length of the run (a restricted mean, as in survival analysis), and a table
or claim that shows such times says how many are censored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mmfl.errors import ConfigError
from mmfl.report import Curves

__all__ = ["Time", "count_censored", "find_time"]

_NAME = re.compile(r"(rounds|seconds)(?: of (.+))? to (target|0?\.\d+)")


@dataclass(frozen=True)
class Time:
    """The time until a task reaches an accuracy, or until all tasks have it at the same time.

    Attributes:
        unit: "rounds" or "seconds" (virtual ones).
        task: Which task; None for all.
        goal: The accuracy; None for each task's own target.
    """

    unit: str
    task: str | None = None
    goal: float | None = None

    def is_known(self, run: Curves) -> bool:
        """Whether the run has the targets and the virtual seconds that this time needs."""
        aimed = self.goal is not None or all(task in run.targets for task in self._find_tasks(run))
        return aimed and (self.unit == "rounds" or run.virtual is not None)

    def find_round(self, run: Curves) -> int | None:
        """The first round after which it is reached, from 1; None if there is none."""
        reached = np.ones(run.rounds, bool)
        for task in self._find_tasks(run):
            reached &= self._compare(run, task)
        places = np.flatnonzero(reached)
        return int(places[0]) + 1 if len(places) else None

    def of(self, run: Curves) -> float:
        """The time, or the length of the run if it is censored; NaN if it is not known."""
        if not self.is_known(run):
            return math.nan
        number = self.find_round(run) or run.rounds
        if run.virtual is None or self.unit == "rounds":
            return float(number)
        return float(run.virtual[:number].sum())

    def _find_tasks(self, run: Curves) -> Sequence[str]:
        if self.task is not None and self.task not in run.tasks:
            known = ", ".join(run.tasks)
            raise ConfigError(f"there is no task {self.task!r}; the run has {known}")
        return run.tasks if self.task is None else (self.task,)

    def _compare(self, run: Curves, task: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """In which rounds a task is at its goal."""
        column = run.tasks.index(task)
        if self.goal is not None:
            return np.asarray(run.merit[:, column] >= self.goal)
        sign = 1.0 if run.better[column] == "higher" else -1.0
        return np.asarray(sign * run.metric[:, column] >= sign * run.targets[task])


def find_time(name: str) -> Time | None:
    """What "rounds to 0.5", "rounds of mnist to target" and the like mean; None for other names."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    unit, task, goal = found.groups()
    return Time(unit, task, None if goal == "target" else float(goal))


def count_censored(time: Time, runs: Iterable[Curves]) -> int:
    """How many of these runs never reach it."""
    return sum(time.is_known(run) and time.find_round(run) is None for run in runs)
