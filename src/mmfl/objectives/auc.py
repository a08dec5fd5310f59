"""AUC: the area under the receiver operating characteristic.

It is the share of pairs of a positive and a negative example in which the positive one has the
higher score; a tie is half a pair. That takes a ranking of all examples, which does not add up over
pieces. Counts of examples by score do: so scores are put into bins, one count for the positive and
one for the negative examples of each, and pairs within a bin count as ties. The value is off by at
most half the share of pairs that are within a bin.

A score is the log-odds of the positive class, which ranks like its probability. Bins are equally
wide in asinh(score): fine where most scores are, wide where probabilities are near 0 or 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, Strict

from mmfl.config import component
from mmfl.errors import InputError
from mmfl.objectives.base import Better, Floats, Values
from mmfl.objectives.losses import Loss
from mmfl.objectives.outputs import alike, count_answers, rows_per_class

if TYPE_CHECKING:
    from torch import Tensor

    from mmfl.data import Arrays

__all__ = ["Auc"]

_FAR = math.asinh(1e4)
"""Log-odds beyond 10,000 are in the outermost bins."""


@component
class Auc:
    """The area under the ROC curve: the chance that a positive example scores above a negative one.

    For two classes (the second is positive), for yes-or-no answers, and for more classes: then the
    mean over classes of each against all others. A blind guess has 0.5. A class that no example
    has, or all have, is left out; if none is left, the value is 0.5.

    Scores are log-odds. Two that differ by less than a bin, about 0.5% of 1 + their size with 4096
    bins, may count as equal.

    Attributes:
        bins: How many bins scores are counted in. An evaluation adds up 2 x `bins` numbers; for
            more than two classes or several answers, for each of them.
    """

    bins: Annotated[int, Strict(), Field(ge=2, le=65536)] = 4096

    better: ClassVar[Better] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """Counts of negative and of positive examples by bin of their scores."""
        import torch

        questions, classes = count_answers(data)
        if classes < 2:
            raise InputError("metric auc: it takes at least two classes, got 1")
        shape, bins = self.shape(data), self.bins
        step = 2 * _FAR / bins
        edges = torch.from_numpy(np.sinh(step * (np.arange(1, bins) - bins / 2)))
        offset = torch.arange(shape[0]) * 2

        def count(outputs: Tensor, targets: Tensor) -> Tensor:
            if data.classes is None:
                scores = alike(outputs, targets).reshape(-1, questions).cpu().double()
                positive = (targets > 0.5).reshape(-1, questions).cpu()
            else:
                rows, labels = rows_per_class(outputs, targets, classes)
                scores = _log_odds(rows.cpu().double())
                positive = labels.cpu().unsqueeze(1) == torch.arange(classes)
                positive = positive[:, 1:] if classes == 2 else positive
            if scores.isnan().any():
                return torch.full(shape, math.nan)
            places = (offset + positive.long()) * bins + torch.bucketize(scores, edges)
            counts = torch.bincount(places.flatten(), minlength=math.prod(shape))
            return counts.reshape(shape).double() * (len(targets) / len(scores))

        return count

    def shape(self, data: Arrays) -> tuple[int, ...]:
        """(questions or classes, negative and positive, bins)."""
        questions, classes = count_answers(data)
        return (questions if classes == 2 else classes, 2, self.bins)

    def value(self, sums: Floats, examples: int) -> float:
        """The mean over questions or classes that have a pair; NaN if a score was NaN."""
        if not np.isfinite(sums).all():
            return math.nan
        negative, positive = sums[:, 0], sums[:, 1]
        below = np.cumsum(negative, axis=1) - negative / 2
        pairs = positive.sum(axis=1) * negative.sum(axis=1)
        known = pairs > 0
        if not known.any():
            return 0.5
        return float(((positive * below).sum(axis=1)[known] / pairs[known]).mean())

    def possible(self, sums: Floats, examples: int) -> bool:
        """Every example is counted once."""
        total = sums.sum(axis=(1, 2))
        return bool((sums >= 0).all() and np.allclose(total, examples, rtol=1e-6, atol=0))


def _log_odds(logits: Tensor) -> Tensor:
    """(n, C) log(p / (1 - p)) of each class; (n, 1) of the second one, if there are two."""
    if logits.shape[1] == 2:
        return logits[:, 1:] - logits[:, :1]
    log_p = logits.log_softmax(dim=1)
    odds = log_p - (-log_p.expm1()).log()
    # Where p is close to 1, 1 - p has no digits left: there it is the sum over the other classes.
    top = logits.argmax(dim=1, keepdim=True)
    others = logits.scatter(1, top, -math.inf).logsumexp(dim=1, keepdim=True)
    return odds.scatter(1, top, logits.gather(1, top) - others)
