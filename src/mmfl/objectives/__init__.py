"""What a task minimises, what it is judged by, and how badly off that makes it.

`LOSSES`, `METRICS` and `SCORES` are the families' tables. All are described without torch, which is
imported when they are computed.
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
    find_misfit,
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
    best_value,
)
from mmfl.objectives.scores import (
    SCORES,
    Distance,
    Error,
    LossScore,
    Measured,
    RelativeLoss,
    Score,
)

__all__ = [
    "LOSSES",
    "METRICS",
    "SCORES",
    "AbsoluteError",
    "Accuracy",
    "Better",
    "BinaryAccuracy",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Distance",
    "Error",
    "Explained",
    "Huber",
    "Loss",
    "LossItself",
    "LossScore",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Measured",
    "Metric",
    "OwnLoss",
    "OwnMetric",
    "RelativeLoss",
    "Score",
    "SquaredError",
    "TopK",
    "best_value",
    "find_misfit",
]
