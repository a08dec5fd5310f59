"""The least memory that an experiment needs, from sizes known before anything is built.

All forecasts of memory are here, except those of data sets and bids, which are made where they are
read and drawn (`mmfl.data.datasets`, `mmfl.market.bids_io`). `mmfl.system.memory` compares them
with what there is; `mmfl.train.sizing` measures models.

A process that trains holds, for each task, the weights twice (as they are, and as they began),
their gradients, the optimizer's buffers and, with prox, the weights that the server sent: 4 bytes
each. In addition there are the numbers of
one batch: at least what the largest layer reads and writes, and in training what the layers keep
for their gradients. The coordinator holds all weights and, while a task is aggregated,
the sum of its updates and its new weights; an aggregator that is not mergeable holds all updates of
a task at once. Mapped files are not counted: they lie on disk, where `mmfl.engines.shared_memory`
reserves their space, and updates in memory only while there is enough. Of a GPU's memory nothing is
known: with one, a process holds the weights twice in its own memory, and the rest is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mmfl.aggregate import AGGREGATORS
from mmfl.system.memory import Need

if TYPE_CHECKING:
    from mmfl.data import Arrays
    from mmfl.experiment import Experiment, Federation, LocalTraining

__all__ = ["ModelSize", "job_needs", "model_needs", "turn_needs", "worker_needs"]

_PROCESS = 100 << 20
"""Bytes that an mmfl process takes before it has any model: Python, NumPy, torch."""

_TURN = 200
"""Bytes that a turn takes at the coordinator, at least: its place, its assignment, its job."""

_TURN_TASK = 9
"""Bytes that a turn takes for each task: whether the client may train it, and its examples."""


class ModelSize(NamedTuple):
    """How large a model is, in numbers.

    Attributes:
        weights: All that is aggregated.
        layer: What its largest layer reads and writes, per example.
        kept: What its layers keep for their gradients, per example.
        answers: What its kernel's table of answers has.
    """

    weights: int
    layer: int = 0
    kept: int = 0
    answers: int = 0


def worker_needs(workers: int) -> list[Need]:
    """That many worker processes, before they have any model."""
    return [Need(f"engine.workers = {workers:,}", _PROCESS, each=True)]


def job_needs(jobs: int) -> list[Need]:
    """That many runs at the same time, each in its own process, before they have any model."""
    return [Need(f"jobs = {jobs:,}", _PROCESS, each=True)]


def turn_needs(rate: float, active: int, tasks: int) -> list[Need]:
    """The turns of a round.

    Args:
        rate: The share of clients that are active.
        active: How many these are.
        tasks: How many tasks there are.
    """
    what = f"clients.active = {rate:g}, which means {active:,} clients per round,"
    return [Need(what, (_TURN + _TURN_TASK * tasks) * active)]


def model_needs(
    experiment: Experiment,
    federation: Federation,
    arrays: Mapping[str, Arrays],
    weighed: Mapping[str, ModelSize],
) -> list[Need]:
    """What training these models takes.

    Args:
        experiment: Their settings.
        federation: Who trains them.
        arrays: Their data.
        weighed: How large they are; those of which it is not known are left out.
    """
    needs: list[Need] = []
    held = federation.sizes(np.asarray(federation.clients[:1000], dtype=np.int64))
    for column, task in enumerate(federation.tasks):
        if task not in weighed:
            continue
        size = weighed[task]
        on_gpu = experiment.device != "cpu"  # how much memory that has is not known here
        copies = 2 if on_gpu else _copies(experiment.training(task))
        what = f"task {task!r}: a model of {size.weights:,} weights"
        needs.append(Need(what, 4 * copies * size.weights, each=True))
        needs.append(Need(f"{what}, at the coordinator,", 4 * size.weights))
        if size.answers:
            classes = f"{arrays[task].outputs:,}"
            what = (
                f"task {task!r}: the table of {classes} x {classes} classes of kernel = 'batched'"
            )
            needs.append(Need(what, 4 * size.answers, each=True))
        if on_gpu:
            continue
        shards = held[held[:, column] > 0, column]
        shard = int(shards.min()) if len(shards) else 0
        needs.append(_batch(experiment, task, size, shard, len(arrays[task].y_test)))
    if weighed:
        needs.append(_aggregation(experiment, federation, weighed))
    return needs


def _copies(local: LocalTraining) -> int:
    """How many numbers there are for each weight of a model that trains, at least."""
    kept = 1 if local.momentum else getattr(local.optimizer, "buffers", 0)
    return 3 + kept + bool(local.prox)


def _batch(experiment: Experiment, task: str, size: ModelSize, shard: int, tested: int) -> Need:
    """The larger of a training step and of a step of an evaluation."""
    wanted, wanted_test = experiment.training(task).batch_size, experiment.evaluate.batch_size
    step, test_step = min(wanted, shard), min(wanted_test, tested)
    train, test = step * max(size.kept, size.layer), test_step * size.layer
    number = 2 if experiment.precision == "bf16" else 4  # bytes of one that layers compute
    what = f"task {task!r}: a batch of {step:,} (local.batch_size = {wanted:,})"
    if test > train:
        what = f"task {task!r}: a batch of {test_step:,} (evaluate.batch_size = {wanted_test:,})"
    return Need(what, number * max(train, test), each=True)


def _aggregation(
    experiment: Experiment, federation: Federation, weighed: Mapping[str, ModelSize]
) -> Need:
    """Sum and new weights of the largest model, or the updates that some task gets for certain."""
    task = max(weighed, key=lambda name: weighed[name].weights)
    what = f"task {task!r}: the sum of updates of {weighed[task].weights:,} weights"
    sums = Need(what, 12 * weighed[task].weights)
    rate = experiment.clients.active
    known = len(weighed) == len(federation.tasks) and isinstance(rate, float)
    fewer = experiment.recruitment is not None or experiment.faults is not None
    if experiment.aggregator.mergeable or fewer or not known:
        return sums
    assert isinstance(rate, float)
    places = federation.able()
    able = len(federation.clients) if places is None else len(places)
    turns = -(-round(rate * able) // len(federation.tasks))  # of the task that has most
    smallest = min(size.weights for size in weighed.values())
    kind = AGGREGATORS.kind_of(experiment.aggregator)
    what = f"aggregator.kind = {kind!r}, which holds all of a task's updates ({turns:,}) in memory,"
    return Need(what, sums.bytes + 4 * turns * smallest)
