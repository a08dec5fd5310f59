"""Data sets, and their partition among clients."""

from mmfl.data.arrays import PARTS, Arrays, Examples, content_hash
from mmfl.data.at_nodes import AtNodes, make_blank
from mmfl.data.client_names import match_clients
from mmfl.data.conversion import from_frame, from_hugging_face
from mmfl.data.datasets import (
    DATASETS,
    Dataset,
    FromFunction,
    Named,
    Npz,
    Reduced,
    Synthetic,
)
from mmfl.data.folders import data_folder, default_folder, wanted_folder
from mmfl.data.image_folder import ImageFolder
from mmfl.data.in_memory import InMemory, keep_data
from mmfl.data.names import ClassNames, Feature, encode_features
from mmfl.data.partition import (
    PARTITIONS,
    AutoPartition,
    ByFunction,
    ByGroup,
    Cut,
    Dirichlet,
    FromFile,
    HalfClasses,
    Iid,
    Partition,
    Points,
    Shards,
    holders,
)
from mmfl.data.preparation import NORMALIZATIONS, Augment, AutoNormalize, Normalize
from mmfl.data.skew import label_skew, skew_by_chance, target_skew
from mmfl.data.synthetic_regression import SyntheticRegression
from mmfl.data.table_files import CsvFile, ParquetFile
from mmfl.data.tables import read_frame

__all__ = [
    "DATASETS",
    "NORMALIZATIONS",
    "PARTITIONS",
    "PARTS",
    "Arrays",
    "AtNodes",
    "Augment",
    "AutoNormalize",
    "AutoPartition",
    "ByFunction",
    "ByGroup",
    "ClassNames",
    "CsvFile",
    "Cut",
    "Dataset",
    "Dirichlet",
    "Examples",
    "Feature",
    "FromFile",
    "FromFunction",
    "HalfClasses",
    "Iid",
    "ImageFolder",
    "InMemory",
    "Named",
    "Normalize",
    "Npz",
    "ParquetFile",
    "Partition",
    "Points",
    "Reduced",
    "Shards",
    "Synthetic",
    "SyntheticRegression",
    "content_hash",
    "data_folder",
    "default_folder",
    "encode_features",
    "from_frame",
    "from_hugging_face",
    "holders",
    "keep_data",
    "label_skew",
    "make_blank",
    "match_clients",
    "read_frame",
    "skew_by_chance",
    "target_skew",
    "wanted_folder",
]
