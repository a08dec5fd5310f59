"""How a task's updates become its new weights; `AGGREGATORS` is the family's table."""

from mmfl.aggregate.base import (
    Aggregator,
    ChunkSum,
    CollectingAggregator,
    MergingAggregator,
    partial_sums,
)
from mmfl.aggregate.checks import Checks, checked, norm_of
from mmfl.aggregate.mean import Mean
from mmfl.config import Family

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Checks",
    "ChunkSum",
    "CollectingAggregator",
    "Mean",
    "MergingAggregator",
    "checked",
    "norm_of",
    "partial_sums",
]

AGGREGATORS = Family(
    name="aggregator", table={"mean": Mean}, needs=("aggregate", "mergeable"), default="mean"
)
