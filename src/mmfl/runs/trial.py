"""What is known of each task before training: its data, who holds it, one step, one evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mmfl.aggregate import check_update
from mmfl.data import label_skew, skew_by_chance, target_skew
from mmfl.exchange import Address, ClientFailure, Job, Params
from mmfl.loop import combine
from mmfl.objectives import Measured

if TYPE_CHECKING:
    from mmfl.engines import InlineEngine
    from mmfl.experiment import Experiment

__all__ = ["TaskTrial", "try_tasks"]

CLIENTS = 1000
"""Of how many clients the shards are looked at: the first ones."""


@dataclass(frozen=True)
class TaskTrial:
    """What was found about a task.

    Attributes:
        weights: How many weights its model has.
        tensors: In how many tensors.
        sizes: Examples held by each client that was looked at and holds some, ascending.
        idle: How many clients that were looked at hold none.
        classes: Whether the targets are class numbers.
        skew: See `label_skew`, or for real targets `target_skew`.
        chance: The same after the labels were shuffled.
        batch: The shape of the first batch.
        loss: The loss of the first step.
        measured: An evaluation on the first piece of the test split, after that step.
        failure: Why a step of training failed; "" if it did not.
        trace: The traceback of that, if the user's code raised.
    """

    weights: int
    tensors: int
    sizes: npt.NDArray[np.int64]
    idle: int
    classes: bool
    skew: float = float("nan")
    chance: float = float("nan")
    batch: tuple[int, ...] = ()
    loss: float = float("nan")
    measured: Measured | None = None
    failure: str = ""
    trace: str = ""


def try_tasks(
    experiment: Experiment, engine: InlineEngine, params: Mapping[str, Params]
) -> dict[str, TaskTrial]:
    """Look at each task, make one step of training with its largest shard, and evaluate once.

    The models are not changed.

    Args:
        experiment: Resolved.
        engine: Prepared for it.
        params: The first weights.
    """
    return {task: _try_task(experiment, engine, task, first) for task, first in params.items()}


def _try_task(experiment: Experiment, engine: InlineEngine, task: str, first: Params) -> TaskTrial:
    federation, data = engine.federation, engine.trainer.arrays[task]
    clients = np.arange(min(CLIENTS, len(federation.clients)))
    sizes = federation.sizes(clients)[:, federation.tasks.index(task)]
    holders = clients[sizes > 0].tolist()
    shards = [federation.shard(task, client) for client in holders]
    found = TaskTrial(
        weights=first.layout.size,
        tensors=len(first),
        sizes=np.sort(sizes[sizes > 0]),
        idle=len(clients) - len(holders),
        classes=data.classes is not None,
    )
    if not holders:
        return found
    rows = np.concatenate(shards)
    owners = np.repeat(holders, [len(shard) for shard in shards])
    measure = label_skew if found.classes else target_skew
    largest = int(sizes.argmax())
    work = replace(experiment.work(task, 0), epochs=None, steps=1)
    found = replace(
        found,
        skew=measure(data.y_train[rows], owners),
        chance=skew_by_chance(data.y_train[rows], owners),
        batch=engine.trainer.batch_shape(task, federation.shard(task, largest)[: work.batch_size]),
    )
    job = Job(Address(experiment.run_id, 1, task, largest, 0), experiment.seed, work)
    (result,) = engine.train([job], {task: first})
    if not isinstance(result, ClientFailure):
        held = int(sizes[largest])
        result = check_update(result, job.address, first.layout, held, experiment.checks)
    if isinstance(result, ClientFailure):
        return replace(found, failure=result.detail, trace=result.trace)
    assert isinstance(result.delta, Params)
    after = Params(first.layout, first.flat + result.delta.flat)
    metrics = {task: experiment.task(task).metric}
    piece = next(engine.evaluate({task: after}, "test"))
    return replace(found, loss=result.loss_before, measured=combine([piece], metrics)[task])
