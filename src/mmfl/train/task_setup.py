"""What a process trains and evaluates a task with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mmfl.data import Arrays
from mmfl.experiment import Task
from mmfl.objectives import BinaryCrossEntropy, Loss
from mmfl.system.user_code import pass_on
from mmfl.train import reference
from mmfl.train.device import Device
from mmfl.train.inputs import Inputs
from mmfl.train.reference import Kernel
from mmfl.train.resident import Resident

__all__ = ["TaskSetup", "guess_blindly"]


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

    @property
    def parts(self) -> tuple[object, ...]:
        """What a turn calls that may be the user's."""
        return self.task.model, self.task.loss, self.task.metric, self.task.augment

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


def guess_blindly(data: Arrays, loss: Loss) -> Tensor:
    """What a model says that has not looked: all answers alike, or the mean training target."""
    if data.classes is not None or isinstance(loss, BinaryCrossEntropy):
        return torch.zeros(())
    return torch.from_numpy(data.y_train.mean(axis=0, dtype=np.float64, keepdims=True)).float()
