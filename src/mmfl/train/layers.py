"""Whose code a network runs: torch's and mmfl's layers are known, a user's own may do anything."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["has_known_layers", "supports_channels_last"]

_KNOWN = ("torch.nn.modules.", "mmfl.models.")
_OWN = ("forward", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""What a user can give a single layer of torch's: a method in place of its own, or hooks."""


def has_known_layers(module: nn.Module) -> bool:
    """Whether torch's and mmfl's layers are all that a network consists of.

    Such layers keep nothing from one forward pass to the next but what is in their buffers, and
    take images in any layout.
    """
    return all(
        type(layer).__module__.startswith(_KNOWN) and not any(map(vars(layer).get, _OWN))
        for layer in module.modules()
    )


def supports_channels_last(module: nn.Module) -> bool:
    """Whether a network can be trained on images that lie channels last.

    A user's own `forward` may use ``view``, which needs the usual layout. So it gets channels last
    only if the network was made with ``.to(memory_format=torch.channels_last)``.

    With strided 1 x 1 convolutions of fewer than 8 channels no network can: their weight gradient
    writes beyond its memory (torch 2.13, oneDNN, processors with AVX2; found with `preact_resnet`
    of width 4, whose processes died of "corrupted size vs. prev_size").
    """
    if not has_known_layers(module) and not any(map(_is_channels_last, module.parameters())):
        return False
    return not any(
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size == (1, 1)
        and max(layer.stride) > 1
        and layer.in_channels // layer.groups < 8
        for layer in module.modules()
    )


def _is_channels_last(weight: torch.Tensor) -> bool:
    last = weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last)
    return last and not weight.is_contiguous()
