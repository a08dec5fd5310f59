"""The network for MNIST, Fashion-MNIST and EMNIST as the paper's authors published it.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning"; their code has no
non-linearity between layers but the pooling, and ends in ReLU and softmax. Its cross-entropy
applies softmax a second time, so the loss of K classes cannot fall below ln(e + K - 1) - 1: 1.46
for 10 classes, 2.89 for 47. A class whose output is negative for all examples gets no gradient, and
is not learnt. `cnn` is the same network with ReLU between layers and plain logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from mmfl.config import Count, component
from mmfl.errors import InputError
from mmfl.models.cnn import two_counts

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PublishedCnn"]


@component
class PublishedCnn:
    """conv, pool, conv, pool, dense, dense, ReLU, softmax: the paper's, with its double softmax.

    Use it to reproduce the paper. It learns more slowly than `cnn`, and the more classes there are,
    the slower.

    Attributes:
        channels: Output channels of the two 3 x 3 convolutions.
        dense: Width of the first dense layer.
    """

    channels: Annotated[tuple[Count, Count], BeforeValidator(two_counts)] = (32, 64)
    dense: Count = 512

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """For images of at least 4 x 4 pixels."""
        from torch import nn

        if len(shape) != 3 or min(shape[1:]) < 4:
            raise InputError(
                f"a published_cnn needs images of at least 4 x 4 pixels, got examples {shape}"
            )
        depth, height, width = shape
        first, second = self.channels
        return nn.Sequential(
            nn.Conv2d(depth, first, 3, padding=1),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, 3, padding=1),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * (height // 4) * (width // 4), self.dense),
            nn.Linear(self.dense, outputs),
            nn.ReLU(),
            nn.Softmax(dim=1),
        )
