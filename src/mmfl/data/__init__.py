"""Data sets, their partition among clients, and the federation that results."""

from mmfl.data.arrays import Arrays, Examples, content_hash
from mmfl.data.datasets import (
    DATASETS,
    Dataset,
    FromFunction,
    Named,
    Npz,
    Synthetic,
    data_folder,
    default_folder,
)
from mmfl.data.federation import Federation, SimulatedFederation, simulate
from mmfl.data.partition import (
    PARTITIONS,
    ByFunction,
    ByGroup,
    Dirichlet,
    FromFile,
    HalfClasses,
    Iid,
    Partition,
    Points,
    Shards,
)

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Arrays",
    "ByFunction",
    "ByGroup",
    "Dataset",
    "Dirichlet",
    "Examples",
    "Federation",
    "FromFile",
    "FromFunction",
    "HalfClasses",
    "Iid",
    "Named",
    "Npz",
    "Partition",
    "Points",
    "Shards",
    "SimulatedFederation",
    "Synthetic",
    "content_hash",
    "data_folder",
    "default_folder",
    "simulate",
]
