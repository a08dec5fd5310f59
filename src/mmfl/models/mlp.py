"""A multi-layer perceptron."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, Strict

from mmfl.config import Count, component

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Mlp"]


@component
class Mlp:
    """Dense layers with ReLU between them, for examples of any shape.

    Attributes:
        hidden: Widths of the hidden layers.
        dropout: Share of a hidden layer's units that a training step leaves out.
    """

    hidden: Annotated[tuple[Count, ...], Field(max_length=1000)] = (64,)
    dropout: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flatten, then the hidden layers, then one output per class."""
        from torch import nn

        layers: list[nn.Module] = [nn.Flatten()]
        width = math.prod(shape)
        for size in self.hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            layers += [nn.Dropout(self.dropout)] if self.dropout else []
            width = size
        return nn.Sequential(*layers, nn.Linear(width, outputs))
