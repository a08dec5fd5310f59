"""The gate: every result of a round is checked and counted here before it may touch a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.aggregate import checked, partial_sums
from mmfl.allocate import View
from mmfl.errors import EngineError
from mmfl.exchange import ClientFailure, ClientUpdate, Job, Params
from mmfl.faults import Faults, Injection, Offenders
from mmfl.loop.state import State
from mmfl.system import calls

if TYPE_CHECKING:
    from mmfl.experiment import Engine, Experiment

__all__ = ["Turns"]

Result = ClientUpdate | ClientFailure


@dataclass(eq=False)
class Turns:
    """The gate through which a round's results come: checked, counted, grouped by task.

    Attributes:
        accepted: (client, task, loss at the beginning, norm) of each accepted update.
        trained: From task to its number of accepted updates.
        failures: Turns that came to nothing, and answers beyond the one that a turn has.
        samples: Training examples processed.
        seconds_aggregate: Spent here and in the aggregator, not waiting for the engine.
        seconds_clients: Spent by the clients, added up.
        injection: What is made to go wrong.
    """

    engine: Engine
    experiment: Experiment
    view: View
    state: State
    accepted: list[tuple[int, str, float, float]] = field(default_factory=list)
    trained: dict[str, int] = field(default_factory=dict)
    failures: list[ClientFailure] = field(default_factory=list)
    samples: int = 0
    seconds_aggregate: float = 0.0
    seconds_clients: float = 0.0

    def __post_init__(self) -> None:
        faults, seed = self.experiment.faults or Faults(), self.experiment.seed
        self.injection = Injection(faults, seed, self.view.round, self.view.tasks)
        # Where clients misbehave, each update is needed by itself: it is spoiled here.
        self._merge = self.experiment.aggregator.mergeable and not faults.clients
        self._trust = self._merge and self.engine.merges

    def by_task(self, jobs: Sequence[Job]) -> Iterator[tuple[str, Iterator[Any]]]:
        """(task, its updates as the aggregator wants them) as they arrive; consume each in turn."""
        start = calls.perf_counter()
        jobs = self._dispatched(jobs)
        results = self._awaited(self.engine.train(jobs, self.state.params, merge=self._merge))
        pairs = _paired(jobs, results)
        for task, group in groupby(pairs, key=lambda pair: pair[0].address.task):
            gated = (self._gate(job, result) for job, result in group)
            if self.experiment.aggregator.mergeable:
                yield task, partial_sums(gated)
            else:
                yield task, (result for result in gated if isinstance(result, ClientUpdate))
            for _ in gated:  # what an aggregator leaves unread is checked and counted all the same
                pass
        self.seconds_aggregate += calls.perf_counter() - start

    @property
    def offenders(self) -> Offenders:
        """Who has had updates refused lately, after this round."""
        quarantine, before = self.experiment.quarantine, self.state.offenders
        if quarantine is None:
            return before
        clients = (client for client, *_ in self.accepted)
        return quarantine.after(self.view.round, before, clients, self.failures)

    def _dispatched(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The jobs that the engine gets: all but those of dropouts and stragglers."""
        if self.experiment.faults is None:
            return jobs
        rows = np.searchsorted(self.view.clients, [job.address.client for job in jobs])
        columns = np.array([self.view.tasks.index(job.address.task) for job in jobs], np.int64)
        sizes = self.view.sizes[rows, columns]
        lost = self.injection.lost(jobs, self.view.positions[rows], sizes)
        self.failures += [failure for failure in lost if failure is not None]
        jobs = [job for job, failure in zip(jobs, lost, strict=True) if failure is None]
        for task, group in groupby(jobs, key=lambda job: job.address.task):
            self.injection.expect(task, np.array([job.address.client for job in group]))
        return jobs

    def _awaited(self, results: Iterator[Result]) -> Iterator[Result]:
        """The results; the time that they take to come is not ours."""
        start = calls.perf_counter()
        for result in results:
            self.seconds_aggregate -= calls.perf_counter() - start
            if isinstance(result, ClientFailure) and not result.turn:
                self.failures.append(result)  # beyond what was asked for: it answers no job
            else:
                yield result
            start = calls.perf_counter()

    def _gate(self, job: Job, result: Result) -> Result:
        """Algorithm 1, line 10: the upload. Nothing passes that `checked` refuses."""
        address = job.address
        if not self.injection.misbehaves(address.task, address.client):
            return self._counted(job, self._checked(job, result))
        result = self._checked(job, result)
        if isinstance(result, ClientFailure):
            return self._counted(job, result)
        sent = self.injection.sent(result)
        answer = sent[0] if sent else ClientFailure(address, "dropout", "sends nothing")
        result = self._counted(job, self._checked(job, answer))
        for _ in sent[1:]:
            said = "the turn was answered before"
            self.failures.append(ClientFailure(address, "duplicate", said, turn=False))
        refused = isinstance(result, ClientFailure) or len(sent) > 1
        self.injection.note(address, "train", refused=refused)
        return result

    def _checked(self, job: Job, result: Result) -> Result:
        """The result, or the reason against it."""
        address = job.address
        if isinstance(result, ClientFailure):
            partial = result.partial if self._trust else None
            return ClientFailure(address, str(result.reason), str(result.detail), partial)
        packed = isinstance(result, ClientUpdate) and isinstance(result.delta, Params | None)
        if self._trust and packed and result.address == address:
            return result  # it was checked where it was formed
        row = np.searchsorted(self.view.clients, address.client)
        holds = int(self.view.sizes[row, self.view.tasks.index(address.task)])
        layout = self.state.params[address.task].layout
        return checked(result, address, layout, holds, self.experiment.checks)

    def _counted(self, job: Job, result: Result) -> Result:
        """The result, after it was taken down."""
        address = job.address
        if isinstance(result, ClientFailure):
            sum_free = result if result.partial is None else replace(result, partial=None)
            self.failures.append(sum_free)  # which are kept longer than sums
            return result
        if result.probability != job.probability:
            result = dataclasses.replace(result, probability=job.probability)
        self.samples += result.samples
        self.seconds_clients += result.seconds
        self.trained[address.task] = self.trained.get(address.task, 0) + 1
        self.accepted.append((address.client, address.task, result.loss_before, result.norm))
        return result


def _paired(jobs: Sequence[Job], results: Iterator[Result]) -> Iterator[tuple[Job, Result]]:
    """Each job with its result; an engine that gives too few or too many is at fault."""
    done = 0
    for result in results:
        if done == len(jobs):
            raise EngineError(f"the engine gave more results than the {len(jobs)} jobs it had")
        yield jobs[done], result
        done += 1
    if done < len(jobs):
        raise EngineError(f"the engine gave {done} results for {len(jobs)} jobs")
