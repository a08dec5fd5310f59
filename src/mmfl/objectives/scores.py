"""Scores: what "worse off" means (the paper's f_s). `SCORES` is the family's table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from mmfl.config import Family, component
from mmfl.objectives.base import Metric
from mmfl.objectives.metrics import METRICS, find_merit

__all__ = [
    "SCORES",
    "Distance",
    "Error",
    "LossScore",
    "Measured",
    "RelativeLoss",
    "Score",
    "Scored",
]


class Scored(Protocol):
    """What a score may know of a task."""

    @property
    def metric(self) -> Metric | None:
        """What is measured; None while an experiment is not resolved."""
        ...

    @property
    def target(self) -> float | None:
        """The metric that the task is to reach."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over examples: the loss, the metric, and the loss of a blind guess."""

    loss: float
    metric: float
    examples: int
    guess: float = math.nan


class Score(Protocol):
    """From what was measured to a difficulty f_s >= 0, higher = worse off."""

    def difficulty(self, measured: Measured, task: Scored) -> float:
        """f_s; a value that is not finite counts as "as bad as the worst known task"."""
        ...


@component
class Error:
    """1 - accuracy: comparable across tasks (the paper's "Normalization" paragraph, corrected)."""

    def difficulty(self, measured: Measured, task: Scored) -> float:
        """f_s = 1 - metric; where lower is better, the metric is an error already.

        A perplexity p counts as 1 / p.
        """
        return 1.0 - _merit(measured.metric, task)


@component
class LossScore:
    """The loss itself: the paper's equation 1, for tasks whose losses are comparable."""

    def difficulty(self, measured: Measured, task: Scored) -> float:
        """f_s = mean loss."""
        return measured.loss


@component
class RelativeLoss:
    """The loss divided by a blind guess's: 1 = learnt nothing. For tasks of different kinds."""

    def difficulty(self, measured: Measured, task: Scored) -> float:
        """f_s = loss / loss of the guess (ln of the number of classes, or the targets' spread)."""
        return measured.loss / measured.guess if measured.guess > 0 else math.nan


@component
class Distance:
    """How far a task is from its own `target`; a task that has reached it needs no clients."""

    def difficulty(self, measured: Measured, task: Scored) -> float:
        """f_s = target - metric, where lower is better metric - target; at least 0."""
        assert task.target is not None  # an experiment with this score is refused without it
        return _merit(task.target, task) - _merit(measured.metric, task)


def _merit(metric: float, task: Scored) -> float:
    assert task.metric is not None  # experiments are resolved
    return float(find_merit(METRICS.kind_of(task.metric), task.metric.better)(metric))


SCORES = Family(
    name="score",
    table={"distance": Distance, "error": Error, "loss": LossScore, "relative_loss": RelativeLoss},
    needs=("difficulty",),
)
