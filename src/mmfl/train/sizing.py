"""How large a model is, before it is built: on torch's "meta" device tensors have no memory."""

from __future__ import annotations

import math

import torch
from torch import nn

from mmfl.data import Arrays
from mmfl.experiment import ModelSize, Task
from mmfl.train.seeding import isolate_torch

__all__ = ["weigh"]

Shape = tuple[int, ...]


def weigh(task: Task, data: Arrays, kernel: str) -> ModelSize:
    """What a task's network takes; it raises whatever the network raises when it is built.

    Args:
        task: Its model is one of mmfl's own: a user's might keep what it makes here.
        data: What it is for.
        kernel: How its turns are computed.
    """
    with isolate_torch(), torch.device("meta"):
        module = task.model.build(data.shape, data.outputs)
    weights = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    answers = data.outputs**2 if kernel == "batched" else 0
    return ModelSize(weights, *_activations(module, data.shape), answers)


def _activations(module: nn.Module, shape: Shape) -> tuple[int, int]:
    """Numbers per example: what the largest layer reads and writes, and what training must keep.

    A dense layer or a convolution keeps what it has read for the gradient of its weights. Shapes
    are followed up to the first layer that is not known here, so that this is a bound from below.
    (Letting torch do it with tensors that have no memory costs 1.5 s: it imports its compiler.)
    """
    largest = kept = 0
    for layer in module.children() if isinstance(module, nn.Sequential) else ():
        after = _after(layer, shape)
        if after is None:
            break
        largest = max(largest, math.prod(shape) + math.prod(after))
        kept += math.prod(shape) if isinstance(layer, nn.Linear | nn.Conv2d) else 0
        shape = after
    return largest, kept


def _after(layer: nn.Module, shape: Shape) -> Shape | None:
    """The shape of what a layer makes of an example of this shape; None where it is not known."""
    match layer:
        case nn.Linear():
            return (layer.out_features,)
        case nn.Conv2d(padding=(int(), int()) as border):
            sides = zip(shape[1:], layer.kernel_size, layer.stride, border, strict=True)
            return (layer.out_channels, *((n + 2 * p - k) // s + 1 for n, k, s, p in sides))
        case nn.MaxPool2d(kernel_size=int(side)):
            return (shape[0], *(n // side for n in shape[1:]))
        case nn.Flatten():
            return (math.prod(shape),)
        case nn.ReLU() | nn.Dropout():
            return shape
    return None
