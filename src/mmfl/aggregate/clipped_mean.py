"""The mean of updates that are clipped to a maximum length (Sun et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.aggregate.checks import norm_of
from mmfl.aggregate.collected import apply_step, deltas_of
from mmfl.config import Positive, component
from mmfl.exchange import ClientUpdate, Params

__all__ = ["ClippedMean"]


@component
class ClippedMean:
    """The mean of the updates, weighted by data size, with long updates clipped to a common norm.

    One client can then move the weights by no more than its share of the examples times the limit.

    Attributes:
        norm: The limit; by default the median norm of the task's updates in the round.
    """

    norm: Positive | None = None

    mergeable: ClassVar[Literal[False]] = False

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights."""
        given = list(updates)
        deltas = deltas_of(given)
        norms = [norm_of(delta) for delta in deltas]
        limit = self.norm if self.norm is not None else float(np.median(norms or [0.0]))
        step, examples = np.zeros(params.layout.size), sum(update.examples for update in given)
        for update, delta, norm in zip(given, deltas, norms, strict=True):
            shorter = min(1.0, limit / norm) if norm else 1.0
            step += delta * (shorter * update.examples / examples)
        return apply_step(params, step), state
