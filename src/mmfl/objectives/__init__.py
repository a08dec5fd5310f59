"""What a task minimises and what it is judged by; `LOSSES` and `METRICS` are the families' tables.

Both are described without torch, which is imported when they are computed.
"""

from mmfl.objectives.losses import (
    LOSSES,
    BinaryCrossEntropy,
    CrossEntropy,
    Huber,
    Loss,
    MeanAbsoluteError,
    MeanSquaredError,
    OwnLoss,
)
from mmfl.objectives.metrics import (
    METRICS,
    AbsoluteError,
    Accuracy,
    Better,
    BinaryAccuracy,
    Explained,
    LossItself,
    Metric,
    OwnMetric,
    SquaredError,
    TopK,
)

__all__ = [
    "LOSSES",
    "METRICS",
    "AbsoluteError",
    "Accuracy",
    "Better",
    "BinaryAccuracy",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Explained",
    "Huber",
    "Loss",
    "LossItself",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "OwnLoss",
    "OwnMetric",
    "SquaredError",
    "TopK",
]
