"""Scores: what "worse off" means (the paper's f_s). `SCORES` is the family's table.

An engine delivers sums over pieces of a split, or over clients' shards; `combine` adds them up in
the order of delivery, which makes the server's value a mean over examples and the clients' value
the size-weighted mean of the paper's equation 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mmfl.config import Family, component
from mmfl.updates import Evaluation, Split

if TYPE_CHECKING:
    from mmfl.engines.base import Engine
    from mmfl.experiment import Experiment
    from mmfl.state import State
    from mmfl.turns import Population

__all__ = ["SCORES", "Error", "Loss", "Measured", "Score", "combine", "scores", "tested"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over examples: the loss, and the metric (accuracy for classification)."""

    loss: float
    metric: float
    examples: int


class Score(Protocol):
    """From what was measured to a difficulty f_s >= 0, higher = worse off."""

    def difficulty(self, measured: Measured) -> float:
        """f_s; a value that is not finite counts as "as bad as the worst known task"."""
        ...


@component
class Error:
    """1 - accuracy: comparable over tasks (the paper's "Normalization" paragraph, put right)."""

    def difficulty(self, measured: Measured) -> float:
        """f_s = 1 - accuracy."""
        return 1.0 - measured.metric


@component
class Loss:
    """The loss itself: the paper's equation 1, for tasks whose losses are comparable."""

    def difficulty(self, measured: Measured) -> float:
        """f_s = mean loss."""
        return measured.loss


SCORES = Family(name="score", table={"error": Error, "loss": Loss}, needs=("difficulty",))


def combine(pieces: Iterable[Evaluation]) -> dict[str, Measured]:
    """From pieces to means per task, in float64 and in the order of delivery."""
    sums: dict[str, tuple[float, float, int]] = {}
    for piece in pieces:
        loss, metric, examples = sums.get(piece.task, (0.0, 0.0, 0))
        sums[piece.task] = (loss + piece.loss, metric + piece.metric, examples + piece.examples)
    return {
        task: Measured(loss / examples, metric / examples, examples)
        for task, (loss, metric, examples) in sums.items()
        if examples
    }


def scores(
    t: int,
    experiment: Experiment,
    engine: Engine,
    population: Population,
    state: State,
    trained: set[str],
) -> tuple[dict[str, float], dict[str, Measured]]:
    """f_s of every task, and what was measured for it; who did not train keeps its score."""
    changed = {
        task: weights
        for task, weights in state.params.items()
        if task in trained or math.isnan(state.difficulty[task])
    }
    asked = None
    if experiment.score_source == "clients":  # the paper's equation 1
        asked = {task: population.judges(t, task) for task in changed}
    split: Split = experiment.score_split if asked is None else "train"
    seen = combine(engine.evaluate(changed, split, asked))
    difficulty = dict(state.difficulty)
    for task, measured in seen.items():
        others = [f for name, f in state.difficulty.items() if name != task]
        difficulty[task] = _safe(experiment.score, measured, others)
    return difficulty, seen


def tested(
    t: int, experiment: Experiment, engine: Engine, state: State, seen: Mapping[str, Measured]
) -> State:
    """The state with the test split measured, where it is due and a model has changed."""
    measured = dict(state.measured)
    if experiment.score_source == "server" and experiment.score_split == "test":
        measured |= seen
        return state.replace(measured=measured, stale=state.stale - seen.keys())
    if t % experiment.evaluate.every and t != experiment.rounds:
        return state
    old = {task: weights for task, weights in state.params.items() if task in state.stale}
    measured |= combine(engine.evaluate(old, "test"))
    return state.replace(measured=measured, stale=frozenset())


def _safe(score: Score, measured: Measured, others: Iterable[float]) -> float:
    """f_s, made safe: a score that is not finite is set to the worst finite one that is known."""
    f = float(score.difficulty(measured))
    if math.isfinite(f):
        return max(f, 0.0)
    return max((other for other in others if math.isfinite(other)), default=1.0)
