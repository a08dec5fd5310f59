"""A network of torch's own layers as Python source, so that it can be built without mmfl."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mmfl.train.layers import has_known_layers

__all__ = ["read_state", "write_source"]

_LAYERS: tuple[type[nn.Module], ...] = (
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AvgPool1d, nn.AvgPool2d),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.Conv1d, nn.Conv2d, nn.Dropout, nn.Dropout2d),
    *(nn.ELU, nn.Flatten, nn.GELU, nn.GroupNorm, nn.Identity, nn.LayerNorm, nn.LeakyReLU),
    *(nn.Linear, nn.MaxPool1d, nn.MaxPool2d, nn.ReLU, nn.Sigmoid, nn.SiLU, nn.Softmax, nn.Tanh),
)
"""Layers whose ``repr`` is what builds them."""

_NOT_SHOWN = {"padding_mode": "zeros"}
"""Settings that ``repr`` leaves out if they have these values, or always."""


def write_source(network: nn.Module, indent: str = "") -> str | None:
    """What builds a network, with ``from torch import nn``; None if it has layers of its own."""
    if not has_known_layers(network):
        return None
    if type(network) is not nn.Sequential:
        return _write_layer(network)
    inner, parts = f"{indent}    ", []
    for number, (name, layer) in enumerate(network.named_children()):
        part = write_source(layer, inner)
        if part is None or name != str(number):
            return None
        parts.append(f"{inner}{part},\n")
    return f"nn.Sequential(\n{''.join(parts)}{indent})"


def _write_layer(layer: nn.Module) -> str | None:
    hidden = any(getattr(layer, key, usual) != usual for key, usual in _NOT_SHOWN.items())
    if type(layer) not in _LAYERS or hidden or any(True for _ in layer.children()):
        return None
    shown = repr(layer)
    return f"nn.{shown}" if "\n" not in shown else None


def read_state(network: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """All tensors of a network's state by name, as ``load_state_dict`` takes them."""
    state = {k: v.detach().cpu() for k, v in network.state_dict().items() if isinstance(v, Tensor)}
    return {name: np.array(tensor.numpy()) for name, tensor in state.items()}
