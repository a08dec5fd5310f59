"""Outputs and targets as metrics need them; what does not fit is one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from mmfl.data import Arrays

__all__ = ["alike", "count_answers", "each", "per_class", "rows_per_class"]


def alike(outputs: Tensor, targets: Tensor) -> Tensor:
    """The outputs, if they have the targets' shape; others would be broadcast to some result."""
    if outputs.shape != targets.shape:
        raise InputError(
            "this metric needs outputs of the targets' shape, "
            f"got {tuple(outputs.shape)} for {tuple(targets.shape)}"
        )
    return outputs


def per_class(outputs: Tensor, targets: Tensor) -> Tensor:
    """The outputs, if there is one per class for each class number."""
    if outputs.ndim < 2 or outputs.shape[:1] + outputs.shape[2:] != targets.shape:
        raise InputError(
            "this metric needs one output per class for each class number, "
            f"got {tuple(outputs.shape)} for {tuple(targets.shape)}"
        )
    return outputs


def each(values: Tensor) -> Tensor:
    """One number per example: the mean over whatever an example has several of."""
    return values.flatten(1).mean(1) if values.ndim > 1 else values


def rows_per_class(outputs: Tensor, targets: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """One row of outputs and one class number for each place of a sequence, or each example."""
    outputs = per_class(outputs, targets)
    if outputs.shape[1] != classes:
        raise InputError(
            f"this metric needs one output per class ({classes}), got {outputs.shape[1]}"
        )
    return outputs.movedim(1, -1).reshape(-1, classes), targets.reshape(-1)


def count_answers(data: Arrays) -> tuple[int, int]:
    """How many questions an example asks, and how many answers each has.

    Class numbers are one question with as many answers as there are classes. Real targets are yes
    or no questions: 1 and 0, or anything between.
    """
    if data.classes is not None:
        return 1, data.classes
    low = min(data.y_train.min(), data.y_test.min())
    high = max(data.y_train.max(), data.y_test.max())
    if low < 0 or high > 1:
        raise InputError(
            "this metric is for classes, or for answers from 0 to 1, but its targets go from "
            f"{low:g} to {high:g}"
        )
    return data.outputs, 2
