"""The gate: every result of a round is checked and counted here before it may touch a model.

There are two. `Gate` takes what clients send as it is. `FaultyGate` plays an experiment's
``[faults]``: it loses the turns of dropouts and stragglers, and corrupts what some clients send.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.aggregate import Checks, check_update, partial_sums
from mmfl.allocate import View
from mmfl.errors import EngineError
from mmfl.exchange import ClientFailure, ClientUpdate, Job, Params
from mmfl.faults import Fault, Faults, Injection
from mmfl.loop.state import State
from mmfl.system import calls
from mmfl.system.tracebacks import hand_over

if TYPE_CHECKING:
    from mmfl.experiment import Engine

__all__ = ["FaultyGate", "Gate", "open_gate"]

Result = ClientUpdate | ClientFailure


class Gate:
    """The gate through which a round's results come: checked, counted, grouped by task.

    Args:
        engine: The engine that trains.
        view: What the allocator saw: who is active, and holds how many examples of each task.
        state: The state before the round.
        checks: The limits that an update must keep.
        mergeable: Whether the aggregator takes sums of updates.

    Attributes:
        accepted: (client, task, loss at the start, norm, examples, seconds) of each accepted
            update.
        trained: From task to its number of accepted updates.
        failures: Turns without an accepted update, and answers beyond the one that a turn has.
        samples: Training examples processed.
        seconds_aggregate: Spent here and in the aggregator, not waiting for the engine.
        seconds_clients: Spent by the clients, added up.
    """

    def __init__(
        self, engine: Engine, view: View, state: State, *, checks: Checks, mergeable: bool
    ) -> None:
        self.accepted: list[tuple[int, str, float, float, int, float]] = []
        self.trained: dict[str, int] = {}
        self.failures: list[ClientFailure] = []
        self.samples = 0
        self.seconds_aggregate = 0.0
        self.seconds_clients = 0.0
        self._engine, self._view, self._state = engine, view, state
        self._checks, self._mergeable = checks, mergeable
        self._merge = mergeable

    @property
    def delivered(self) -> Iterator[int]:
        """Clients whose update was accepted."""
        return (client for client, *_ in self.accepted)

    @property
    def faults(self) -> Sequence[Fault]:
        """What was made to go wrong."""
        return ()

    @property
    def virtual(self) -> float:
        """The round's duration in virtual seconds; NaN if clients have no speeds."""
        return math.nan

    def by_task(self, jobs: Sequence[Job]) -> Iterator[tuple[str, Iterator[Any]]]:
        """(task, its updates as the aggregator wants them) as they arrive; consume each in turn."""
        start = calls.perf_counter()
        jobs = self._select(jobs)
        results = self._await(self._engine.train(jobs, self._state.params, merge=self._merge))
        pairs = _pair(jobs, results)
        for task, group in groupby(pairs, key=lambda pair: pair[0].address.task):
            admitted = (self._admit(job, result) for job, result in group)
            updates: Iterator[Any] = (one for one in admitted if isinstance(one, ClientUpdate))
            if self._mergeable:
                updates = partial_sums(admitted)
            yield task, hand_over(updates)
            for _ in admitted:  # what an aggregator leaves unread is still checked and counted
                pass
        self.seconds_aggregate += calls.perf_counter() - start

    def _select(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The jobs that the engine gets."""
        return jobs

    def _await(self, results: Iterator[Result]) -> Iterator[Result]:
        """The results; waiting for them does not count as our time."""
        start = calls.perf_counter()
        for result in results:
            self.seconds_aggregate -= calls.perf_counter() - start
            if isinstance(result, ClientFailure) and not result.turn:
                self.failures.append(result)  # beyond what was asked for: it answers no job
            else:
                yield result
            start = calls.perf_counter()

    def _admit(self, job: Job, result: Result) -> Result:
        """Algorithm 1, line 10: the upload. No update passes that `check_update` refuses."""
        return self._count(job, self._check(job, result))

    def _check(self, job: Job, result: Result) -> Result:
        """The result, or the reason against it."""
        address = job.address
        trusted = self._merge and self._engine.merges  # checked where it was formed
        if isinstance(result, ClientFailure):
            partial = result.partial if trusted else None
            words = str(result.reason), str(result.detail)
            return ClientFailure(address, *words, partial, trace=str(result.trace))
        packed = isinstance(result, ClientUpdate) and isinstance(result.delta, Params | None)
        if trusted and packed and result.address == address:
            return result
        row = np.searchsorted(self._view.clients, address.client)
        holds = int(self._view.sizes[row, self._view.tasks.index(address.task)])
        layout = self._state.params[address.task].layout
        return check_update(result, address, layout, holds, self._checks)

    def _count(self, job: Job, result: Result) -> Result:
        """The result, after it was recorded."""
        address = job.address
        if isinstance(result, ClientFailure):
            sum_free = result if result.partial is None else replace(result, partial=None)
            self.failures.append(sum_free)  # failures are kept longer than sums
            return result
        claimed = result.probability  # it may be anything, even an array
        if type(claimed) is not float or claimed != job.probability:
            result = replace(result, probability=job.probability)
        self.samples += result.samples
        self.seconds_clients += result.seconds
        self.trained[address.task] = self.trained.get(address.task, 0) + 1
        numbers = (result.loss_before, result.norm, result.examples, result.seconds)
        self.accepted.append((address.client, address.task, *numbers))
        return result


class FaultyGate(Gate):
    """A gate that injects faults.

    Args:
        engine: The engine that trains.
        view: What the allocator saw.
        state: The state before the round.
        checks: The limits that an update must keep.
        mergeable: Whether the aggregator takes sums of updates.
        injection: What goes wrong in this round.
    """

    def __init__(
        self,
        engine: Engine,
        view: View,
        state: State,
        *,
        checks: Checks,
        mergeable: bool,
        injection: Injection,
    ) -> None:
        super().__init__(engine, view, state, checks=checks, mergeable=mergeable)
        self._injection = injection
        # Where clients misbehave, each update is needed by itself: it is corrupted here.
        self._merge = mergeable and not injection.settings.clients

    @property
    def faults(self) -> Sequence[Fault]:
        """What was made to go wrong."""
        return self._injection.faults

    @property
    def virtual(self) -> float:
        """The round's duration in virtual seconds; NaN if clients have no speeds."""
        return self._injection.virtual

    def _select(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """All jobs but those of dropouts and stragglers."""
        view = self._view
        rows = np.searchsorted(view.clients, [job.address.client for job in jobs])
        columns = np.array([view.tasks.index(job.address.task) for job in jobs], np.int64)
        lost = self._injection.find_lost(jobs, view.positions[rows], view.sizes[rows, columns])
        self.failures += [failure for failure in lost if failure is not None]
        jobs = [job for job, failure in zip(jobs, lost, strict=True) if failure is None]
        for task, group in groupby(jobs, key=lambda job: job.address.task):
            self._injection.expect(task, np.array([job.address.client for job in group]))
        return jobs

    def _admit(self, job: Job, result: Result) -> Result:
        """Algorithm 1, line 10, with what a client that misbehaves sends instead."""
        address = job.address
        if not self._injection.misbehaves(address.task, address.client):
            return super()._admit(job, result)
        result = self._check(job, result)
        if isinstance(result, ClientFailure):
            return self._count(job, result)
        sent = self._injection.send(result)
        answer = sent[0] if sent else ClientFailure(address, "dropout", "sent nothing")
        result = super()._admit(job, answer)
        for _ in sent[1:]:
            detail = "the turn was already answered"
            self.failures.append(ClientFailure(address, "duplicate", detail, turn=False))
        refused = isinstance(result, ClientFailure) or len(sent) > 1
        self._injection.note(address, "train", refused=refused)
        return result


def open_gate(
    engine: Engine,
    view: View,
    state: State,
    *,
    checks: Checks,
    mergeable: bool,
    faults: Faults | None,
    seed: int,
) -> Gate:
    """The gate of a round: a faulty one if the experiment has ``[faults]``."""
    if faults is None:
        return Gate(engine, view, state, checks=checks, mergeable=mergeable)
    injection = Injection(faults, seed, view.round, view.tasks)
    return FaultyGate(engine, view, state, checks=checks, mergeable=mergeable, injection=injection)


def _pair(jobs: Sequence[Job], results: Iterator[Result]) -> Iterator[tuple[Job, Result]]:
    """Each job with its result; an engine that gives too few or too many is at fault."""
    done = 0
    for result in results:
        if done == len(jobs):
            raise EngineError(f"the engine returned more results than it had jobs ({len(jobs)})")
        yield jobs[done], result
        done += 1
    if done < len(jobs):
        raise EngineError(f"the engine returned {done} results for {len(jobs)} jobs")
