"""A convolutional network with two convolutions, two poolings and two dense layers.

The shape of the paper's network for MNIST, Fashion-MNIST and EMNIST, with ReLU between layers and
plain logits. `published_cnn` is the network of the authors' code, which has neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, Strict

from mmfl.config import Count, component, short
from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Cnn", "two_counts"]


def two_counts(value: Any) -> Any:
    """A pair, or a sentence that says so."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"must be two whole numbers, got {short(value)}")
    return value


@component
class Cnn:
    """conv, pool, conv, pool, dense, dense.

    Attributes:
        channels: Output channels of the two convolutions.
        kernel: Size of their kernels, an odd number; padding keeps the image's size.
        dense: Width of the first dense layer.
        dropout: Share of units that dropout leaves out before the last layer.
    """

    channels: Annotated[tuple[Count, Count], BeforeValidator(two_counts)] = (32, 64)
    kernel: Annotated[Count, Field(json_schema_extra={"not": {"multipleOf": 2}})] = 3
    dense: Count = 256
    dropout: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {self.kernel}")

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """For images of at least 4 x 4 pixels."""
        from torch import nn

        if len(shape) != 3 or min(shape[1:]) < 4:
            raise InputError(f"a cnn needs images of at least 4 x 4 pixels, got examples {shape}")
        depth, height, width = shape
        first, second = self.channels
        same = self.kernel // 2
        # ReLU after pooling: the same numbers and gradients, to the bit, for a quarter of the work.
        return nn.Sequential(
            nn.Conv2d(depth, first, self.kernel, padding=same),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(first, second, self.kernel, padding=same),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * (height // 4) * (width // 4), self.dense),
            nn.ReLU(),
            *([nn.Dropout(self.dropout)] if self.dropout else []),
            nn.Linear(self.dense, outputs),
        )
