"""The faults of one round: who is lost before it begins, and who sends something wrong.

Every decision has an address, so none depends on an engine, on workers or on other decisions:

    ("dropout", t)                          by client: is its turn lost?
    ("speed")                               by client: its speed
    ("jitter", t, task)                     by client: how much longer or shorter this turn takes
    ("misbehaving", n)                      by client: is it one of the n-th table's?
    ("misbehaves", t, task, n, act)         by client: does it do so in this turn, or evaluation?
    ("misbehaviour", t, task, n, client)    what it draws in doing so
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from mmfl.exchange import Address, ClientFailure, ClientUpdate, Evaluation, EvaluationFailure, Job
from mmfl.faults.base import Fault, ReportingMisbehaviour
from mmfl.faults.settings import MISBEHAVIOURS, Faults
from mmfl.faults.speeds import normal_scores
from mmfl.rng import stream
from mmfl.system.user_code import guard_part

__all__ = ["Injection"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Act = Literal["train", "evaluate"]
Judged = Evaluation | EvaluationFailure

_NOBODY: Mapping[int, int] = {}


@dataclass(eq=False)
class Injection:
    """The faults of a round, and their record.

    Attributes:
        settings: The experiment's.
        seed: The experiment's.
        round: t.
        tasks: The experiment's.
        faults: The record so far.
        virtual: The round's duration in virtual seconds; NaN if clients have no speeds.
    """

    settings: Faults
    seed: int
    round: int
    tasks: tuple[str, ...]
    faults: list[Fault] = field(default_factory=list)
    virtual: float = math.nan
    _culprits: dict[tuple[Act, str], dict[int, int]] = field(default_factory=dict)

    def find_lost(
        self, jobs: Sequence[Job], places: Ints, sizes: Ints
    ) -> list[ClientFailure | None]:
        """For each job the failure that ends it before the engine sees it, or None.

        Args:
            jobs: The round's.
            places: The clients' places in the federation's list.
            sizes: How many examples each client holds of its task.
        """
        ids = np.array([job.address.client for job in jobs], np.int64)
        gone = self._gone(ids, places)
        seconds = self._seconds(jobs, ids, places, sizes)
        limit = math.inf if self.settings.deadline is None else self.settings.deadline
        late = ~gone & (seconds > limit)
        if self.settings.speed is not None:
            self.virtual = limit if late.any() else float(seconds[~gone].max(initial=0.0))
        found: list[ClientFailure | None] = [None] * len(jobs)
        for number in np.flatnonzero(gone).tolist():
            found[number] = self._lost(jobs[number].address, "dropout", "the client dropped out")
        for number in np.flatnonzero(late).tolist():
            said = f"needs {seconds[number]:.4g} virtual seconds; the deadline is {limit:g}"
            found[number] = self._lost(jobs[number].address, "late", said)
        return found

    def expect(self, task: str, clients: Ints, act: Act = "train") -> None:
        """Decide which of these clients misbehave when they train a task, or evaluate it."""
        found: dict[int, int] = {}
        for number, some in enumerate(self.settings.clients):
            deaf = act == "evaluate" and not isinstance(some.does, ReportingMisbehaviour)
            if deaf or (some.tasks is not None and task not in some.tasks):
                continue
            draws = stream(self.seed, "misbehaves", self.round, task, number, act).at(clients)
            among = some.select(clients, rng=stream(self.seed, "misbehaving", number))
            found = dict.fromkeys(clients[among & (draws < some.rate)].tolist(), number) | found
        self._culprits[act, task] = found

    def misbehaves(self, task: str, client: int, act: Act = "train") -> bool:
        """Whether `expect` decided that a client misbehaves."""
        return client in self._culprits.get((act, task), _NOBODY)

    def send(self, update: ClientUpdate) -> Sequence[ClientUpdate]:
        """What a client that misbehaves sends instead of this update."""
        at = update.address
        number = self._culprits["train", at.task][at.client]
        rng = stream(self.seed, "misbehaviour", self.round, at.task, number, at.client)
        does = self.settings.clients[number].does
        with guard_part("misbehaviour", does, task=at.task):
            return list(does.send(update, tasks=self.tasks, rng=rng))

    def report(self, found: Judged, client: int) -> Judged:
        """What a misbehaving client reports instead of its evaluation."""
        does = self.settings.clients[self._culprits["evaluate", found.task][client]].does
        if isinstance(does, ReportingMisbehaviour) and isinstance(found, Evaluation):
            with guard_part("misbehaviour", does, task=found.task):
                return does.report(found)
        return found

    def note(self, address: Address, act: Act, *, refused: bool) -> None:
        """Record the outcome of a misbehaviour."""
        number = self._culprits[act, address.task][address.client]
        kind = MISBEHAVIOURS.kind_of(self.settings.clients[number].does)
        self.faults.append(Fault(address, kind, "refused" if refused else "accepted"))

    def _gone(self, ids: Ints, places: Ints) -> npt.NDArray[np.bool_]:
        chance = self.settings.dropout
        if chance == 0:
            return np.zeros(len(ids), np.bool_)
        chances = np.array(chance)[places] if isinstance(chance, tuple) else chance
        return stream(self.seed, "dropout", self.round).at(ids) < chances

    def _seconds(self, jobs: Sequence[Job], ids: Ints, places: Ints, sizes: Ints) -> Floats:
        """How long each turn takes: examples to process / speed, more or less."""
        settings, seconds = self.settings, np.zeros(len(jobs))
        if settings.speed is None:
            return seconds
        turns = zip(jobs, sizes.tolist(), strict=True)
        samples = np.array([job.work.samples_with(held) for job, held in turns], np.float64)
        with guard_part("speed", settings.speed):
            rates = settings.speed.rates(ids, places, rng=stream(self.seed, "speed"))
        with np.errstate(divide="ignore", over="ignore"):
            seconds = samples / rates
            if settings.jitter:
                names = np.array([job.address.task for job in jobs])
                for task in sorted(set(names.tolist())):
                    its = names == task
                    draws = stream(self.seed, "jitter", self.round, task).at(ids[its])
                    seconds[its] *= np.exp(settings.jitter * normal_scores(draws))
        return seconds

    def _lost(self, address: Address, kind: Literal["dropout", "late"], said: str) -> ClientFailure:
        self.faults.append(Fault(address, kind, "lost"))
        return ClientFailure(address, kind, said)
