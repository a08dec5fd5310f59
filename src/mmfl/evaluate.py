"""Scores: what "worse off" means (the paper's f_s). `SCORES` is the family's table.

An engine delivers sums over pieces of a split, or over clients' shards; `combine` adds them up in
the order of delivery, which makes the server's value a mean over examples and the clients' value
the size-weighted mean of the paper's equation 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mmfl.config import Family, component
from mmfl.updates import Address, ClientFailure, Evaluation, EvaluationFailure, Split

if TYPE_CHECKING:
    from mmfl.engines.base import Engine, Ids
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


def combine(pieces: Iterable[Evaluation | EvaluationFailure]) -> dict[str, Measured]:
    """From pieces to means per task, in float64 and in the order of delivery."""
    sums: dict[str, tuple[float, float, int]] = {}
    for piece in pieces:
        if isinstance(piece, EvaluationFailure):
            continue
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
) -> tuple[dict[str, float], dict[str, Measured], list[ClientFailure]]:
    """f_s of every task, what was measured for it, and the clients that did not deliver.

    A task that did not train keeps its score.
    """
    changed = {
        task: weights
        for task, weights in state.params.items()
        if task in trained or math.isnan(state.difficulty[task])
    }
    asked = None
    if experiment.score_source == "clients":  # the paper's equation 1
        asked = {task: population.judges(t, task) for task in changed}
    split: Split = experiment.score_split if asked is None else "train"
    failures: list[ClientFailure] = []
    pieces = engine.evaluate(changed, split, asked)
    if asked is not None:
        gate = _Judges(experiment.run_id, asked, population, state, failures)
        pieces = iter([piece for piece in pieces if gate.lets_through(piece)])
        gate.close()
    seen = combine(pieces)
    difficulty = dict(state.difficulty)
    for task, measured in seen.items():
        others = [f for name, f in state.difficulty.items() if name != task]
        difficulty[task] = _safe(experiment.score, measured, others)
    return difficulty, seen, failures


@dataclass(frozen=True)
class _Judges:
    """The gate for clients' evaluations: one answer from each that was asked, within its limits."""

    run_id: str
    asked: Mapping[str, Ids]
    population: Population
    state: State
    failures: list[ClientFailure]
    heard: set[tuple[str, int]] = field(default_factory=set)

    def lets_through(self, found: Evaluation | EvaluationFailure) -> bool:
        """Whether an evaluation may count; if not, the failure is recorded."""
        task, client = found.task, found.client
        if task not in self.asked or client is None or client not in self.asked[task]:
            return False
        reason, detail = "", ""
        if isinstance(found, EvaluationFailure):
            reason, detail = found.reason, found.detail
        elif (task, client) in self.heard:
            reason, detail = "duplicate", "evaluated twice"
        elif not self._sane(found):
            reason, detail = "evaluation", f"claims {found}"
        self.heard.add((task, client))
        if reason:
            self._note(task, client, reason, detail)
        return not reason

    def close(self) -> None:
        """Record who was asked and said nothing."""
        for task, clients in self.asked.items():
            for client in clients.tolist():
                if (task, client) not in self.heard:
                    self._note(task, client, "evaluation", "no answer")

    def _note(self, task: str, client: int, reason: str, detail: str) -> None:
        version = self.state.versions[task]
        address = Address(self.run_id, self.state.round, task, client, version)
        self.failures.append(ClientFailure(address, reason, detail))

    def _sane(self, found: Evaluation) -> bool:
        federation = self.population.federation
        sizes = federation.sizes(np.array([found.client]))
        holds = int(sizes[0, federation.tasks.index(found.task)])
        numbers = 0 < found.examples <= holds and math.isfinite(found.loss)
        return numbers and 0 <= found.metric <= found.examples


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
