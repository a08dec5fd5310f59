"""The partition of a task that names none."""

from __future__ import annotations

from mmfl.config import component
from mmfl.data.arrays import Examples
from mmfl.data.partition.base import Shards
from mmfl.data.partition.by_group import ByGroup
from mmfl.data.partition.iid import Iid
from mmfl.rng import Stream

__all__ = ["AutoPartition"]


@component
class AutoPartition:
    """`by_group` if the data has groups, else `iid` over all data."""

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Split by one of the two."""
        either = Iid() if examples.groups is None else ByGroup()
        return either.split(examples, clients, rng=rng)
