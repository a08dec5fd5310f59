"""Metrics: what a task is judged by. `METRICS` is the family's table.

A metric gives one number per example, so that pieces and clients add up to a mean over examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from mmfl.config import Count, Family, OwnFunction, component, problem, short
from mmfl.errors import InputError
from mmfl.objectives.losses import Loss, check_one_number_each

if TYPE_CHECKING:
    from torch import Tensor

    from mmfl.data import Arrays

__all__ = [
    "METRICS",
    "AbsoluteError",
    "Accuracy",
    "Better",
    "BinaryAccuracy",
    "Explained",
    "LossItself",
    "Metric",
    "OwnMetric",
    "SquaredError",
    "TopK",
    "best_value",
]

Better = Literal["higher", "lower"]
Values = Callable[["Tensor", "Tensor"], "Tensor"]
_LEAST, _MOST = -math.inf, math.inf


class Metric(Protocol):
    """How good a model is.

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


@component
class Accuracy:
    """The share of examples whose right class has the largest output."""

    better: ClassVar[Better] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """1 for a hit, 0 for a miss."""
        return lambda outputs, targets: _each(
            (_per_class(outputs, targets).argmax(1) == targets).float()
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
        return lambda outputs, targets: _each(
            (_per_class(outputs, targets).topk(k, dim=1).indices == targets.unsqueeze(1))
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
        return lambda outputs, targets: _each(
            ((_alike(outputs, targets) > 0) == (targets > 0.5)).float()
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
            1.0 - _each((_alike(outputs, targets) - targets).square()) / spread
        )


@component
class AbsoluteError:
    """The mean absolute error."""

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, _MOST)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """|output - target|."""
        return lambda outputs, targets: _each((_alike(outputs, targets) - targets).abs())


@component
class SquaredError:
    """The mean squared error."""

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, _MOST)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """(output - target)^2."""
        return lambda outputs, targets: _each((_alike(outputs, targets) - targets).square())


@component
class LossItself:
    """The task's own loss."""

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (_LEAST, _MOST)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """The batch's mean loss."""
        return loss.mean


@dataclass(frozen=True)
class OwnMetric:
    """A user's function: outputs, targets -> the batch's mean, or one number per example.

    Its options are the function's keywords, but `better` ("higher" or "lower") and `bounds` ([low,
    high] of an example's value), which are the metric's own.
    """

    function: OwnFunction

    def __post_init__(self) -> None:
        better = self.function.options.get("better", "higher")
        if better not in ("higher", "lower"):
            raise problem(f'must be "higher" or "lower", got {short(better)}', "better")
        low_high = self.function.options.get("bounds", [_LEAST, _MOST])
        numbers = isinstance(low_high, list | tuple) and [*map(type, low_high)]
        if not numbers or len(numbers) != 2 or not {*numbers} <= {int, float}:
            raise problem(f"must be two numbers, got {short(low_high)}", "bounds")
        if not low_high[0] < low_high[1]:
            raise problem(f"must be [low, high] with low < high, got {short(low_high)}", "bounds")

    @property
    def better(self) -> Better:
        """As the option says."""
        return "lower" if self.function.options.get("better") == "lower" else "higher"

    @property
    def bounds(self) -> tuple[float, float]:
        """As the option says."""
        low, high = self.function.options.get("bounds", (_LEAST, _MOST))
        return float(low), float(high)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """What it returns."""
        own = {k: v for k, v in self.function.options.items() if k not in ("better", "bounds")}
        call = OwnFunction(self.function.path, own)
        return lambda outputs, targets: check_one_number_each(
            call(outputs, targets), len(targets), call
        )


def best_value(metric: Metric) -> float:
    """The best value that a metric can have."""
    low, high = metric.bounds
    return high if metric.better == "higher" else low


def _alike(outputs: Tensor, targets: Tensor) -> Tensor:
    """The outputs, if they have the targets' shape; others would be broadcast to some result."""
    if outputs.shape != targets.shape:
        raise InputError(
            "this metric needs outputs of the targets' shape, "
            f"got {tuple(outputs.shape)} for {tuple(targets.shape)}"
        )
    return outputs


def _per_class(outputs: Tensor, targets: Tensor) -> Tensor:
    """The outputs, if there is one per class for each class number."""
    if outputs.ndim < 2 or outputs.shape[:1] + outputs.shape[2:] != targets.shape:
        raise InputError(
            "this metric needs one output per class for each class number, "
            f"got {tuple(outputs.shape)} for {tuple(targets.shape)}"
        )
    return outputs


def _each(values: Tensor) -> Tensor:
    """One number per example: the mean over whatever an example has several of."""
    return values.flatten(1).mean(1) if values.ndim > 1 else values


METRICS = Family(
    name="metric",
    table={
        "accuracy": Accuracy,
        "binary_accuracy": BinaryAccuracy,
        "loss": LossItself,
        "mae": AbsoluteError,
        "mse": SquaredError,
        "r2": Explained,
        "top_k": TopK,
    },
    needs=("on", "better", "bounds"),
    function=OwnMetric,
)
