"""What a worker does when it is asked, wherever it runs: requests in, answers out.

    setup      experiment, manifest of the data,    -> {"ready": true}
               hashes of the user's modules,
               objects in memory
    weights    manifest of the weights              -> {}
    probe      jobs of each task                    -> a hash of their results, versions
    numerics   task                                 -> what it computes with (for any task the same)
    weigh      task                                 -> how large its model will be, or null
    initial    task                                 -> layout, and the weights as bytes
    train      jobs of one task, weights, slot,     -> results (`DONE` each, or reason, detail and
               merge                                   traceback), and the delta or the sum
    evaluate   task, weights, split, pieces or      -> sums; those of tallies as bytes
               clients

An exception becomes {"error": sentence, "trace": its traceback}, with "ours" if it is mmfl's own;
then "trace" is that of the user's exception behind it, or "".

A model may fork this process. A fork that returns from the model's code ends, before it writes to
what it shares with this process: to the socket, or to a slot.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mmfl import __version__
from mmfl.aggregate import ChunkSum, check_update
from mmfl.config import unpack
from mmfl.engines.evaluations import pack_evaluations
from mmfl.engines.setup import restore_arrays
from mmfl.errors import EngineError, MmflError
from mmfl.exchange import DONE, Address, ClientFailure, ClientUpdate, Flat, Job, LocalWork, Params
from mmfl.experiment import Experiment, has_own_code, refuse_edited_code
from mmfl.system import calls
from mmfl.system.child import Message
from mmfl.system.tracebacks import format_cause
from mmfl.system.user_code import describe_error, pass_on
from mmfl.train import DeviceLostError, Trainer, numerics

__all__ = ["Handler", "WorkerMemory"]


class WorkerMemory(Protocol):
    """The worker's end of an `mmfl.engines.processes.Transport`."""

    def attach_data(self, manifest: Any) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays of `share`."""
        ...

    def attach_weights(self, manifest: Any) -> None:
        """Learn where the weights are."""
        ...

    def find_weights(self, task: str, where: Any) -> Flat:
        """A task's weights; `where` is the request's."""
        ...

    def find_place(self, slot: Any, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """Where a result is to be."""
        ...

    def deliver(self, place: npt.NDArray[Any]) -> Any:
        """What goes with the answer, of a result that is in its place."""
        ...


class Handler:
    """A trainer that takes requests.

    Args:
        memory: Where data, weights and results are.
    """

    def __init__(self, memory: WorkerMemory) -> None:
        self._memory, self._pid = memory, os.getpid()
        self._trainer: Trainer | None = None
        self._runs_own_code = False  # the user's, now or in an earlier experiment

    def answer(self, request: Message) -> tuple[Message, Any]:
        """The answer to a request, and the bytes or the array that belong to it."""
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
        return reply | {"number": number}, frame

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
        mapped = self._memory.attach_data(data)
        tasks = {task: restore_arrays(names, mapped) for task, names in arrays.items()}
        self._runs_own_code |= has_own_code(experiment)  # before any of it is imported
        unpack(objects)
        resolved = Experiment.from_dict(experiment, allow_imports=True)
        refuse_edited_code(resolved, code)
        # All that was imported stays: it need not be looked through for garbage ever again. Models
        # do not stay, and what is frozen is never collected: so before any is built.
        gc.freeze()
        self._checks = resolved.checks
        settled = not self._runs_own_code
        self._trainer = Trainer.of(resolved, tasks, settled=settled, alone=True)
        if not self._runs_own_code:
            self._trainer.device.settle()
        return {"ready": True}, b""

    def do_weights(self, manifest: Any) -> tuple[Any, bytes]:
        """Learn where the weights are."""
        self._memory.attach_weights(manifest)
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
        weights: Any,
        merge: bool,
        slot: list[int] | None,
    ) -> tuple[Any, Any]:
        """Turns of one chunk; with `merge` their sum is the result, else the one delta."""
        jobs = _read_jobs(address, seed, clients, works, which)
        flat = self._memory.find_weights(address[2], weights)
        place = self._memory.find_place(slot, np.float64 if merge else np.float32, len(flat))
        answer, good = self._train(jobs, flat, place, merge=merge)
        return answer, self._memory.deliver(place) if good else b""

    def _train(
        self, jobs: list[Job], flat: Flat, place: npt.NDArray[Any], *, merge: bool
    ) -> tuple[Message, bool]:
        """The answer, and whether there is something in the place."""
        results, chunk = [], ChunkSum(place)

        def give_place() -> npt.NDArray[Any]:
            self._end_fork()
            return place

        turns = self.trainer.turns(jobs, flat, out=None if merge else give_place)
        now, good = calls.perf_counter(), False
        for job, found in zip(jobs, turns, strict=True):
            self._end_fork()
            result = self._check(job, found)
            good |= isinstance(result, ClientUpdate)
            if merge and isinstance(result, ClientUpdate):
                chunk.add(result)
            start, now = now, calls.perf_counter()
            results.append(_write_result(result, seconds=now - start))
        total = chunk.sum()
        return {"results": results, "examples": total.examples if total else 0}, good

    def do_probe(self, probe: int, units: list[Any]) -> tuple[Any, bytes]:
        """A hash of what training and evaluating give here; errors are told when they matter."""
        digest = hashlib.sha256()
        for unit in units:
            names = ("address", "seed", "clients", "works", "which")
            jobs = _read_jobs(*(unit[name] for name in names))
            task = jobs[0].address.task
            try:
                flat = self.trainer.copy_first(task)
                place = np.zeros(len(flat))
                answer, _ = self._train(jobs, flat, place, merge=True)
                evaluation = self.trainer.evaluate(task, flat, "test")
            except MmflError as error:
                digest.update(str(error).encode())
            else:
                results = [found[:-1] for found in answer["results"]]  # without seconds
                digest.update(repr((results, evaluation)).encode() + flat.tobytes())
                digest.update(place.tobytes())
        found = {"bits": digest.hexdigest(), "numerics": numerics(self.trainer.device)}
        return {"probe": probe, "version": __version__} | found, b""

    def do_evaluate(
        self, task: str, weights: Any, split: Any, pieces: Any, clients: Any
    ) -> tuple[Any, bytes]:
        """Sums over pieces of the server's split, or over clients' shards."""
        flat = self._memory.find_weights(task, weights)
        found = [self.trainer.evaluate(task, flat, split, piece=piece) for piece in pieces]
        found += [self.trainer.evaluate(task, flat, split, client=client) for client in clients]
        tables, tallies = pack_evaluations(found)
        return {"found": tables}, tallies

    def _check(self, job: Job, found: ClientUpdate | ClientFailure) -> ClientUpdate | ClientFailure:
        if isinstance(found, ClientFailure):
            return found
        assert isinstance(found.delta, Params)
        layout, count = found.delta.layout, found.examples
        return check_update(found, job.address, layout, count, self._checks)


def _read_jobs(
    address: list[Any], seed: int, clients: list[int], works: list[Any], which: list[int]
) -> list[Job]:
    """The jobs of a request."""
    run, number, task, version = address
    local = [LocalWork(**work) for work in works]
    return [
        Job(Address(run, number, task, client, version), seed, local[its])
        for client, its in zip(clients, which, strict=True)
    ]


_get_done = attrgetter(*DONE[:-1])


def _write_result(result: ClientUpdate | ClientFailure, *, seconds: float) -> list[Any]:
    """`DONE` of an update, with the time that it took here: to train, to check and to add up."""
    if isinstance(result, ClientFailure):
        return [result.reason, result.detail, result.trace]
    return [*_get_done(result), seconds]
