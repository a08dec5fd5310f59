"""Logistic regression, and linear regression where targets are real numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mmfl.config import component

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Logistic"]


@component
class Logistic:
    """One dense layer, for examples of any shape.

    With the loss "cross_entropy" this is multinomial logistic regression, with "mse" linear
    regression. `local.weight_decay` is its L2 penalty.
    """

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flatten, then one output per class."""
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))
