"""Good updates, and lies about them: how much data, which losses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, Strict

from mmfl.config import Finite, NonNegative, component
from mmfl.exchange import ClientUpdate, Evaluation
from mmfl.rng import Stream

__all__ = ["AbsurdWeight", "FalseLoss"]


@component
class AbsurdWeight:
    """Claims to hold `examples` examples of the task, which is its weight in the mean.

    Attributes:
        examples: The number that the client claims.
    """

    examples: Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)] = 10**9

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """The update, with that claim."""
        return [dataclasses.replace(update, examples=self.examples)]


@component
class FalseLoss:
    """Reports false losses, for its turn and for a model that it evaluates on its own data.

    Attributes:
        factor: It reports its losses multiplied by this.
        value: It claims this loss instead; inf is refused.
        metric: In an evaluation it also claims this metric (a mean over its examples); by default
            the true one. If the metric is made of sums, such as F1, it claims this number times its
            examples for each of them.
    """

    factor: NonNegative = 10.0
    value: Annotated[float, Strict(), Field(ge=0)] | None = None
    metric: Finite | None = None

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """The update, with false losses before and after."""
        before, after = (self._claimed(loss) for loss in (update.loss_before, update.loss_after))
        return [dataclasses.replace(update, loss_before=before, loss_after=after)]

    def report(self, found: Evaluation) -> Evaluation:
        """The sums, with a false loss and, if so set, a false metric."""
        loss = self._claimed(found.loss, found.examples)
        if self.metric is None:
            return dataclasses.replace(found, loss=loss)
        claim, tally = self.metric * found.examples, found.tally
        if tally is None:
            return dataclasses.replace(found, loss=loss, metric=claim)
        return dataclasses.replace(found, loss=loss, tally=np.full(tally.shape, claim))

    def _claimed(self, loss: float, examples: int = 1) -> float:
        return self.factor * loss if self.value is None else self.value * examples
