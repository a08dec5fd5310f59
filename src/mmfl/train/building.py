"""Build a network, ready to be trained."""

from __future__ import annotations

from itertools import chain
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mmfl.errors import EngineError
from mmfl.exchange import Shape
from mmfl.models import Model
from mmfl.rng import Stream
from mmfl.train.seeding import seed_torch

__all__ = ["build_network", "make_network"]

_in_use: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""Parameters of all networks of this process that were built and still exist, by their id."""


def build_network(model: Model, shape: Shape, outputs: int, rng: Stream) -> nn.Module:
    """A network with its first weights, which no other task has in use.

    Layers that find out the sizes of their weights themselves (``nn.LazyLinear``) are given a batch
    of zeros.

    Args:
        model: Its description.
        shape: Of an example.
        outputs: How many numbers it gives per example.
        rng: What first weights are drawn from.
    """
    module = make_network(model, shape, outputs, rng)
    _refuse_reuse(module)
    return module


def make_network(model: Model, shape: Shape, outputs: int, rng: Stream) -> nn.Module:
    """See `build_network`; the network may be one that is in use."""
    with seed_torch(rng, own_code=True):
        module = model.build(shape, outputs)
        if any(map(is_lazy, chain(module.parameters(), module.buffers()))):
            kind = torch.float32 if shape.vocabulary is None else torch.int64
            module.eval()
            with torch.no_grad():
                module(torch.zeros(2, *shape, dtype=kind))
    return module


def _refuse_reuse(module: nn.Module) -> None:
    """Refuse a network that was built before: it has been trained since."""
    for name, parameter in module.named_parameters():
        if _in_use.get(id(parameter)) is parameter:
            raise EngineError(
                f"its weights {name!r} are in use already, by another task or an earlier run; copy "
                "them (copy.deepcopy) or make them whenever the network is built, or give the "
                "nn.Module itself as the model"
            )
    _in_use.update((id(parameter), parameter) for parameter in module.parameters())
