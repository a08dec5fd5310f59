"""How a task's updates become its new weights; `AGGREGATORS` is the family's table."""

from mmfl.aggregate.base import (
    WANTS,
    ActiveClients,
    Aggregator,
    ChunkSum,
    CollectingAggregator,
    MergingAggregator,
    partial_sums,
    wanted_by,
)
from mmfl.aggregate.checks import REFUSALS, Checks, check_update, norm_of
from mmfl.aggregate.clipped_mean import ClippedMean
from mmfl.aggregate.fed_adam import FedAdam
from mmfl.aggregate.fed_yogi import FedYogi
from mmfl.aggregate.mean import Mean
from mmfl.aggregate.median import Median
from mmfl.aggregate.multi_krum import MultiKrum
from mmfl.aggregate.q_fel import QFel, q_fel_as_published
from mmfl.aggregate.server_momentum import ServerMomentum
from mmfl.aggregate.stale_updates import StaleUpdates
from mmfl.aggregate.trimmed_mean import TrimmedMean
from mmfl.aggregate.unbiased import Unbiased
from mmfl.config import Family

__all__ = [
    "AGGREGATORS",
    "REFUSALS",
    "WANTS",
    "ActiveClients",
    "Aggregator",
    "Checks",
    "ChunkSum",
    "ClippedMean",
    "CollectingAggregator",
    "FedAdam",
    "FedYogi",
    "Mean",
    "Median",
    "MergingAggregator",
    "MultiKrum",
    "QFel",
    "ServerMomentum",
    "StaleUpdates",
    "TrimmedMean",
    "Unbiased",
    "check_update",
    "norm_of",
    "partial_sums",
    "q_fel_as_published",
    "wanted_by",
]

AGGREGATORS = Family(
    name="aggregator",
    table={
        "mean": Mean,
        "median": Median,
        "trimmed_mean": TrimmedMean,
        "clipped_mean": ClippedMean,
        "multi_krum": MultiKrum,
        "q_fel": QFel,
        "server_momentum": ServerMomentum,
        "fed_adam": FedAdam,
        "fed_yogi": FedYogi,
        "stale_updates": StaleUpdates,
        "unbiased": Unbiased,
    },
    needs=("aggregate", "mergeable"),
    default="mean",
)
