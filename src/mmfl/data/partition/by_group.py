"""One client per group of the data: a person, a hospital, a phone."""

from __future__ import annotations

import numpy as np

from mmfl.config import component
from mmfl.data.arrays import Examples
from mmfl.data.partition.base import Cut, Points, Shards, draw_sizes
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = ["ByGroup"]


@component
class ByGroup:
    """Every example belongs to the client with the number of its group.

    The same number is the same client in every task. A client without a group in a task holds no
    data for it, and never trains it.

    Attributes:
        points: Maximum number of examples that a client gets from its group, a number or a range,
            chosen at random; by default it gets all.
    """

    points: Points | None = None

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Put each group together, and shorten it if asked to."""
        groups = examples.groups
        if groups is None:
            raise DataError(
                "a by_group partition needs a group number per example, and this data has none; "
                "give it an array 'groups', or use another partition"
            )
        if groups.max() >= clients:
            raise DataError(
                f"by_group: there is a group {groups.max()}, but clients.count = {clients}; raise "
                f"clients.count to {groups.max() + 1}, or number the groups from 0"
            )
        if self.points is None:
            return Cut.of(groups, clients)
        order = rng.child("cut").permutation(len(groups))
        order = order[np.argsort(groups[order], kind="stable")]
        who, first, place = np.unique(groups[order], return_index=True, return_inverse=True)
        number = np.arange(len(order)) - first[place]  # within its group
        kept = order[number < draw_sizes(self.points, who, rng)[place]]
        return Cut(kept, groups[kept], clients)
