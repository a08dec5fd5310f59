"""Metrics of sums (`PooledMetric`): their sums, checked, and what becomes of them.

Such a metric may be the user's, so whatever it gives is looked at before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from mmfl.config import short
from mmfl.errors import InputError
from mmfl.objectives.base import Floats, Metric, PooledMetric
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import describe_part

if TYPE_CHECKING:
    from mmfl.data import Arrays

__all__ = ["are_possible", "compute_value", "find_sums_shape", "is_pooled", "read_sums"]


def is_pooled(metric: Metric) -> TypeGuard[PooledMetric]:
    """Whether a metric is made of sums; else it is a mean over examples."""
    return callable(getattr(metric, "value", None))


def find_sums_shape(metric: Metric, data: Arrays) -> tuple[int, ...] | None:
    """The shape of a metric's sums; None if it is a mean over examples."""
    if not is_pooled(metric):
        return None
    if not callable(getattr(metric, "shape", None)):
        raise InputError(
            f"the metric {describe_part(metric)} has value(sums, examples), so it also needs "
            f"shape(data), the shape of its sums{describe_place(metric)}"
        )
    found = metric.shape(data)
    whole = isinstance(found, tuple) and all(isinstance(n, int | np.integer) for n in found)
    if not whole or not found or min(found) < 1:
        raise InputError(
            f"shape of the metric {describe_part(metric)} must return a tuple of whole numbers "
            f">= 1, got {short(found)}{describe_place(metric)}"
        )
    return tuple(map(int, found))


def read_sums(values: Any, shape: tuple[int, ...], metric: object) -> Floats:
    """The sums that a metric has made of a batch, in float64."""
    from torch import Tensor

    if not isinstance(values, Tensor) or tuple(values.shape) != shape:
        got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else short(values)
        raise InputError(
            f"the metric {describe_part(metric)} must make of a batch a tensor of its sums, of "
            f"shape {shape}, got {got}{describe_place(metric)}"
        )
    sums: Floats = values.detach().cpu().double().numpy()
    return sums


def compute_value(metric: Any, sums: Floats, examples: int) -> float:
    """The metric's value."""
    sums.flags.writeable = False
    value = metric.value(sums, examples)
    try:
        return float(value)
    except (TypeError, ValueError):
        who = f"value of the metric {describe_part(metric)}"
        raise InputError(
            f"{who} must return a number, got {short(value)}{describe_place(metric)}"
        ) from None


def are_possible(metric: Any, sums: Any, shape: tuple[int, ...], examples: int) -> bool:
    """Whether sums that a client claims may be true."""
    if not isinstance(sums, np.ndarray) or sums.shape != shape or sums.dtype != np.float64:
        return False
    if not np.isfinite(sums).all():
        return False
    check = getattr(metric, "possible", None)
    with np.errstate(all="ignore"):  # of absurd numbers
        return not callable(check) or bool(check(sums, examples))
