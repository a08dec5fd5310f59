"""The parts of a round: who is active, who gets what, and what comes back from a turn."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.aggregate import checked, partial_sums
from mmfl.allocate import Assignment, Assignments, View, first_fault
from mmfl.data.federation import Federation
from mmfl.errors import EngineError, InputError
from mmfl.faults import Faults, Injection, Offenders
from mmfl.memory import Need, refuse
from mmfl.params import Params
from mmfl.recruiting import Recruited, recruit
from mmfl.rng import stream
from mmfl.state import State
from mmfl.updates import Address, ClientFailure, ClientUpdate, Job

if TYPE_CHECKING:
    from mmfl.engines.base import Engine
    from mmfl.experiment import Experiment

__all__ = ["Population", "Turns", "allocation", "jobs_of"]

Ints = npt.NDArray[np.int64]
NOBODY: Offenders = {}
Result = ClientUpdate | ClientFailure

_TURN = 200
"""Bytes that a turn takes at the coordinator, at least: its place, its assignment, its job."""


@dataclass(frozen=True, eq=False)
class Population:
    """The clients that may train something.

    Attributes:
        federation: Everybody.
        experiment: The rates and the seed.
        places: Their places in the federation's list; None = all of it (which costs no memory).
        count: How many they are.
        rates: Each client's own active rate, by place; empty if there is one rate for all.
        recruited: Who may train what, if there was an auction.
    """

    federation: Federation
    experiment: Experiment
    places: Ints | None
    count: int
    rates: npt.NDArray[np.float64]
    recruited: Recruited | None = None

    @classmethod
    def of(cls, federation: Federation, experiment: Experiment) -> Population:
        """Hold the auction, if there is one, and ask the federation who can train anything."""
        recruited = recruit(experiment, federation)
        places = federation.able()
        if recruited is not None:
            places = np.flatnonzero(recruited.able.any(axis=1))
        count = len(federation.clients) if places is None else len(places)
        if count == 0:
            raise InputError("no client holds data of any task, so nothing can be trained")
        if isinstance(experiment.clients.active, float) and not round(
            experiment.clients.active * count
        ):
            who = "that hold data" if recruited is None else "that are recruited"
            raise InputError(
                f"clients.active = {experiment.clients.active:g} of {count} clients {who} leaves "
                "nobody active; raise it"
            )
        rate = experiment.clients.active
        if isinstance(rate, float):
            active = round(rate * count)
            what = f"clients.active = {rate:g}, which means {active:,} clients a round,"
            refuse([Need(what, (_TURN + 9 * len(federation.tasks)) * active)])
        rates = np.array(() if isinstance(rate, float) else rate)
        return cls(federation, experiment, places, count, rates, recruited)

    def turnout(self, t: int) -> int:
        """How many clients are active in a round."""
        rate = self.experiment.clients.active
        return round(rate * self.count) if isinstance(rate, float) else len(self.active(t))

    def active(self, t: int, offenders: Offenders = NOBODY) -> Ints:
        """Places of the round's active clients, ascending (Algorithm 1, line 3).

        Those in quarantine are left out before the draw.
        """
        rate = self.experiment.clients.active
        rng = stream(self.experiment.seed, "active", t)
        away = self._away(t, offenders, self.places)
        if isinstance(rate, float):
            count = self.count - len(away)
            m = round(rate * count)
            chosen = np.arange(m)
            if m < count:
                chosen = np.sort(rng.choice(count, m, replace=False, shuffle=False))
            chosen = _passing_over(away, chosen)
            return chosen if self.places is None else self.places[chosen]
        places = np.arange(self.count) if self.places is None else self.places
        places = np.delete(places, away)
        return places[rng.at(self.ids(places)) < self.rates[places]]

    def _away(self, t: int, offenders: Offenders, places: Ints | None) -> Ints:
        """Which of these places (None = all), by number, are of clients in quarantine."""
        quarantine = self.experiment.quarantine
        ids = quarantine.away(t, offenders) if quarantine and offenders else np.empty(0, np.int64)
        clients = self.federation.clients
        if isinstance(clients, range):
            found: Ints = (ids - clients.start) // clients.step
        else:
            found = np.searchsorted(self._listed, ids)
        if places is None:
            return found
        numbers: Ints = np.minimum(np.searchsorted(places, found), len(places) - 1)
        return numbers[np.equal(places[numbers], found)]

    def ids(self, places: Ints) -> Ints:
        """The ids at these places of the federation's list."""
        clients = self.federation.clients
        if isinstance(clients, range):
            return clients.start + places * clients.step
        return self._listed[places]

    @cached_property
    def _listed(self) -> Ints:
        return np.asarray(self.federation.clients, dtype=np.int64)

    @cached_property
    def _holders(self) -> dict[str, Ints | None]:
        """From task to the places of those that may train it; None = everybody in the list."""
        if self.recruited is None:
            return {task: self.federation.able(task) for task in self.federation.tasks}
        columns = self.recruited.able.T
        return dict(zip(self.federation.tasks, map(np.flatnonzero, columns), strict=True))

    def judges(self, t: int, task: str, offenders: Offenders = NOBODY) -> Ints:
        """Ids of the clients that score a task in a round: so many of all that may train it."""
        places = self._holders[task]
        away = self._away(t, offenders, places)
        count = (len(self.federation.clients) if places is None else len(places)) - len(away)
        wanted = self.experiment.score_clients
        if wanted is None or wanted >= count:
            chosen = np.arange(count)
        else:
            rng = stream(self.experiment.seed, "judges", t, task)
            chosen = np.sort(rng.choice(count, wanted, replace=False))
        chosen = _passing_over(away, chosen)
        return self.ids(chosen if places is None else places[chosen])

    def eligible(self, t: int, places: Ints, clients: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
        """(n, S) who may train what in a round: holds data and, after an auction, is recruited."""
        if self.recruited is None:
            return sizes > 0
        return self.recruited.available(t, places, clients)

    def work(self, view: View, assignments: Assignments) -> npt.NDArray[np.float64]:
        """The share of the local work that each assignment is for."""
        if self.recruited is None:
            return np.ones(len(assignments))
        rows = np.searchsorted(view.clients, assignments.clients)
        return self.recruited.work(view.positions[rows], assignments.tasks)


def _passing_over(away: Ints, chosen: Ints) -> Ints:
    """Numbers that were chosen among those that are not away, as numbers among all."""
    return chosen + np.searchsorted(away - np.arange(len(away)), chosen, side="right")


def allocation(
    t: int, experiment: Experiment, population: Population, places: Ints, state: State
) -> tuple[View, Assignments, Any]:
    """Algorithm 1, lines 4-5: each active client's task, and the allocator's next state."""
    federation = population.federation
    clients = population.ids(places)
    sizes = federation.sizes(clients)
    view = View(
        round=t,
        rounds=experiment.rounds,
        tasks=federation.tasks,
        difficulty=np.array([state.difficulty[task] for task in federation.tasks]),
        clients=clients,
        positions=places,
        population=len(federation.clients),
        sizes=sizes,
        eligible=population.eligible(t, places, clients, sizes),
        capacity=np.ones(len(clients), dtype=np.int64),
        remembered=state.clients,
    )
    rng = stream(experiment.seed, "allocate", t)
    given, after = experiment.allocator.allocate(view, state.allocator, rng=rng)
    assignments = given if isinstance(given, Assignments) else _packed(given)
    fault = first_fault(assignments, view)
    if fault is not None:
        raise EngineError(f"the allocator {experiment.allocator!r} broke a rule: {fault}")
    return view, assignments, after


def _packed(given: Iterable[Assignment]) -> Assignments:
    rows = [(int(c), int(s), float(p)) for c, s, p in given]
    clients, tasks, p = zip(*rows, strict=True) if rows else ((), (), ())
    return Assignments(np.array(clients, np.int64), np.array(tasks, np.int64), np.array(p, float))


def jobs_of(
    population: Population, view: View, assignments: Assignments, state: State
) -> list[Job]:
    """One job per assignment: task after task, each by ascending client."""
    experiment, t, tasks = population.experiment, view.round, view.tasks
    work = {task: experiment.training(task).work(state.versions[task]) for task in tasks}
    order = np.lexsort((assignments.clients, assignments.tasks))
    shares = population.work(view, assignments)[order].tolist()
    return [
        Job(
            Address(experiment.run_id, t, tasks[column], client, state.versions[tasks[column]]),
            experiment.seed,
            work[tasks[column]] if share == 1 else replace(work[tasks[column]], share=share),
            probability,
        )
        for (client, column, probability), share in zip(assignments[order], shares, strict=True)
    ]


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
        start = time.perf_counter()
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
        self.seconds_aggregate += time.perf_counter() - start

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
        start = time.perf_counter()
        for result in results:
            self.seconds_aggregate -= time.perf_counter() - start
            if isinstance(result, ClientFailure) and not result.turn:
                self.failures.append(result)  # beyond what was asked for: it answers no job
            else:
                yield result
            start = time.perf_counter()

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
            self.failures.append(result)
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
