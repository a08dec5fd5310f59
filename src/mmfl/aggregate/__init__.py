"""How a task's updates become its new weights; `AGGREGATORS` is the family's table."""

from mmfl.aggregate.base import (
    Aggregator,
    CollectingAggregator,
    MergingAggregator,
    partial_sum,
    partial_sums,
)
from mmfl.aggregate.checks import Checks, checked, norm_of
from mmfl.aggregate.mean import Mean
from mmfl.config import Family

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Checks",
    "CollectingAggregator",
    "Mean",
    "MergingAggregator",
    "checked",
    "norm_of",
    "partial_sum",
    "partial_sums",
]

AGGREGATORS = Family(
    name="aggregator", table={"mean": Mean}, needs=("aggregate", "mergeable"), default="mean"
)
