"""The local engine: one single-threaded worker process per core (the default).

Two single-threaded processes train faster than one process with two threads, and their results do
not depend on how many there are: a job's randomness is in its address, and sums are formed in the
order of the jobs, whoever was first.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import PlainValidator, WithJsonSchema

from mmfl.config import Positive, component, dump
from mmfl.data.arrays import Arrays
from mmfl.data.federation import SimulatedFederation, simulate
from mmfl.data.load import Shelf
from mmfl.engines.arena import Arena
from mmfl.engines.base import Ids
from mmfl.engines.pool import Message, Pool
from mmfl.engines.slots import Slots
from mmfl.errors import EngineError
from mmfl.memory import refuse
from mmfl.needs import Weighed, model_needs, worker_needs
from mmfl.params import Layout, Params
from mmfl.sentences import short
from mmfl.updates import (
    CHUNK,
    DONE,
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    LocalWork,
    PartialSum,
    Split,
)

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["Local", "LocalEngine"]

SMALL = 3e7
"""A turn of fewer samples x weights than this is small: it is dispatched with its whole chunk."""

WORK = tuple(field.name for field in dataclasses.fields(LocalWork))

ROOM = 1 << 28
"""So many bytes of results may wait for one that is to be delivered before them."""

_OURS = (
    "aggregator",
    "allocator",
    "checkpoints",
    "engine",
    "faults",
    "local",
    "quarantine",
    "recruitment",
    "score",
)
"""What is decided in this process alone: workers are not told, so it may be a script's own."""


def _workers(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value == "auto" or (whole and 1 <= value < 2**31):
        return value
    raise ValueError(f'must be a whole number >= 1 or "auto", got {short(value)}')


Workers = Annotated[
    int | Literal["auto"],
    PlainValidator(_workers),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]}),
]


@component
class Local:
    """Worker processes on this machine.

    Attributes:
        workers: How many, or "auto": one per core this process may use.
        timeout: Seconds of wall clock after which a turn is given up (a safety net; identical
            results are promised as long as it never fires). By default none.
    """

    workers: Workers = "auto"
    timeout: Positive | None = None

    @property
    def processes(self) -> int:
        """How many workers there are here."""
        if isinstance(self.workers, int):
            return self.workers
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return cores or 1

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> LocalEngine:
        """Load the data, map it, start the workers."""
        refuse(worker_needs(self.processes), workers=self.processes)
        return LocalEngine(experiment, data_dir, self.processes, self.timeout)


class LocalEngine:
    """An `Engine` over a pool of workers."""

    merges = True

    def __init__(
        self,
        experiment: Experiment,
        data_dir: Path | None,
        workers: int,
        timeout: float | None = None,
    ) -> None:
        self.experiment: Experiment
        self.federation: SimulatedFederation
        self._shelf = Shelf(data_dir)
        self._shared: dict[str, npt.NDArray[Any]] = {}
        self._data, self._weights, self._slots = Arena(), Arena(), Slots()
        self._layouts: dict[str, Layout] = {}
        self._ready = False
        self._pace: dict[str, float] = {}
        self.workers = workers
        self._pool = Pool(workers, (self._data.fd, self._weights.fd, self._slots.fd))
        self._timeout = timeout
        try:
            self.prepare(experiment)
            self._pool.start()
        except BaseException:
            self.close()
            raise

    def prepare(self, experiment: Experiment) -> None:
        """Load and map what is missing; the workers stay, with a new trainer."""
        experiment = experiment.resolved()
        if self._ready and experiment.world == self.experiment.world:
            self.experiment = experiment
            return
        arrays = self._shelf.arrays(experiment)
        federation = simulate(experiment, arrays)
        plain = _plain(experiment)
        self._ready = False  # should the rest fail, then nothing of it counts as done
        self._share(plain, arrays)
        self._ready, self._pace = True, {}
        self.experiment, self.federation, self._layouts = experiment, federation, {}

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data."""
        return self._shelf.hashes(self.experiment)

    def initial(self) -> dict[str, Params]:
        """Every task's first weights, built by the workers: this process needs no torch."""
        known: dict[str, Weighed] = {}
        for task, (reply, _) in self._of_tasks("weigh").items():
            weighed = _good(reply, f"task {task!r}: looking at its model")["weighed"]
            known |= {task: Weighed(*weighed)} if weighed else {}
        arrays = self._shelf.arrays(self.experiment)
        needs = model_needs(self.experiment, self.federation, arrays, known)
        refuse(needs, workers=self.workers)
        first = {}
        for task, (reply, frame) in self._of_tasks("initial").items():
            layout = Layout.of(_good(reply, f"task {task!r}: building its model")["layout"])
            first[task] = Params(layout, np.frombuffer(frame, np.float32).copy())
        self._know(first)
        return first

    def _of_tasks(self, what: str) -> dict[str, tuple[Message, bytes]]:
        """From task to a worker's answer to one request about it."""
        tasks = [task.name for task in self.experiment.tasks]
        requests: list[Message] = [{"do": what, "task": task} for task in tasks]
        with closing(self._pool.ask(range(len(tasks)), requests.__getitem__)) as replies:
            return dict(zip(tasks, replies, strict=True))

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """Units of one job, or of one chunk where turns are small, to whoever is free.

        With `merge`, a delta is to be used before the next result is asked for.
        """
        self._publish({job.address.task: params[job.address.task] for job in jobs})
        self._slots.reset()
        yield from self._train(self._units(jobs, merge=merge), self._pool, keep=not merge)

    def evaluate(
        self,
        params: Mapping[str, Params],
        split: Split,
        clients: Mapping[str, Ids] | None = None,
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """Pieces of a split, or a few clients at a time, to whoever is free."""
        self._publish(params)
        units: list[Message] = []
        for task in params:
            unit: Message = {"do": "evaluate", "task": task, "split": split}
            if clients is None:
                pieces = range(self.federation.pieces(task, split))
                units += [unit | {"pieces": [piece], "clients": []} for piece in pieces]
            else:
                ids = clients[task].tolist()
                some = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
                units += [unit | {"pieces": [], "clients": few} for few in some]
        with closing(self._pool.ask(range(len(units)), units.__getitem__, depth=2)) as replies:
            for unit, (reply, _) in zip(units, replies, strict=True):
                task = unit["task"]
                if unit["clients"] and "failed" in reply:
                    why = f"its evaluation {reply['failed']}"
                    yield from (EvaluationFailure(task, c, "worker", why) for c in unit["clients"])
                    continue
                for found in _good(reply, f"task {task!r}: evaluating its model")["found"]:
                    yield EvaluationFailure(**found) if "reason" in found else Evaluation(**found)

    def close(self) -> None:
        """End the workers and give the files back."""
        self._pool.close()
        self._data.close()
        self._weights.close()
        self._slots.close()

    def _share(self, experiment: Message, arrays: Mapping[str, Arrays]) -> None:
        """Map the data, each data set once, and tell the workers where it is."""
        distinct: dict[str, npt.NDArray[Any]] = {}
        names: dict[str, dict[str, Any]] = {}
        for task, data in arrays.items():
            names[task] = {"classes": data.classes}
            for part in ("x_train", "y_train", "x_test", "y_test", "groups"):
                array = getattr(data, part)
                if array is not None:
                    names[task][part] = key = f"{id(data)}/{part}"
                    distinct[key] = array
        known = {key: id(array) for key, array in self._shared.items()}
        if known != {key: id(array) for key, array in distinct.items()}:
            self._data.fill(distinct)
            self._shared = distinct
        setup = {"experiment": experiment, "arrays": names, "data": self._data.manifest}
        self._pool.greet({"do": "setup"} | setup)

    def _know(self, params: Mapping[str, Params]) -> None:
        """Make room for the weights of these models, and tell the workers where."""
        if self._layouts:
            return
        self._layouts = {task: p.layout for task, p in params.items()}
        self._weights.reserve({t: (np.float32, (p.size,)) for t, p in self._layouts.items()})
        self._slots.size = max(p.size for p in self._layouts.values()) * 8
        self._pool.greet({"do": "weights", "manifest": self._weights.manifest})

    def _publish(self, params: Mapping[str, Params]) -> None:
        if not self._layouts:
            self.initial()
        for task, weights in params.items():
            np.copyto(self._weights.arrays[task], weights.flat)

    def _units(self, jobs: Sequence[Job], *, merge: bool) -> list[_Unit]:
        """The jobs in order, cut into units; which cut is taken has no influence on the sums."""
        units: list[_Unit] = []
        merge = merge and len(jobs) >= 4 * CHUNK * self._pool.size  # else some would have to wait
        for task, run in groupby(jobs, key=lambda job: job.address.task):
            group = list(run)
            samples = self._samples(task, group)
            small = merge and float(samples.mean()) * self._layouts[task].size < SMALL
            small = small and all(_common(job) == _common(group[0]) for job in group)
            step = CHUNK if small else 1
            pace = self._pace.get(task, float(self._layouts[task].size))
            for start in range(0, len(group), step):
                cost = pace * float(samples[start : start + step].sum())
                units.append(_Unit(group[start : start + step], small, cost))
        return units

    def _samples(self, task: str, jobs: Sequence[Job]) -> npt.NDArray[np.float64]:
        """How many examples each of a task's turns will process."""
        clients = range(len(self.federation.clients))
        places = [job.address.client if job.address.client in clients else 0 for job in jobs]
        held = self.federation.sizes(np.array(places))[:, self.federation.tasks.index(task)]
        turns = zip(jobs, held.tolist(), strict=True)
        return np.array([job.work.samples_with(n) for job, n in turns], np.float64)

    def _train(
        self, units: list[_Unit], pool: Pool, *, keep: bool
    ) -> Iterator[ClientUpdate | ClientFailure]:
        def request(number: int) -> Message:
            unit = units[number]
            unit.slot = self._slots.take()
            works = {id(job.work): job.work for job in unit.jobs}
            places = {key: place for place, key in enumerate(works)}
            return {
                "do": "train",
                "address": _common(unit.jobs[0])[:-1],
                "seed": unit.jobs[0].seed,
                "clients": [job.address.client for job in unit.jobs],
                "works": [{name: getattr(work, name) for name in WORK} for work in works.values()],
                "which": [places[id(job.work)] for job in unit.jobs],
                "merge": unit.merge,
                "slot": unit.slot,
                "size": self._slots.size,
            }

        order = sorted(range(len(units)), key=lambda number: -units[number].cost)  # stable
        room = max(ROOM // self._slots.size, 8 * pool.size)
        asked = pool.ask(order, request, depth=2, room=room, timeout=self._timeout)
        with closing(asked) as replies:
            for unit, (reply, _) in zip(units, replies, strict=True):
                if "failed" in reply and len(unit.jobs) > 1:
                    # One of these turns is deadly: a worker apart finds out which, one by one.
                    alone = [_Unit([job], merge=False) for job in unit.jobs]
                    with closing(self._pool.apart()) as apart:
                        yield from self._train(alone, apart, keep=keep)
                else:
                    yield from self._results(unit, reply, keep=keep)
                self._slots.give_back(unit.slot)

    def _results(
        self, unit: _Unit, reply: Message, *, keep: bool
    ) -> Iterator[ClientUpdate | ClientFailure]:
        if "failed" in reply or "error" in reply:
            reason = "worker" if "failed" in reply else "raised"
            detail = f"its turn {reply['failed']}" if "failed" in reply else reply["error"]
            yield from (ClientFailure(job.address, reason, detail) for job in unit.jobs)
            return
        task = unit.jobs[0].address.task
        layout = self._layouts[task]
        partial = delta = None
        results = reply["results"]
        if unit.merge and reply["examples"]:
            total = self._slots.read(unit.slot, np.float64, layout.size).copy()
            partial = PartialSum(total, reply["examples"])
        elif not unit.merge and len(results[0]) == len(DONE):
            flat = self._slots.read(unit.slot, np.float32, layout.size)
            delta = Params(layout, flat.copy() if keep else flat)
        last = len(unit.jobs) - 1
        spent = samples = 0.0
        for number, (job, found) in enumerate(zip(unit.jobs, results, strict=True)):
            part = partial if number == last else None
            if len(found) < len(DONE):
                reason, detail = found
                yield ClientFailure(job.address, reason, detail, part)
            else:
                fields = (job.address, delta, *found, job.probability, part)
                update = ClientUpdate(*fields)
                spent, samples = spent + update.seconds, samples + update.samples
                yield update
        if samples:
            self._pace[task] = spent / samples


@dataclasses.dataclass
class _Unit:
    """What a worker gets at a time: one job, or a chunk of small ones whose sum it forms."""

    jobs: list[Job]
    merge: bool
    cost: float = 0.0
    slot: int = -1


def _common(job: Job) -> tuple[str, int, str, int, int]:
    """What the jobs of one message have in common: all but the client and its work."""
    at = job.address
    return at.run, at.round, at.task, at.model_version, job.seed


def _plain(experiment: Experiment) -> Message:
    """The experiment as workers get it: they find the data in the file, wherever it came from."""
    plain: Message = dump(experiment)
    for key in _OURS:
        plain.pop(key, None)
    for task in plain["tasks"]:
        task["dataset"] = "mapped"
        task.pop("local", None)
    lost = re.search(r'"(__main__:[^"]+)"', json.dumps(plain))
    if lost:
        raise EngineError(
            f"{lost[1]!r} is defined in the script that runs, where workers cannot find it; "
            'put it into a module of its own, or use engine.kind = "inline"'
        )
    return plain


def _good(reply: Message, doing: str) -> Message:
    if "failed" in reply:
        raise EngineError(f"{doing} {reply['failed']}")
    if "error" in reply:
        raise EngineError(reply["error"])
    return reply
