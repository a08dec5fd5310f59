"""Metrics: the protocols. What a task is judged by is a mean over examples, or made of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from mmfl.data import Arrays
    from mmfl.objectives.losses import Loss

__all__ = ["Better", "Floats", "Metric", "PooledMetric", "Values"]

Better = Literal["higher", "lower"]
Values = Callable[["Tensor", "Tensor"], "Tensor"]
Floats = npt.NDArray[np.float64]


class Metric(Protocol):
    """How good a model is: a mean over examples, unless it is a `PooledMetric`.

    Attributes:
        better: Whether a "higher" or a "lower" value is.
        bounds: What an example's value lies between: a client that claims more is not believed.
    """

    @property
    def better(self) -> Better: ...  # noqa: D102

    @property
    def bounds(self) -> tuple[float, float]: ...  # noqa: D102

    def on(self, data: Arrays, loss: Loss) -> Values:
        """From a batch's outputs and targets to one value per example, or to the batch's mean."""
        ...


class PooledMetric(Metric, Protocol):
    """A metric that is no mean over examples, such as F1: it is made of sums over all of them.

    A batch gives an array of sums, always of the same shape. Those of all batches, and of all
    pieces or clients, are added up in a fixed order, and the total becomes the metric's value. For
    such a metric, `bounds` are those of the value.

    It may also have ``possible(sums, examples)``: whether an honest client with so many examples
    can have these sums. What a client claims is refused if it says no.
    """

    def on(self, data: Arrays, loss: Loss) -> Values:
        """From a batch's outputs and targets to its sums."""
        ...

    def shape(self, data: Arrays) -> tuple[int, ...]:
        """The shape of the sums; this must not need torch."""
        ...

    def value(self, sums: Any, examples: int) -> float:
        """From the sums over so many examples to the metric; this must not need torch."""
        ...
