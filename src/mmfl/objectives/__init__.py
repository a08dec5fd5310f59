"""What a task minimises, what it is judged by, and how badly off that makes it.

`LOSSES`, `METRICS` and `SCORES` are the families' tables. All are described without torch, which is
imported when they are computed.
"""

from mmfl.objectives.auc import Auc
from mmfl.objectives.base import Better, Metric, PooledMetric
from mmfl.objectives.confusion import F1, BalancedAccuracy, Matthews, Precision, Recall
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
from mmfl.objectives.means import (
    AbsoluteError,
    Accuracy,
    BinaryAccuracy,
    Explained,
    LossItself,
    SquaredError,
    TopK,
)
from mmfl.objectives.metrics import (
    METRICS,
    OwnMetric,
    best_value,
    describe_merits,
    find_merit,
    refuse_target,
)
from mmfl.objectives.perplexity import Perplexity
from mmfl.objectives.pooled import (
    are_possible,
    compute_value,
    find_sums_shape,
    is_pooled,
    read_sums,
)
from mmfl.objectives.returned import check_mean, check_values
from mmfl.objectives.scores import (
    SCORES,
    Distance,
    Error,
    LossScore,
    Measured,
    RelativeLoss,
    Score,
    Scored,
)

__all__ = [
    "F1",
    "LOSSES",
    "METRICS",
    "SCORES",
    "AbsoluteError",
    "Accuracy",
    "Auc",
    "BalancedAccuracy",
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
    "Matthews",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Measured",
    "Metric",
    "OwnLoss",
    "OwnMetric",
    "Perplexity",
    "PooledMetric",
    "Precision",
    "Recall",
    "RelativeLoss",
    "Score",
    "Scored",
    "SquaredError",
    "TopK",
    "are_possible",
    "best_value",
    "check_mean",
    "check_values",
    "compute_value",
    "describe_merits",
    "find_merit",
    "find_misfit",
    "find_sums_shape",
    "is_pooled",
    "read_sums",
    "refuse_target",
]
