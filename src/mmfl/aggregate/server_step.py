"""What aggregators that treat the mean update as a gradient share: the mean, and Adam's step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.aggregate.base import add_up
from mmfl.aggregate.collected import apply_step
from mmfl.exchange import Params, PartialSum

__all__ = ["Decay", "adapt", "compute_mean_step"]

Doubles = npt.NDArray[np.float64]

Decay = Annotated[float, Strict(), Field(ge=0, lt=1)]
"""The share of an average that is kept from round to round."""


def compute_mean_step(updates: Iterable[PartialSum]) -> Doubles | None:
    """The mean of the changes, weighted by data size; None without updates."""
    total, examples = add_up(updates)
    return None if total is None or not examples else np.asarray(total / examples)


def adapt(
    params: Params,
    updates: Iterable[PartialSum],
    state: Any,
    average: Callable[[Doubles, Doubles], Doubles],
    *,
    lr: float,
    beta1: float,
    tau: float,
) -> tuple[Params, Any]:
    """Algorithm 2 of Reddi et al.: w + lr m / (sqrt(v) + tau), and the state (m, v).

    Args:
        params: w.
        updates: The round's.
        state: m and v, or None before the first update.
        average: From v and the square of the mean update to the new v.
        lr: The server's learning rate.
        beta1: How much of m is kept.
        tau: The least that a step is divided by.
    """
    mean = compute_mean_step(updates)
    if mean is None:
        return Params(params.layout, params.flat.copy()), state
    old = state or {"m": np.zeros(len(mean)), "v": np.full(len(mean), tau**2)}
    first = beta1 * np.asarray(old["m"]) + (1.0 - beta1) * mean
    second = average(np.asarray(old["v"]), np.square(mean))
    step = lr * first / (np.sqrt(second) + tau)
    return apply_step(params, step, mean), {"m": first, "v": second}
