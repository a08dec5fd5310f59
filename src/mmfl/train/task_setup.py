"""What a process trains and evaluates a task with."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmfl.data import Arrays
from mmfl.errors import text_of
from mmfl.exchange import Split
from mmfl.experiment import Task
from mmfl.objectives import BinaryCrossEntropy, Loss, read_sums
from mmfl.optimizers import Optimizer
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import Guard, pass_on
from mmfl.train import reference
from mmfl.train.device import Device
from mmfl.train.inputs import Inputs
from mmfl.train.reference import Kernel
from mmfl.train.resident import Resident
from mmfl.train.seeding import end_fork

__all__ = ["TaskSetup", "guard_task", "guess_blindly", "hint_at_gradient"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TaskSetup:
    """A task, its data, its network, its loss and its metric."""

    task: Task
    data: Arrays
    inputs: Inputs
    resident: Resident
    kernel: Kernel
    metric: Callable[[Tensor, Tensor], Tensor]
    guess: Tensor
    sums: tuple[int, ...] | None
    device: Device
    optimizer: Optimizer

    @property
    def trained(self) -> tuple[object, ...]:
        """What a turn calls that may be the user's."""
        return self.task.model, self.task.loss, self.task.augment, self.optimizer

    @property
    def evaluated(self) -> tuple[object, ...]:
        """What an evaluation calls that may be the user's."""
        return self.task.model, self.task.loss, self.task.metric

    def outputs(self, x: Tensor, y: Tensor, precision: str) -> Tensor:
        """Those of the model, on the processor."""
        outputs = self.device.fetch(reference.forward(self.resident.module, x, precision))
        return reference.match_shape(outputs, y)

    def blind_loss(self, outputs: Tensor, y: Tensor) -> float:
        """The loss of the guess; NaN where a model's outputs are not guesses of the targets."""
        if self.guess.ndim > 1 and self.guess.shape[1:] != outputs.shape[1:]:
            return float("nan")
        try:
            return float(self.task.loss.mean(self.guess.expand_as(outputs), y))
        except Exception as error:  # a user's loss need not be defined for constant outputs
            pass_on(error)
            return float("nan")

    def measure(
        self, rows: Ints, split: Split, precision: str, size: int
    ) -> tuple[float, float, float, npt.NDArray[np.float64] | None]:
        """Loss, metric, the loss of a guess that has not looked at the example, metric's sums."""
        process = os.getpid()
        batch = self.inputs.test if split == "test" else self.inputs.train
        mean = self.task.loss.mean
        loss = metric = guess = 0.0
        tally = None if self.sums is None else np.zeros(self.sums)
        self.resident.module.eval()
        for start in range(0, len(rows), size):
            x, y = batch(rows[start : start + size])
            outputs = self.outputs(x, y, precision)
            loss += float(mean(outputs, y)) * len(y)
            guess += self.blind_loss(outputs, y) * len(y)
            values = self.metric(outputs, y)
            if tally is not None:
                tally += read_sums(values, tally.shape, self.task.metric)
            else:
                metric += float(values.sum()) if values.ndim else float(values) * len(y)
            end_fork(process)  # before the next batch, in which it would fork again
        return loss, metric if tally is None else math.nan, guess, tally


def guess_blindly(data: Arrays, loss: Loss) -> Tensor:
    """What a model says that has not looked: all answers alike, or the mean training target."""
    if data.classes is not None or isinstance(loss, BinaryCrossEntropy):
        return torch.zeros(())
    return torch.from_numpy(data.y_train.mean(axis=0, dtype=np.float64, keepdims=True)).float()


def hint_at_gradient(error: BaseException, setup: TaskSetup) -> str:
    """Whose mistake it is, if training raised this because a loss has no gradient."""
    if "does not require grad and does not have a grad_fn" not in text_of(error):
        return ""
    place = describe_place(setup.task.loss, setup.resident.module, setup.task.model)
    return f"; the loss has no gradient in the model's weights{place}"


def guard_task(
    task: str, failed: str, part: object, hint: Callable[[BaseException], str] = lambda _: ""
) -> Guard:
    """A guard for what a task's parts do: whatever they raise is an error of that task."""
    return Guard(f"task {task!r}: {failed}", part=part, always=True, wraps=True, hint=hint)
