"""Losses: what local training minimises. `LOSSES` is the family's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field, Strict

from mmfl.config import Family, OwnFunction, Positive, component, is_module, problem
from mmfl.objectives.returned import check_one_number_each

if TYPE_CHECKING:
    from torch import Tensor

    from mmfl.data import Arrays

__all__ = [
    "LOSSES",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Huber",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "OwnLoss",
    "find_misfit",
]

Targets = Literal["classes", "real", "any"]


class Loss(Protocol):
    """The mean loss of a batch.

    Attributes:
        targets: What it is for: class numbers, real numbers, or any.
        metric: The kind of metric that a task with this loss is judged by, unless it says.
    """

    targets: ClassVar[Targets]
    metric: ClassVar[str]

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """A number with a gradient; outputs are float32, one row per example."""
        ...


@component
class CrossEntropy:
    """For class numbers: the model's outputs are logits, one per class.

    Attributes:
        label_smoothing: Share of the probability that the targets spread evenly over all classes.
    """

    label_smoothing: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0

    targets: ClassVar[Targets] = "classes"
    metric: ClassVar[str] = "accuracy"

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """- log of the probability that the model gives to the right class."""
        from torch.nn import functional

        smoothing = self.label_smoothing
        return functional.cross_entropy(outputs, targets, label_smoothing=smoothing)


@component
class BinaryCrossEntropy:
    """For several yes-or-no questions per example: targets are 0.0 or 1.0, outputs are logits."""

    targets: ClassVar[Targets] = "real"
    metric: ClassVar[str] = "binary_accuracy"

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the questions."""
        from torch.nn import functional

        return functional.binary_cross_entropy_with_logits(outputs, targets)


@component
class MeanSquaredError:
    """Mean squared error, for real numbers."""

    targets: ClassVar[Targets] = "real"
    metric: ClassVar[str] = "r2"

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of (output - target)^2."""
        from torch.nn import functional

        return functional.mse_loss(outputs, targets)


@component
class MeanAbsoluteError:
    """Mean absolute error, for real numbers with outliers."""

    targets: ClassVar[Targets] = "real"
    metric: ClassVar[str] = "r2"

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of |output - target|."""
        from torch.nn import functional

        return functional.l1_loss(outputs, targets)


@component
class Huber:
    """Squared near the target, linear beyond `delta`.

    Attributes:
        delta: The distance from the target at which the loss becomes linear.
    """

    delta: Positive = 1.0

    targets: ClassVar[Targets] = "real"
    metric: ClassVar[str] = "r2"

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Huber's loss."""
        from torch.nn import functional

        return functional.huber_loss(outputs, targets, delta=self.delta)


@dataclass(frozen=True)
class OwnLoss:
    """A user's function: outputs, targets -> the batch's mean, or one number per example.

    An ``nn.Module``, such as ``nn.CrossEntropyLoss()``, is one, too.
    """

    function: OwnFunction

    targets: ClassVar[Targets] = "any"
    metric: ClassVar[str] = "loss"

    def __post_init__(self) -> None:
        found: Any = self.function.find()
        if is_module(found) and any(True for _ in found.parameters()):
            raise problem(f"{self.function.name!r} has weights, which would not be trained")

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What it returns, or the mean of that."""
        return check_one_number_each(
            self.function(outputs, targets), len(targets), self.function
        ).mean()


def find_misfit(loss: Loss, data: Arrays) -> str | None:
    """Why a loss cannot be computed on a data set's targets; None if it can."""
    classes = data.classes is not None
    if isinstance(loss, BinaryCrossEntropy):
        if classes:
            return "binary_cross_entropy is for answers 0.0 or 1.0, but its targets are integers"
        answers = data.y_train, data.y_test
        low, high = min(map(np.min, answers)), max(map(np.max, answers))
        if low < 0 or high > 1:
            return (
                "binary_cross_entropy is for answers from 0 to 1, but its targets go from "
                f"{low:g} to {high:g}"
            )
    if loss.targets == "any" or (loss.targets == "classes") == classes:
        return None
    if classes:
        return (
            "its loss is for real numbers, but its targets are class numbers; set e.g. "
            'loss = "cross_entropy", or give its targets as real numbers'
        )
    whole = "" if (data.y_train % 1).any() else ", or give its targets as whole numbers"
    if whole and data.y_train.ndim > 1 and (data.y_train.sum(-1) == 1).all():
        whole += " (of one-hot targets, y.argmax(1))"
    return (
        "its loss is for class numbers, but its targets are real numbers; set e.g. "
        f'loss = "mse"{whole}'
    )


LOSSES = Family(
    name="loss",
    table={
        "binary_cross_entropy": BinaryCrossEntropy,
        "cross_entropy": CrossEntropy,
        "huber": Huber,
        "mae": MeanAbsoluteError,
        "mse": MeanSquaredError,
    },
    needs=("mean", "metric", "targets"),
    function=OwnLoss,
    accepts=is_module,
    own="a loss is a function of outputs and targets, or an nn.Module such as "
    "nn.CrossEntropyLoss() (docs/how-to/write-a-loss.md)",
)
