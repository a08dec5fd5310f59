"""A metric of a whole split, measured in pieces as an evaluation does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mmfl.data import Arrays
from mmfl.objectives import (
    LOSSES,
    METRICS,
    Metric,
    compute_value,
    find_sums_shape,
    is_pooled,
    read_sums,
)

__all__ = ["data_of", "measure", "sums_of"]


def data_of(y: Any, classes: int | None = None) -> Arrays:
    """Data whose targets are these, for training and test."""
    y = np.asarray(y)
    x = np.zeros((len(y), 1), np.float32)
    parts = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    return Arrays.check("it", parts if classes is None else {**parts, "classes": classes})


def sums_of(
    metric: Metric,
    outputs: Any,
    targets: Any,
    data: Arrays,
    size: int = 10**6,
    loss: str = "cross_entropy",
) -> Any:
    """What pieces of that many examples add up to, in order."""
    outputs, targets = torch.as_tensor(np.asarray(outputs)), torch.as_tensor(np.asarray(targets))
    measured, shape = metric.on(data, LOSSES.parse(loss)), find_sums_shape(metric, data)
    total: Any = 0.0 if shape is None else np.zeros(shape)
    for start in range(0, len(targets), size):
        some = targets[start : start + size]
        found = measured(outputs[start : start + size], some)
        if shape is not None:
            total = total + read_sums(found, shape, metric)
        else:
            total += float(found.sum()) if found.ndim else float(found) * len(some)
    return total


def measure(
    kind: Any, outputs: Any, targets: Any, data: Arrays, size: int = 10**6, loss: str = "mse"
) -> float:
    """The metric's value, from pieces of that many examples."""
    metric = METRICS.parse(kind)
    total = sums_of(metric, outputs, targets, data, size, loss)
    if is_pooled(metric):
        return compute_value(metric, total, len(targets))
    return float(total / len(targets))
