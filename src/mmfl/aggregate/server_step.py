"""What aggregators share that take the mean update for a gradient: the mean, and the step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.aggregate.collected import apply_step
from mmfl.exchange import Params, PartialSum

__all__ = ["Decay", "adaptive_step", "compute_mean_step"]

Decay = Annotated[float, Strict(), Field(ge=0, lt=1)]
"""The share of an average that is kept from round to round."""

Doubles = npt.NDArray[np.float64]


def compute_mean_step(updates: Iterable[PartialSum]) -> Doubles | None:
    """The mean of the changes, weighted by data size; None without updates."""
    total, examples = None, 0
    for part in updates:
        if total is None:
            total = part.take()
        else:
            total += part.total
            part.release()
        examples += part.examples
    return None if total is None or not examples else np.asarray(total / examples)


def adaptive_step(
    params: Params, first: Doubles, second: Doubles, *, lr: float, tau: float
) -> tuple[Params, Any]:
    """W + lr m / (sqrt(v) + tau), and the state (m, v)."""
    step = lr * first / (np.sqrt(second) + tau)
    return apply_step(params, step), {"m": first, "v": second}
