"""An engine over a pool of single-threaded workers: on this machine (the default), or on Ray.

Two single-threaded processes train faster than one process with two threads, and their results do
not depend on how many there are: a job's randomness is in its address, and sums are formed in the
order of the jobs, whichever was done first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.data import Arrays
from mmfl.devices import refuse_missing
from mmfl.engines.evaluations import unpack_evaluations
from mmfl.engines.pool import LATE, Message, Pool
from mmfl.engines.probe import write_probe
from mmfl.engines.processes import Launcher, Transport
from mmfl.engines.setup import name_arrays, write_setup
from mmfl.engines.units import Unit, cut
from mmfl.errors import EngineError
from mmfl.exchange import (
    CHUNK,
    DONE,
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Layout,
    Params,
    PartialSum,
    Split,
)
from mmfl.experiment import (
    DataCache,
    Ids,
    ModelDescription,
    ModelSize,
    SimulatedFederation,
    model_needs,
    simulate,
)
from mmfl.system.memory import refuse
from mmfl.system.tracebacks import make_cause
from mmfl.system.turns import hold

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["WorkersEngine"]

ROOM = 1 << 28
"""Results of this many bytes may exist at the same time: in workers, or waiting for one before
them. However large they are, each worker may have one, and half as many may wait."""


class WorkersEngine:
    """An `Engine` over a pool of workers.

    Args:
        experiment: What it serves first.
        data_dir: Folder of npz files.
        workers: How many there are.
        timeout: The longest that a request may take, in seconds.
        transport: How arrays get to the workers and back; closed with the engine.
        launcher: Starts the workers.
        here: Whether the workers are on this machine. If not, their bits are compared.
        remarks: What to add to their numerics.
    """

    merges = True

    def __init__(
        self,
        experiment: Experiment,
        data_dir: Path | None,
        workers: int,
        timeout: float | None = None,
        *,
        transport: Transport,
        launcher: Launcher,
        here: bool = True,
        remarks: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._experiment: Experiment
        self.federation: SimulatedFederation
        self._cache = DataCache(data_dir)
        self.transport, self._here, self._remarks = transport, here, remarks
        self._prepared = 0
        self._layouts: dict[str, Layout] = {}
        self._table: dict[str, Any] | None = None
        self._pace: dict[str, float] = {}
        self.workers = workers
        self._pool = Pool(workers, launcher, timeout=timeout)
        self._timeout, self._closed = timeout, False
        try:
            self.prepare(experiment)
            self._pool.start()
        except BaseException:
            self.close()
            raise

    def prepare(self, experiment: Experiment) -> None:
        """Load and map what is missing; the workers stay, with a new trainer."""
        experiment = experiment.resolved()
        with hold(self):
            self._refuse_closed()
            table = experiment.engine_table
            if table == self._table:
                self._experiment = experiment
                return
            if self._here:
                refuse_missing(experiment.device)
            arrays = self._cache.arrays(experiment)
            federation = simulate(experiment, arrays)
            setup = write_setup(experiment)
            # If the rest fails, none of it counts as done, and no experiment is served.
            self._table, self._pace, self._layouts = None, {}, {}
            self._experiment, self.federation = experiment, federation
            self._cache.keep(experiment, arrays)
            self._share(setup, arrays)
            if not self._here:
                self._prepared += 1
                self._pool.greet(write_probe(experiment, federation, self._prepared))
            self._table = table

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data."""
        return self._cache.hashes(self._experiment)

    def describe(self) -> dict[str, ModelDescription]:
        """From task name to how its model is built and used."""
        return self._cache.describe(self._experiment)

    def numerics(self) -> dict[str, str]:
        """What the workers compute with."""
        reply, _ = next(iter(self._of_tasks("numerics").values()))
        found = self._check_reply(reply, "asking a worker for its versions")["numerics"]
        return {**found, **self._remarks}

    def initial(self) -> dict[str, Params]:
        """Every task's first weights, built by the workers: this process needs no torch."""
        known: dict[str, ModelSize] = {}
        for task, (reply, _) in self._of_tasks("weigh").items():
            what = f"task {task!r}: measuring the size of its model"
            weighed = self._check_reply(reply, what)["weighed"]
            known |= {task: ModelSize(*weighed)} if weighed else {}
        arrays = self._cache.arrays(self._experiment)
        needs = model_needs(self._experiment, self.federation, arrays, known)
        if self._here:
            refuse(needs, workers=self.workers)
        else:
            refuse([need for need in needs if not need.each])
        first = {}
        for task, (reply, frame) in self._of_tasks("initial").items():
            # The trainer also tries the new model out, and a worker that hangs cannot say where.
            built = self._check_reply(
                reply, f"task {task!r}: building or first evaluating its model"
            )
            layout = Layout.of(built["layout"])
            first[task] = Params(layout, np.frombuffer(frame, np.float32).copy())
        self._reserve_weights(first)
        return first

    def _of_tasks(self, what: str) -> dict[str, tuple[Message, bytes]]:
        """From task to a worker's answer to one request about it."""
        self._refuse_unprepared()
        tasks = [task.name for task in self._experiment.tasks]
        requests: list[Message] = [{"do": what, "task": task} for task in tasks]
        with closing(self._pool.ask(range(len(tasks)), requests.__getitem__)) as replies:
            return dict(zip(tasks, replies, strict=True))

    def _check_reply(self, reply: Message, doing: str) -> Message:
        """The reply, or an error that says what could not be done."""
        if reply.get("failed") == LATE:
            raise EngineError(f"{doing} took longer than engine.timeout = {self._timeout} seconds")
        if "failed" in reply:
            raise EngineError(f"{doing} {reply['failed']}")
        if "error" in reply:
            raise EngineError(reply["error"]) from make_cause(reply["trace"])
        return reply

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """Units of one job, or of one chunk where turns are small, to whichever worker is free.

        With `merge`, a delta is to be used before the next result is asked for.
        """
        self._publish({job.address.task: params[job.address.task] for job in jobs})
        units = cut(
            jobs,
            self._pool.size,
            merge=merge,
            whole=self._timeout is None,  # which is for one turn
            copied=self.transport.copies,
            weights={task: layout.size for task, layout in self._layouts.items()},
            pace=self._pace,
            samples=self._samples,
        )
        yield from self._train(units, self._pool, keep=not merge)

    def evaluate(
        self,
        params: Mapping[str, Params],
        split: Split,
        clients: Mapping[str, Ids] | None = None,
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """Pieces of a split, or a few clients at a time, to whichever worker is free."""
        self._publish(params)
        units: list[Message] = []
        few = CHUNK if self._timeout is None else 1  # it is for one client
        for task in params:
            where = self.transport.locate(task)
            unit: Message = {"do": "evaluate", "task": task, "split": split, "weights": where}
            if clients is None:
                pieces = range(self.federation.pieces(task, split))
                units += [unit | {"pieces": [piece], "clients": []} for piece in pieces]
            else:
                ids = clients[task].tolist()
                some = [ids[start : start + few] for start in range(0, len(ids), few)]
                units += [unit | {"pieces": [], "clients": asked} for asked in some]
        yield from self._evaluate(units, self._pool)

    def _evaluate(
        self, units: list[Message], pool: Pool
    ) -> Iterator[Evaluation | EvaluationFailure]:
        asked = pool.ask(range(len(units)), units.__getitem__, depth=2)
        with closing(asked) as replies:
            for unit, (reply, tallies) in zip(units, replies, strict=True):
                task, clients = unit["task"], unit["clients"]
                if "failed" in reply and len(clients) > 1:
                    # One of these is deadly: a spare worker finds out which, one by one.
                    alone = [unit | {"clients": [client]} for client in clients]
                    with closing(self._pool.open_spare()) as spare:
                        yield from self._evaluate(alone, spare)
                elif "failed" in reply and clients:
                    why = f"its evaluation {reply['failed']}"
                    yield EvaluationFailure(task, clients[0], "worker", why)
                else:
                    good = self._check_reply(reply, f"task {task!r}: evaluating its model")
                    yield from unpack_evaluations(good["found"], tallies)

    def close(self) -> None:
        """Stop the workers and free the files, after a round of another thread has ended."""
        with hold(self):
            self._closed = True
            self._pool.close()
            self.transport.close()

    def _refuse_closed(self) -> None:
        """Refuse before anything is written that workers read."""
        self._pool.refuse_fork()
        if self._closed:
            raise EngineError("the engine is closed; open a new one")

    def _refuse_unprepared(self) -> None:
        self._refuse_closed()
        if self._table is None:
            raise EngineError("the last experiment could not be prepared; prepare the engine again")

    def _share(self, setup: Message, arrays: Mapping[str, Arrays]) -> None:
        """Share the data, each data set once, and tell the workers where it is."""
        distinct, names = name_arrays(arrays)
        manifest = self.transport.share(distinct)
        self._pool.greet({"do": "setup", "arrays": names, "data": manifest} | setup)

    def _reserve_weights(self, params: Mapping[str, Params]) -> None:
        """Make room for the weights of these models, and tell the workers where."""
        if self._layouts:
            return
        layouts = {task: p.layout for task, p in params.items()}
        greeting = self.transport.reserve(layouts)
        self._layouts = layouts
        if greeting is not None:
            self._pool.greet(greeting)

    def _publish(self, params: Mapping[str, Params]) -> None:
        self._refuse_unprepared()
        if not self._layouts:
            self.initial()
        for task, weights in params.items():
            self.transport.publish(task, weights)

    def _samples(self, task: str, jobs: Sequence[Job]) -> npt.NDArray[np.float64]:
        """How many examples each of a task's turns will process."""
        clients = range(len(self.federation.clients))
        places = [job.address.client if job.address.client in clients else 0 for job in jobs]
        held = self.federation.sizes(np.array(places))[:, self.federation.tasks.index(task)]
        turns = zip(jobs, held.tolist(), strict=True)
        return np.array([job.work.samples_with(n) for job, n in turns], np.float64)

    def _train(
        self, units: list[Unit], pool: Pool, *, keep: bool
    ) -> Iterator[ClientUpdate | ClientFailure]:
        def request(number: int) -> Message:
            unit = units[number]
            unit.slot = self.transport.take(unit.bytes)
            return unit.request(self.transport.locate(unit.jobs[0].address.task))

        order = sorted(range(len(units)), key=lambda number: -units[number].cost)  # stable
        sizes = [unit.bytes for unit in units]
        asked = pool.ask(order, request, depth=2, sizes=sizes, room=ROOM)
        try:
            with closing(asked) as replies:
                for unit, (reply, frame) in zip(units, replies, strict=True):
                    if "failed" in reply and len(unit.jobs) > 1:
                        yield from self._train_alone(unit, keep=keep)
                    else:
                        yield from self._results(unit, reply, frame, keep=keep)
                    self._give_back(unit)
        finally:  # by now no worker writes into any of these
            for unit in units:
                self._give_back(unit)

    def _train_alone(self, unit: Unit, *, keep: bool) -> Iterator[ClientUpdate | ClientFailure]:
        """One of these turns is deadly: a spare worker finds out which, one by one."""
        alone = [Unit([job], False, 0.0, unit.bytes // 2) for job in unit.jobs]
        with closing(self._pool.open_spare()) as spare:
            yield from self._train(alone, spare, keep=keep)

    def _give_back(self, unit: Unit) -> None:
        if unit.slot is not None:
            self.transport.give_back(unit.slot)
            unit.slot = None

    def _results(
        self, unit: Unit, reply: Message, frame: Any, *, keep: bool
    ) -> Iterator[ClientUpdate | ClientFailure]:
        if "ours" in reply:  # what a client's turn provokes is a result; this is the engine's
            raise EngineError(reply["error"]) from make_cause(reply["trace"])
        if "failed" in reply or "error" in reply:
            reason = "worker" if "failed" in reply else "raised"
            detail = f"its turn {reply['failed']}" if "failed" in reply else reply["error"]
            trace = reply.get("trace", "")
            for job in unit.jobs:
                yield ClientFailure(job.address, reason, detail, trace=trace)
            return
        task = unit.jobs[0].address.task
        layout = self._layouts[task]
        partial = delta = None
        results = reply["results"]
        if unit.merge and reply["examples"]:
            total = self.transport.lend(unit.slot, frame, layout.size)
            unit.slot = None
            partial = PartialSum(total, reply["examples"])
            del total
        elif not unit.merge and len(results[0]) == len(DONE):
            flat = self.transport.read(unit.slot, frame, layout.size)
            delta = Params(layout, flat.copy() if keep else flat)
        last = len(unit.jobs) - 1
        spent = samples = 0.0
        for number, (job, found) in enumerate(zip(unit.jobs, results, strict=True)):
            part = partial if number == last else None
            if len(found) < len(DONE):
                reason, detail, trace = found
                yield ClientFailure(job.address, reason, detail, part, trace=trace)
            else:
                fields = (job.address, delta, *found, job.probability, part)
                update = ClientUpdate(*fields)
                spent, samples = spent + update.seconds, samples + update.samples
                yield update
        if samples:
            self._pace[task] = spent / samples
