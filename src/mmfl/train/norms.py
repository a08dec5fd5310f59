"""Normalization over a batch, which cannot be computed for a batch of one example."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mmfl.errors import text_of
from mmfl.rng import stream
from mmfl.system.user_code import pass_on
from mmfl.train.seeding import seed_torch

__all__ = ["find_least_batch", "hint_at_batch_of_one", "is_batch_of_one"]

_NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm)


def find_least_batch(module: nn.Module, one: Callable[[], Tensor]) -> int:
    """How many examples a training step of a network needs: 2 if its norms cannot take one.

    Batch norm can take one if each channel still has several values, as in an image. Whether it has
    is found by giving the network one example.

    Args:
        module: The network; its running statistics are changed.
        one: Makes a batch of one example.
    """
    if not any(isinstance(layer, _NORMS) for layer in module.modules()):
        return 1
    module.train()
    try:
        with torch.no_grad(), seed_torch(stream(0, "try"), own_code=True):
            module(one())
    except BaseException as error:  # it will be reported when the network is trained
        pass_on(error)
        return 2 if is_batch_of_one(error) else 1
    return 1


def is_batch_of_one(error: BaseException) -> bool:
    """Whether torch refused to normalize a batch of one example."""
    return "more than 1 value per channel when training" in text_of(error)


def hint_at_batch_of_one(error: BaseException, batch_size: int, examples: int) -> str:
    """What helps a client whose training raised this, if that is known.

    Args:
        error: What was raised.
        batch_size: `local.batch_size`.
        examples: How many examples the client has.
    """
    if not is_batch_of_one(error):
        return ""
    needs = "; normalization over a batch needs at least two examples"
    if batch_size == 1:
        return f"{needs}: set local.batch_size to 2 or more"
    if examples == 1:
        return f"{needs}, and this client has one"
    return '; a last batch of one example: set local.remainder = "drop"'
