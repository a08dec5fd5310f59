"""Perplexity: the exponential of the mean cross-entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mmfl.config import component
from mmfl.errors import InputError
from mmfl.objectives.base import Better, Floats, Values
from mmfl.objectives.losses import Loss
from mmfl.objectives.outputs import each, per_class

if TYPE_CHECKING:
    from mmfl.data import Arrays

__all__ = ["Perplexity"]


@component
class Perplexity:
    """The exponential of the mean cross-entropy: 1 is perfect, a blind guess has one per class.

    For class numbers, such as the next character or word. A loss's own label smoothing is left out.
    Its inverse is the geometric mean of the probabilities of the right classes, which is on the
    scale of an accuracy: so where more must be better (scores, the worst task), it counts as
    1 / perplexity.
    """

    better: ClassVar[Better] = "lower"
    bounds: ClassVar[tuple[float, float]] = (1.0, math.inf)
    merit_rule: ClassVar[str] = "1 / perplexity"

    def on(self, data: Arrays, loss: Loss) -> Values:
        """The sum over examples of the cross-entropy: an example's mean, if it is a sequence."""
        if data.classes is None:
            raise InputError("metric perplexity: its targets must be class numbers")

        def add_up(outputs: Any, targets: Any) -> Any:
            from torch.nn import functional

            per_class(outputs, targets)
            values = functional.cross_entropy(outputs, targets, reduction="none")
            return each(values).cpu().double().sum().reshape(1)

        return add_up

    def shape(self, data: Arrays) -> tuple[int, ...]:
        """One sum."""
        return (1,)

    def value(self, sums: Floats, examples: int) -> float:
        """exp(mean); inf where that is too large for a number."""
        try:
            return math.exp(sums[0] / examples)
        except OverflowError:
            return math.inf

    def possible(self, sums: Floats, examples: int) -> bool:
        """A cross-entropy is never below 0."""
        return bool(sums[0] >= 0)

    @staticmethod
    def merit(value: Any) -> Any:
        """1 / perplexity; of a number or an array."""
        return 1.0 / np.maximum(value, 1.0)
