"""The worker process: ``python -m mmfl.engines.worker SOCKET DATA WEIGHTS SLOTS`` (numbers).

It reads requests from the socket until that is closed, and answers each one, with its number:

    setup      experiment, manifest of the data,    -> {"ready": true}
               hashes of the user's modules,
               objects in memory
    weights    manifest of the weights              -> {}
    numerics   task                                 -> what it computes with (for any task the same)
    weigh      task                                 -> how large its model will be, or null
    initial    task                                 -> layout, and the weights as bytes
    train      jobs of one task, slot, merge        -> results (`DONE` each, or reason, detail and
                                                       traceback), the delta or the sum in the slot
    evaluate   task, split, pieces or clients       -> sums; those of tallies as bytes

An exception becomes {"error": sentence, "trace": its traceback}, with "ours" if it is mmfl's own;
then "trace" is that of the user's exception behind it, or "".

A model may fork this process. A fork that returns from the model's code ends, before it writes to
what it shares with this process: to the socket, or to a slot.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mmfl.aggregate import ChunkSum, check_update
from mmfl.config import unpack
from mmfl.data import Arrays, Feature
from mmfl.engines.evaluations import pack_evaluations
from mmfl.engines.shared_memory.arena import attach
from mmfl.engines.shared_memory.slots import Blocks, Slot
from mmfl.errors import EngineError, MmflError, MmflWarning
from mmfl.exchange import DONE, Address, ClientFailure, ClientUpdate, Job, LocalWork, Params
from mmfl.experiment import Experiment, has_own_code, refuse_edited_code
from mmfl.system import calls
from mmfl.system.tracebacks import format_cause
from mmfl.system.user_code import describe_error, pass_on
from mmfl.train import DeviceLostError, Trainer, numerics

__all__: list[str] = []


class Worker:
    """A trainer that takes requests."""

    def __init__(self, connection: Connection, data: int, weights: int, *slots: int) -> None:
        self._connection, self._pid = connection, os.getpid()
        self._files = {"data": data, "weights": weights}
        self._trainer: Trainer | None = None
        self._weights: dict[str, npt.NDArray[Any]] = {}
        self._slots = Blocks(slots)
        self._runs_own_code = False  # the user's, now or in an earlier experiment

    def serve(self) -> None:
        """Answer until the other side is gone."""
        while True:
            try:
                request = json.loads(calls.receive(self._connection))
            except (EOFError, OSError):
                return
            number, frame = request.pop("number"), b""
            try:
                reply, frame = getattr(self, f"do_{request.pop('do')}")(**request)
            except DeviceLostError:
                os._exit(1)  # another process does this again, and fails only if it is to blame
            except MmflError as error:
                reply = {"error": str(error), "trace": format_cause(error), "ours": True}
            except BaseException as error:  # user code may raise anything
                pass_on(error)
                reply = {"error": describe_error(error), "trace": format_cause(error)}
            finally:
                self._end_fork()
            reply |= {"number": number, "frame": bool(frame)}
            try:
                calls.send(self._connection, json.dumps(reply).encode())
                if frame:
                    calls.send(self._connection, frame)
            except OSError:
                return

    def _end_fork(self) -> None:
        """End this process at once if it was forked from the worker."""
        if self._runs_own_code and os.getpid() != self._pid:
            os._exit(0)

    @property
    def trainer(self) -> Trainer:
        """Of the last set-up."""
        if self._trainer is None:
            raise EngineError("a worker received a request before it was set up")
        return self._trainer

    def do_setup(
        self, experiment: Any, arrays: Any, data: Any, code: Any, objects: Any
    ) -> tuple[Any, bytes]:
        """Build the trainer over the mapped data; imports were allowed or refused on our side."""
        if self._trainer is not None:
            self._trainer = None
            gc.collect()  # modules often have reference cycles
        mapped = attach(self._files["data"], data)
        tasks = {task: _restore_arrays(parts, mapped) for task, parts in arrays.items()}
        self._runs_own_code |= has_own_code(experiment)  # before any of it is imported
        unpack(objects)
        resolved = Experiment.from_dict(experiment, allow_imports=True)
        refuse_edited_code(resolved, code)
        # All that was imported stays: it need not be looked through for garbage ever again. Models
        # do not stay, and what is frozen is never collected: so before any is built.
        gc.freeze()
        self._checks = resolved.checks
        self._trainer = Trainer.of(resolved, tasks, settled=not self._runs_own_code)
        if not self._runs_own_code:
            self._trainer.device.settle()
        return {"ready": True}, b""

    def do_weights(self, manifest: Any) -> tuple[Any, bytes]:
        """Map the weights."""
        self._weights = attach(self._files["weights"], manifest)
        return {}, b""

    def do_numerics(self, task: str) -> tuple[Any, bytes]:
        """What this process computes with."""
        return {"numerics": numerics(self.trainer.device)}, b""

    def do_weigh(self, task: str) -> tuple[Any, bytes]:
        """How large a task's model will be."""
        return {"weighed": self.trainer.weigh(task)}, b""

    def do_initial(self, task: str) -> tuple[Any, bytes]:
        """A task's first weights."""
        params = self.trainer.initial(task)
        return {"layout": params.layout.entries}, params.flat.tobytes()

    def do_train(
        self,
        address: list[Any],
        seed: int,
        clients: list[int],
        works: list[Any],
        which: list[int],
        merge: bool,
        slot: list[int],
    ) -> tuple[Any, bytes]:
        """Turns of one chunk; with `merge` their sum goes into the slot, else the one delta."""
        run, number, task, version = address
        local = [LocalWork(**work) for work in works]
        jobs = [
            Job(Address(run, number, task, client, version), seed, local[its])
            for client, its in zip(clients, which, strict=True)
        ]
        weights = self._weights[task]
        dtype = np.float64 if merge else np.float32
        place = self._slots.array(Slot(*slot), dtype, len(weights))
        results, chunk = [], ChunkSum(place)

        def give_place() -> npt.NDArray[Any]:
            self._end_fork()
            return place

        turns = self.trainer.turns(jobs, weights, out=None if merge else give_place)
        now = calls.perf_counter()
        for job, found in zip(jobs, turns, strict=True):
            self._end_fork()
            result = self._check(job, found)
            if merge and isinstance(result, ClientUpdate):
                chunk.add(result)
            start, now = now, calls.perf_counter()
            results.append(_write_result(result, seconds=now - start))
        total = chunk.sum()
        return {"results": results, "examples": total.examples if total else 0}, b""

    def do_evaluate(self, task: str, split: Any, pieces: Any, clients: Any) -> tuple[Any, bytes]:
        """Sums over pieces of the server's split, or over clients' shards."""
        weights = self._weights[task]
        found = [self.trainer.evaluate(task, weights, split, piece=piece) for piece in pieces]
        found += [self.trainer.evaluate(task, weights, split, client=client) for client in clients]
        tables, tallies = pack_evaluations(found)
        return {"found": tables}, tallies

    def _check(self, job: Job, found: ClientUpdate | ClientFailure) -> ClientUpdate | ClientFailure:
        if isinstance(found, ClientFailure):
            return found
        assert isinstance(found.delta, Params)
        layout, count = found.delta.layout, found.examples
        return check_update(found, job.address, layout, count, self._checks)


def _restore_arrays(parts: Any, mapped: Any) -> Arrays:
    """A task's data: its arrays are mapped, all else is in the message."""
    classes, features, series = (parts.pop(key) for key in ("classes", "features", "series"))
    names = {key: parts.pop(key) for key in ("group_names", "class_names")}
    found: dict[str, Any] = {part: mapped[key] for part, key in parts.items()}
    found |= {key: value and tuple(value) for key, value in names.items()}
    if features is not None:
        features = tuple(Feature(name, values and tuple(values)) for name, values in features)
    return Arrays(**found, classes=classes, features=features, series=series)


_get_done = attrgetter(*DONE[:-1])


def _write_result(result: ClientUpdate | ClientFailure, *, seconds: float) -> list[Any]:
    """`DONE` of an update, with the time that it took here: to train, to check and to add up."""
    if isinstance(result, ClientFailure):
        return [result.reason, result.detail, result.trace]
    return [*_get_done(result), seconds]


def main() -> None:
    """Serve on the socket whose file number is the first argument."""
    socket, *files = map(int, sys.argv[1:])
    if len(files) < 3:
        raise EngineError("a worker is started by the local engine, not by hand")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", MmflWarning)  # the coordinator has shown them already
    Worker(Connection(socket), *files).serve()


if __name__ == "__main__":
    main()
