"""How a task's data is shared out among the clients. `PARTITIONS` is the family's table.

With ``overlap = false`` one seeded permutation is cut up: no example belongs to two clients. With
``overlap = true`` each client's shard is drawn by itself from the address (seed, task, client): a
population of any size costs nothing until a client's turn comes. `by_group`, `given` and a user's
function decide by themselves who holds what.
"""

from mmfl.config import Family
from mmfl.data.partition.auto import AutoPartition
from mmfl.data.partition.base import Cut, Partition, Points, Shards, holders
from mmfl.data.partition.by_group import ByGroup
from mmfl.data.partition.dirichlet import Dirichlet
from mmfl.data.partition.function import ByFunction
from mmfl.data.partition.given import FromFile
from mmfl.data.partition.half_classes import HalfClasses
from mmfl.data.partition.iid import Iid

__all__ = [
    "PARTITIONS",
    "AutoPartition",
    "ByFunction",
    "ByGroup",
    "Cut",
    "Dirichlet",
    "FromFile",
    "HalfClasses",
    "Iid",
    "Partition",
    "Points",
    "Shards",
    "holders",
]

PARTITIONS = Family(
    name="partition",
    table={
        "auto": AutoPartition,
        "by_group": ByGroup,
        "dirichlet": Dirichlet,
        "given": FromFile,
        "half_classes": HalfClasses,
        "iid": Iid,
    },
    needs=("split",),
    default="iid",
    function=ByFunction,
)
