"""Build a task's network, ready to be trained."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mmfl.data import Augment, Normalize
from mmfl.errors import EngineError
from mmfl.rng import Stream
from mmfl.train.inputs import Inputs
from mmfl.train.seeding import seed_torch

if TYPE_CHECKING:
    from mmfl.data import Arrays
    from mmfl.experiment import Task

__all__ = ["build_network", "complete_layers"]

_in_use: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""Parameters of all networks of this process that were built and still exist, by their id."""


def build_network(task: Task, data: Arrays, rng: Stream) -> nn.Module:
    """The network of a task, with its first weights.

    Layers that find out the sizes of their weights themselves (``nn.LazyLinear``) are given two
    examples.

    Args:
        task: Whose model.
        data: What it is for.
        rng: What first weights are drawn from.
    """
    with seed_torch(rng):
        module = task.model.build(data.shape, data.outputs)
        complete_layers(module, task.normalize, data)
    _refuse_reuse(module)
    return module


def complete_layers(module: nn.Module, normalize: Normalize, data: Arrays) -> None:
    """Give two examples to a network some of whose layers find out their sizes themselves."""
    if not any(map(is_lazy, chain(module.parameters(), module.buffers()))):
        return
    inputs = Inputs(data, normalize, Augment(), channels_last=False)
    x, _ = inputs.train(np.arange(min(2, len(data.y_train))))
    module.eval()
    with torch.no_grad():
        module(x)


def _refuse_reuse(module: nn.Module) -> None:
    """Refuse a network that was built before: it has been trained since."""
    for name, parameter in module.named_parameters():
        if _in_use.get(id(parameter)) is parameter:
            raise EngineError(
                f"its weights {name!r} are in use already, by another task or an earlier run; make "
                "them when the network is built, or give the nn.Module itself as the model"
            )
    _in_use.update((id(parameter), parameter) for parameter in module.parameters())
