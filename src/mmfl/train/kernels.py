"""The kernels: ways to compute a turn. Each agrees with "reference" within rounding.

A run's bits are promised within a kernel, so which one computes a task is written into the run's
experiment. `Experiment.kernel_of` has the rule for "auto".
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mmfl.experiment import Task
from mmfl.objectives import CrossEntropy
from mmfl.optimizers import Optimizer
from mmfl.train.batched import Batched
from mmfl.train.device import Device
from mmfl.train.inputs import Inputs
from mmfl.train.norms import find_least_batch
from mmfl.train.optimizers import choose_optimizer
from mmfl.train.reference import Kernel, OneByOne
from mmfl.train.resident import Resident

__all__ = ["kernel"]


def kernel(
    name: str,
    task: Task,
    resident: Resident,
    inputs: Inputs,
    *,
    precision: str,
    optimizer: Optimizer,
    device: Device,
) -> Kernel:
    """The kernel of that name for a task's network; whether it fits was checked before."""
    if name == "batched":
        assert isinstance(task.loss, CrossEntropy)
        return Batched(resident.layout, inputs, task.loss.label_smoothing)
    fast = name == "fast"
    batches = inputs.batches if fast else partial(inputs.batches, at_once=False)
    start = choose_optimizer(optimizer, fused=fast and device.fused)
    least = find_least_batch(resident.module, lambda: inputs.train(np.zeros(1, np.int64))[0])
    return OneByOne(resident, batches, task.loss.mean, precision, start, device, least)
