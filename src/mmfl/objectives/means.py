"""Metrics that are a mean over examples: each example has a value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from mmfl.config import Count, component
from mmfl.errors import InputError
from mmfl.objectives.base import Better, Values
from mmfl.objectives.losses import Loss
from mmfl.objectives.outputs import alike, each, per_class

if TYPE_CHECKING:
    from mmfl.data import Arrays

__all__ = [
    "AbsoluteError",
    "Accuracy",
    "BinaryAccuracy",
    "Explained",
    "LossItself",
    "SquaredError",
    "TopK",
]

_LEAST, _MOST = -math.inf, math.inf


@component
class Accuracy:
    """The share of examples whose right class has the largest output."""

    better: ClassVar[Better] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """1 for a hit, 0 for a miss."""
        return lambda outputs, targets: each(
            (per_class(outputs, targets).argmax(1) == targets).float()
        )


@component
class TopK:
    """The share of examples whose right class is among the `k` largest outputs.

    Attributes:
        k: How many of the largest outputs count.
    """

    k: Count = 5

    better: ClassVar[Better] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """1 for a hit, 0 for a miss."""
        k = self.k
        if k >= data.outputs:
            raise InputError(f"metric top_k: k must be below the {data.outputs} classes, got {k}")
        return lambda outputs, targets: each(
            (per_class(outputs, targets).topk(k, dim=1).indices == targets.unsqueeze(1))
            .any(dim=1)
            .float()
        )


@component
class BinaryAccuracy:
    """The share of right answers to yes-or-no questions (an output above 0 is a yes)."""

    better: ClassVar[Better] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """An example's share."""
        return lambda outputs, targets: each(
            ((alike(outputs, targets) > 0) == (targets > 0.5)).float()
        )


@component
class Explained:
    """R^2: 1 - squared error / variance of the training targets; guessing their mean gives 0.

    It is on the scale of an accuracy, so that regression can share a pool with classification.
    """

    better: ClassVar[Better] = "higher"
    bounds: ClassVar[tuple[float, float]] = (_LEAST, 1.0)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """An example's part of it."""
        spread = float(data.y_train.astype("float64").var(axis=0).mean()) or 1.0
        return lambda outputs, targets: (
            1.0 - each((alike(outputs, targets) - targets).square()) / spread
        )


@component
class AbsoluteError:
    """The mean absolute error."""

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, _MOST)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """|output - target|."""
        return lambda outputs, targets: each((alike(outputs, targets) - targets).abs())


@component
class SquaredError:
    """The mean squared error."""

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, _MOST)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """(output - target)^2."""
        return lambda outputs, targets: each((alike(outputs, targets) - targets).square())


@component
class LossItself:
    """The task's own loss."""

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (_LEAST, _MOST)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """The batch's mean loss."""
        return loss.mean
