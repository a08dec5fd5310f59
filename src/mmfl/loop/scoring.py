"""Scoring: from evaluations to every task's difficulty f_s, and what the test split says.

An engine delivers sums over pieces of a split, or over clients' shards; `combine` adds them up in
the order of delivery, which makes the server's value a mean over examples and the clients' value
the size-weighted mean of the paper's equation 1. A metric that is made of several sums is computed
from their totals: from clients, it is that of the union of their data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.errors import EngineError, InputError
from mmfl.exchange import Address, ClientFailure, Evaluation, EvaluationFailure, Split
from mmfl.faults import Fault, Faults, Injection
from mmfl.objectives import Measured, Metric, Score, are_possible, compute_value, is_pooled
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import describe_part, guard_part, is_own

if TYPE_CHECKING:
    from mmfl.experiment import Engine, Federation, Ids, Task
    from mmfl.loop.population import Population
    from mmfl.loop.state import State

__all__ = ["RegularEvaluation", "Scoring", "combine", "find_evaluation_fault"]


def combine(
    pieces: Iterable[Evaluation | EvaluationFailure],
    metrics: Mapping[str, Metric | None] = MappingProxyType({}),
) -> dict[str, Measured]:
    """From pieces to means per task, in float64 and in the order of delivery.

    Args:
        pieces: What was measured.
        metrics: By task; the user's own are refused if their value is impossible.
    """
    sums: dict[str, tuple[float, float, int, float]] = {}
    tallies: dict[str, npt.NDArray[np.float64]] = {}
    for piece in pieces:
        if isinstance(piece, EvaluationFailure):
            continue
        loss, metric, examples, guess = sums.get(piece.task, (0.0, 0.0, 0, 0.0))
        sums[piece.task] = (
            loss + piece.loss,
            metric + piece.metric,
            examples + piece.examples,
            guess + piece.guess,
        )
        if piece.tally is not None:
            tally = tallies.setdefault(piece.task, np.zeros(piece.tally.shape))
            with np.errstate(over="ignore"):  # of clients' claims
                tally += piece.tally
    found = {
        task: Measured(loss / examples, metric / examples, examples, guess / examples)
        for task, (loss, metric, examples, guess) in sums.items()
        if examples
    }
    for task, tally in tallies.items():
        if task in found:
            value = _compute_value(task, metrics[task], tally, found[task].examples)
            found[task] = replace(found[task], metric=value)
    for task, measured in found.items():
        _refuse_impossible(task, metrics.get(task), measured)
    return found


def _compute_value(
    task: str, metric: Metric | None, tally: npt.NDArray[np.float64], examples: int
) -> float:
    try:
        with guard_part("metric", metric, task=task):
            return compute_value(metric, tally, examples)
    except InputError as error:
        raise EngineError(f"task {task!r}: {error}") from error.__cause__


def _refuse_impossible(task: str, metric: Metric | None, measured: Measured) -> None:
    """Refuse a user's metric that is beyond its own bounds, or no number although the loss is."""
    if metric is None or not is_own(metric):
        return
    low, high = metric.bounds
    value, slack = measured.metric, 1e-5  # of sums in float32
    if math.isnan(value) and not math.isfinite(measured.loss):  # training has diverged
        return
    bounded = low - slack * max(1, abs(low)) <= value <= high + slack * max(1, abs(high))
    if bounded and math.isfinite(value):
        return
    rule = "must be a finite number"
    if (low, high) != (-math.inf, math.inf):
        rule += f" from {low:g} to {high:g}, its bounds"
    raise EngineError(
        f"task {task!r}: the metric {describe_part(metric)} {rule}, got {value:g}"
        f"{describe_place(metric)}"
    )


@dataclass(frozen=True, eq=False)
class Scoring:
    """How the difficulty f_s of every task is obtained.

    Attributes:
        score: From what was measured to f_s.
        tasks: The tasks by name.
        split: The server's split on which f_s is evaluated; None = clients evaluate it on their
            own data (the paper's equation 1).
        population: Which clients are asked.
        faults: What goes wrong with clients' evaluations.
        seed: The experiment's.
        run_id: How failures name the run.
    """

    score: Score
    tasks: Mapping[str, Task]
    split: Split | None
    population: Population
    faults: Faults | None
    seed: int
    run_id: str

    def find_targets(self) -> npt.NDArray[np.float64]:
        """(S) the difficulty at which a task reaches its target; NaN = it has none, or unknown."""
        found = np.full(len(self.tasks), math.nan)
        for column, (name, task) in enumerate(self.tasks.items()):
            if task.target is not None:
                reached = Measured(math.nan, task.target, 1)
                with guard_part("score", self.score, task=name):
                    found[column] = self.score.difficulty(reached, task)
        return found

    def score_tasks(
        self, t: int, engine: Engine, state: State, trained: Collection[str] = ()
    ) -> tuple[dict[str, float], dict[str, Measured], list[ClientFailure], list[Fault]]:
        """f_s of every task, what was measured for it, clients that did not deliver, injected lies.

        A task that did not train keeps its score.
        """
        changed = {
            task: weights
            for task, weights in state.params.items()
            if task in trained or math.isnan(state.difficulty[task])
        }
        failures: list[ClientFailure] = []
        injection = Injection(self.faults or Faults(), self.seed, t, tuple(state.params))
        metrics = {task: self.tasks[task].metric for task in changed}
        if self.split is not None:
            seen = combine(engine.evaluate(changed, self.split), metrics)
        else:
            population = self.population
            asked = {task: population.evaluators(t, task, state.offenders) for task in changed}
            gate = _EvaluationGate(
                self.run_id, metrics, asked, population.federation, state, injection, failures
            )
            seen = combine(gate.admit(engine.evaluate(changed, "train", asked)), metrics)
            gate.close()
        difficulty = dict(state.difficulty)
        for task, measured in seen.items():
            others = [f for name, f in state.difficulty.items() if name != task]
            with guard_part("score", self.score, task=task):
                f = float(self.score.difficulty(measured, self.tasks[task]))
            difficulty[task] = _make_safe(f, others)
        return difficulty, seen, failures, injection.faults


@dataclass(frozen=True)
class _EvaluationGate:
    """The gate for clients' evaluations: one answer from each that was asked, within its limits."""

    run_id: str
    metrics: Mapping[str, Metric | None]
    asked: Mapping[str, Ids]
    federation: Federation
    state: State
    injection: Injection
    failures: list[ClientFailure]
    heard: set[tuple[str, int]] = field(default_factory=set)

    @cached_property
    def holds(self) -> dict[str, dict[int, int]]:
        """From task and client to how many examples it holds, of those that were asked."""
        federation, held = self.federation, {}
        for task, clients in self.asked.items():
            sizes = federation.sizes(clients)[:, federation.tasks.index(task)]
            held[task] = dict(zip(clients.tolist(), sizes.tolist(), strict=True))
        return held

    def admit(
        self, pieces: Iterable[Evaluation | EvaluationFailure]
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """The evaluations that may count, after dishonest clients have falsified theirs."""
        for task, clients in self.asked.items():
            self.injection.expect(task, clients, "evaluate")
        for piece in pieces:
            told, client = piece, piece.client
            if client is not None and self.injection.misbehaves(piece.task, client, "evaluate"):
                told = self.injection.report(piece, client)
            valid = self._check(told, piece)
            if told is not piece and client is not None:
                at = self._address(piece.task, client)
                self.injection.note(at, "evaluate", refused=not valid)
            if valid:
                yield told

    def _check(self, answer: Any, piece: Evaluation | EvaluationFailure) -> bool:
        """Whether an answer may count; if not, the failure is recorded.

        Args:
            answer: What arrived.
            piece: What the engine delivered: whose it is, if the answer is something else.
        """
        fits = isinstance(answer, Evaluation | EvaluationFailure)
        task, client = (answer.task, answer.client) if fits else (piece.task, piece.client)
        if not isinstance(task, str) or not isinstance(client, int | np.integer):
            return False
        client = int(client)
        if client not in self.holds.get(task, ()):
            return False
        reason = detail = trace = ""
        if not fits:
            reason, detail = "malformed", f"expected an evaluation, got {type(answer).__name__}"
        elif isinstance(answer, EvaluationFailure):
            reason, detail, trace = answer.reason, answer.detail, answer.trace
        elif (task, client) in self.heard:
            reason, detail = "duplicate", "evaluated twice"
        else:
            detail = find_evaluation_fault(
                answer, self.holds[task][client], self.metrics[task], self.federation.sums.get(task)
            )
            reason = "evaluation" if detail else ""
        self.heard.add((task, client))
        if reason:
            self._note(task, client, reason, detail, trace)
        return not reason

    def close(self) -> None:
        """Record the clients that were asked and did not answer."""
        for task, clients in self.asked.items():
            for client in clients.tolist():
                if (task, client) not in self.heard:
                    self._note(task, client, "evaluation", "no answer")

    def _note(self, task: str, client: int, reason: str, detail: str, trace: str = "") -> None:
        address = self._address(task, client)
        self.failures.append(ClientFailure(address, reason, detail, turn=False, trace=trace))

    def _address(self, task: str, client: int) -> Address:
        version = self.state.versions[task]
        return Address(self.run_id, self.state.round, task, client, version)


def find_evaluation_fault(
    answer: Evaluation, holds: int, metric: Metric | None, shape: tuple[int, ...] | None
) -> str:
    """Why a client's evaluation may not count; "" if it may.

    Args:
        answer: What it claims.
        holds: How many examples it holds.
        metric: The task's.
        shape: Of the metric's sums, if it has some.
    """
    examples = answer.examples
    assert metric is not None  # the experiment is resolved
    if isinstance(examples, bool) or not isinstance(examples, int) or not 0 < examples <= holds:
        return f"claims {short(examples)} examples, but holds {holds}"
    sums = (answer.loss, answer.metric, answer.guess)
    odd = [value for value in sums if not _is_number(value)]
    if odd:
        return f"claims {short(odd[0])} where a number is expected"
    loss, value, guess = (number / examples for number in sums)
    if not math.isfinite(loss):
        return f"claims a mean loss of {loss:g}"
    if not (math.isnan(guess) or 0 <= guess < math.inf):
        return f"claims a mean loss of {guess:g} for a blind guess"
    if is_pooled(metric):
        assert shape is not None
        with guard_part("metric", metric, task=answer.task):
            possible = are_possible(metric, answer.tally, shape, examples)
        return "" if possible else "claims sums for its metric that are not possible"
    if answer.tally is not None:
        return "claims sums for a metric that is a mean over examples"
    low, high = metric.bounds
    slack = 1e-5 * examples  # of sums in float32
    bounded = low * examples - slack <= answer.metric <= high * examples + slack
    if math.isfinite(value) and bounded:
        return ""
    return f"claims a mean metric of {value:g}, which is not a number from {low:g} to {high:g}"


def _is_number(value: object) -> bool:
    """Whether it can be computed with in float64; NaN and inf can."""
    if isinstance(value, int):
        return abs(value) < 2**1023
    return isinstance(value, float)


@dataclass(frozen=True)
class RegularEvaluation:
    """When the test split is evaluated.

    Attributes:
        every: Rounds between evaluations.
        rounds: T.
        scored: Whether f_s is obtained on the test split, after every round.
        metrics: By task.
    """

    every: int
    rounds: int
    scored: bool
    metrics: Mapping[str, Metric | None]

    def evaluate_tasks(
        self, t: int, engine: Engine, state: State, seen: Mapping[str, Measured]
    ) -> tuple[State, State]:
        """The state to continue with, and the state to show.

        They differ after the last round, which is always evaluated: a run that gets more rounds
        later continues as if they had been planned from the start.
        """
        measured = dict(state.measured)
        if self.scored:
            measured |= seen
            state = state.replace(measured=measured, stale=state.stale - seen.keys())
            return state, state
        due = t % self.every == 0
        if not due and t != self.rounds:
            return state, state
        old = {task: weights for task, weights in state.params.items() if task in state.stale}
        measured |= combine(engine.evaluate(old, "test"), self.metrics)
        shown = state.replace(measured=measured, stale=frozenset())
        return shown if due else state, shown


def _make_safe(f: float, others: Iterable[float]) -> float:
    """f_s, made safe: a score that is not finite is set to the worst finite one that is known."""
    if math.isfinite(f):
        return max(f, 0.0)
    return max((other for other in others if math.isfinite(other)), default=1.0)
