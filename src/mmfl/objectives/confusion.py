"""Metrics of the confusion matrix: F1, precision, recall, balanced accuracy, Matthews.

All are made of the same sums. For each class: the examples that have it and are found (hits), that
have it and are not found (missed), and that do not have it but are said to (false). The prediction
is the class with the largest output; an answer is a yes if its output is above 0. In a sequence
each place counts, and an example as much as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from mmfl.config import component
from mmfl.objectives.base import Better, Floats, Values
from mmfl.objectives.losses import Loss
from mmfl.objectives.outputs import alike, count_answers, rows_per_class

if TYPE_CHECKING:
    from torch import Tensor

    from mmfl.data import Arrays

__all__ = ["F1", "BalancedAccuracy", "Matthews", "Precision", "Recall"]

Average = Literal["auto", "macro"]


class _Counts:
    """The sums; the metrics differ in what they make of them."""

    better: ClassVar[Better] = "higher"

    def on(self, data: Arrays, loss: Loss) -> Values:
        """Hits, missed and false of each class."""
        import torch

        questions, classes = count_answers(data)
        shape = self.shape(data)

        def count(outputs: Tensor, targets: Tensor) -> Tensor:
            if data.classes is None:
                said = (alike(outputs, targets) > 0).reshape(-1, questions).long()
                true = (targets > 0.5).reshape(-1, questions).long()
            else:
                rows, labels = rows_per_class(outputs, targets, classes)
                said, true = rows.argmax(1).unsqueeze(1), labels.unsqueeze(1)
            first = torch.arange(questions, device=said.device) * classes
            found, has = (
                torch.bincount((first + answers).flatten(), minlength=questions * classes)
                for answers in (said, true)
            )
            right = (first + true)[said == true]
            hits = torch.bincount(right, minlength=questions * classes)
            counts = torch.stack([hits, has - hits, found - hits], dim=1).cpu().double()
            return counts.reshape(shape) * (len(targets) / len(said))

        return count

    def shape(self, data: Arrays) -> tuple[int, ...]:
        """(questions, answers, 3)."""
        return (*count_answers(data), 3)

    def possible(self, sums: Floats, examples: int) -> bool:
        """Every example has a class, and is said to have one."""
        hits, missed, false = np.moveaxis(sums, -1, 0)
        had, given = (hits + missed).sum(axis=1), (hits + false).sum(axis=1)
        close = (np.allclose(total, examples, rtol=1e-6, atol=0) for total in (had, given))
        return bool((sums >= 0).all() and all(close))


class _Averaged(_Counts):
    """A share of each class, and the mean of these."""

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    average: Average

    def value(self, sums: Floats, examples: int) -> float:
        """The second class's, or the mean over the classes that examples have or are said to."""
        shares = _divide(*self._parts(*np.moveaxis(sums, -1, 0)))
        if sums.shape[1] == 2 and self.average == "auto":
            return float(shares[:, 1].mean())
        seen = sums.sum(axis=-1) > 0
        return float(_divide((shares * seen).sum(axis=1), seen.sum(axis=1)).mean())

    def _parts(self, hits: Floats, missed: Floats, false: Floats) -> tuple[Floats, Floats]:
        """What is divided by what."""
        raise NotImplementedError


@component
class F1(_Averaged):
    """The harmonic mean of precision and recall: 2 hits / (2 hits + missed + false).

    A class without an example, a hit or a false alarm has 0 by itself, and is left out of a mean
    over classes.

    Attributes:
        average: "auto": with two classes, F1 of the second one; with yes-or-no answers, F1 of yes,
            as a mean over the questions if there are several; with more classes, the mean over
            them. "macro": the mean over classes, or yes and no, also if there are two.
    """

    average: Average = "auto"

    def _parts(self, hits: Floats, missed: Floats, false: Floats) -> tuple[Floats, Floats]:
        return 2 * hits, 2 * hits + missed + false


@component
class Precision(_Averaged):
    """The share of a class's predictions that are right; 0 if it was never predicted.

    Attributes:
        average: As in `f1`.
    """

    average: Average = "auto"

    def _parts(self, hits: Floats, missed: Floats, false: Floats) -> tuple[Floats, Floats]:
        return hits, hits + false


@component
class Recall(_Averaged):
    """The share of a class's examples that are found; 0 if it has no example.

    Attributes:
        average: As in `f1`.
    """

    average: Average = "auto"

    def _parts(self, hits: Floats, missed: Floats, false: Floats) -> tuple[Floats, Floats]:
        return hits, hits + missed


@component
class BalancedAccuracy(_Counts):
    """The mean over classes of the share of examples that are found: rare classes count as others.

    A class without an example is left out. A blind guess has 1 / classes.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def value(self, sums: Floats, examples: int) -> float:
        """The mean; over questions, too, if examples have several."""
        hits, missed, _ = np.moveaxis(sums, -1, 0)
        has = hits + missed
        return float(_divide(_divide(hits, has).sum(axis=1), (has > 0).sum(axis=1)).mean())


@component
class Matthews(_Counts):
    """Matthews' correlation of predictions and classes: 1 is perfect, a blind guess has 0.

    It is 0 if all examples have the same class, or all predictions are the same.
    """

    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def value(self, sums: Floats, examples: int) -> float:
        """For any number of classes (Gorodkin 2004); the mean over questions, if there are some."""
        hits, missed, false = np.moveaxis(sums, -1, 0)
        total = (hits + missed).sum(axis=1)
        has, given = ((hits + more) / total[:, None] for more in (missed, false))
        right = hits.sum(axis=1) / total
        spread = [1.0 - np.square(share).sum(axis=1) for share in (has, given)]
        scale = np.sqrt(np.prod([np.where(s > 1e-12, s, 0.0) for s in spread], axis=0))
        correlation = _divide(right - (has * given).sum(axis=1), scale)
        return float(np.clip(correlation, -1.0, 1.0).mean())


def _divide(part: Floats, whole: Floats) -> Floats:
    """The share; 0 of nothing."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=whole > 0)
