"""The Flower engine: the round loop's jobs become messages to nodes, their replies become updates.

It runs within a ServerApp and drives Flower's Grid directly, because a Flower strategy holds one
model. Nothing that a node sends is trusted: what cannot be read is that client's failure, and the
round loop checks every update (`mmfl.loop.gate`). The server evaluates on its own data, if it has
any, in this process.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from flwr.app import RecordDict
from flwr.serverapp import Grid

from mmfl.config import dump
from mmfl.data import AtNodes
from mmfl.engines.flower.data import describe_data
from mmfl.engines.flower.members import FlowerFederation, Members
from mmfl.engines.flower.nodes import Answer, Nodes, Request, Silence, Surplus
from mmfl.engines.flower.records import pack
from mmfl.engines.flower.replies import read_evaluations, read_update
from mmfl.engines.inline import InlineEngine
from mmfl.errors import MmflWarning
from mmfl.exchange import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Params,
    Split,
)
from mmfl.experiment import Flower, Ids, ModelDescription
from mmfl.loop import find_evaluation_fault
from mmfl.system.turns import hold

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["FlowerEngine"]

_OURS = (
    *("aggregator", "allocator", "checkpoints", "engine", "faults", "local"),
    *("quarantine", "recruitment", "score"),
)
"""What is decided on the server alone: nodes are not told, so they need not know the code."""

_ROOM = 1 << 18
"""What an answer may have besides its numbers, in bytes."""

_NOT_CONNECTED = "its node is not connected"


class FlowerEngine:
    """An `Engine` over the nodes of a Grid.

    Args:
        experiment: What to serve.
        data_dir: Folder of npz files, for what the server evaluates.
        grid: Flower's.
        settings: How long to wait, and for whom.
    """

    merges = False

    def __init__(
        self,
        experiment: Experiment,
        data_dir: Path | None,
        grid: Grid,
        settings: Flower | None = None,
    ) -> None:
        self._settings = settings or Flower()
        self._nodes = Nodes(grid)
        self._server: InlineEngine | None = None
        self._data_dir = data_dir
        self._told: dict[str, Any] = {}
        self._members: Members
        self.federation: FlowerFederation
        self.prepare(experiment)

    @property
    def workers(self) -> int:
        """How many clients train at the same time."""
        return max(1, len(self._members.nodes_by_client()))

    def prepare(self, experiment: Experiment) -> None:
        """Load what the server evaluates, and ask all nodes who they are."""
        experiment = experiment.resolved()
        with hold(self):
            if self._server is None:
                self._server = InlineEngine(experiment, self._data_dir, blank=True)
            else:
                self._server.prepare(experiment)
            afar = [t.name for t in experiment.tasks if isinstance(t.dataset, AtNodes)]
            told = {
                "experiment": _write_plain(experiment),
                "data": describe_data(self._server.trainer.arrays, afar),
            }
            if told == self._told:
                return
            self._told, self._afar = told, frozenset(afar)
            self._metrics = {task.name: task.metric for task in experiment.tasks}
            count, tasks = experiment.clients.count, [task.name for task in experiment.tasks]
            query = partial(pack, self._told)
            self._members = Members(self._nodes, query, count, tasks, self._settings.max_examples)
            wanted = count if self._settings.nodes is None else self._settings.nodes
            self._members.wait(wanted, self._settings.patience)
            self.federation = self._members.federation(self._server.federation.sums)

    def follow_clients(self) -> None:
        """Take in the nodes that have joined, and leave out those that have left."""
        with hold(self):
            self._members.look()
            if self._members.changed and self._server is not None:
                self.federation = self._members.federation(self._server.federation.sums)

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of the server's data."""
        return self._own.data()

    def describe(self) -> dict[str, ModelDescription]:
        """From task name to how its model is built and used."""
        return self._own.describe()

    def numerics(self) -> dict[str, str]:
        """What this process computes with; what nodes compute with is their own affair."""
        return self._own.numerics()

    def initial(self) -> dict[str, Params]:
        """Every task's first weights."""
        return self._own.initial()

    @property
    def _own(self) -> InlineEngine:
        assert self._server is not None
        return self._server

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """One message for each job; updates in the order of the jobs."""
        nodes = self._members.nodes_by_client()
        here = [n for n, job in enumerate(jobs) if job.address.client in nodes]
        requests = [
            Request(
                nodes[jobs[number].address.client],
                "train",
                partial(self._write_job, jobs[number], params[jobs[number].address.task]),
                _ROOM + params[jobs[number].address.task].flat.nbytes,
            )
            for number in here
        ]
        waiting = _Ordered(len(jobs))
        for number in set(range(len(jobs))).difference(here):
            waiting.put(number, ClientFailure(jobs[number].address, "dropout", _NOT_CONNECTED))
        group = str(jobs[0].address.round) if jobs else ""
        for place, reply in self._nodes.ask(requests, self._settings.timeout, group=group):
            number = here[place]
            job = jobs[number]
            if isinstance(reply, Surplus):
                failure = ClientFailure(job.address, "duplicate", reply.detail, turn=False)
                waiting.add(number, failure)
            else:
                layout, most = params[job.address.task].layout, self._settings.max_examples
                waiting.put(number, read_update(job, reply, layout, most))
            yield from waiting.take()
        yield from waiting.take()

    def evaluate(
        self,
        params: Mapping[str, Params],
        split: Split,
        clients: Mapping[str, Ids] | None = None,
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """The server's split in this process, or one message to each client for all its tasks."""
        if clients is None:
            yield from self._evaluate_here(params, split)
            return
        asked: dict[int, list[str]] = {}
        for task in params:
            for client in clients[task].tolist():
                asked.setdefault(client, []).append(task)
        nodes = self._members.nodes_by_client()
        here = [client for client in asked if client in nodes]
        requests = [
            Request(
                nodes[client],
                "evaluate",
                partial(self._write_evaluation, client, split, asked[client], params),
                _ROOM + 8 * sum(map(math.prod, self.federation.sums.values())),
            )
            for client in here
        ]
        found: dict[int, dict[str, Evaluation | EvaluationFailure]] = {}
        for place, reply in self._nodes.ask(requests, self._settings.timeout):
            if isinstance(reply, Answer | Silence):
                client = here[place]
                results = read_evaluations(client, asked[client], reply, self.federation.sums)
                found[client] = {result.task: result for result in results}
        for task in params:
            for client in clients[task].tolist():
                if client in found:
                    yield found[client][task]
                else:
                    yield EvaluationFailure(task, client, "dropout", _NOT_CONNECTED)

    def _evaluate_here(self, params: Mapping[str, Params], split: Split) -> Iterator[Evaluation]:
        """The server's split; of tasks without data here, what the nodes hold back."""
        ours = {task: weights for task, weights in params.items() if task not in self._afar}
        afar = {task: weights for task, weights in params.items() if task in self._afar}
        for found in self._own.evaluate(ours, split):
            assert isinstance(found, Evaluation)
            yield found
        if not afar:
            return
        able = {task: self.federation.able(task) for task in afar}
        everybody = np.array(self.federation.clients)
        asked = {task: everybody if some is None else some for task, some in able.items()}
        for found in self.evaluate(afar, "test", asked):
            if isinstance(found, EvaluationFailure):
                fault = found.detail or found.reason
            else:
                sums, most = self.federation.sums.get(found.task), self._settings.max_examples
                fault = find_evaluation_fault(found, most, self._metrics[found.task], sums)
                if not fault:
                    yield found
                    continue
            said = f"the test of task {found.task!r} is without client {found.client}: {fault}"
            warnings.warn(said, MmflWarning, stacklevel=2)

    def close(self) -> None:
        """Do nothing: the Grid is Flower's."""

    def _write_job(self, job: Job, weights: Params) -> RecordDict:
        table = {"address": job.address, "seed": job.seed, "work": asdict(job.work)}
        return pack(self._told | table, weights={job.address.task: weights.flat})

    def _write_evaluation(
        self, client: int, split: Split, tasks: Sequence[str], params: Mapping[str, Params]
    ) -> RecordDict:
        weights = {task: params[task].flat for task in tasks}
        return pack(self._told | {"client": client, "split": split}, weights=weights)


class _Ordered:
    """Results that arrive in any order and are taken in that of their jobs."""

    def __init__(self, count: int) -> None:
        self._count, self._due = count, 0
        self._results: dict[int, ClientUpdate | ClientFailure] = {}
        self._more: dict[int, list[ClientFailure]] = {}

    def put(self, number: int, result: ClientUpdate | ClientFailure) -> None:
        """The result of a job has arrived."""
        self._results[number] = result

    def add(self, number: int, failure: ClientFailure) -> None:
        """Something beyond the result of a job has arrived."""
        self._more.setdefault(number, []).append(failure)

    def take(self) -> Iterator[ClientUpdate | ClientFailure]:
        """All that may be delivered by now."""
        while self._due in self._results:
            yield self._results.pop(self._due)
            self._due += 1
        for number in sorted(number for number in self._more if number < self._due):
            yield from self._more.pop(number)


def _write_plain(experiment: Experiment) -> str:
    """The experiment as nodes get it."""
    plain: dict[str, Any] = dump(experiment)
    for key in _OURS:
        plain.pop(key, None)
    for task, table in zip(experiment.tasks, plain["tasks"], strict=True):
        table["local"] = dump(experiment.engine_local(task))
    return tomli_w.dumps(plain)
