"""All clients' data has the same distribution."""

from __future__ import annotations

import numpy as np

from mmfl.config import Flag, component
from mmfl.data.arrays import Examples
from mmfl.data.partition.base import Cut, Drawn, Points, Shards, choose_rows, cut_sizes, need_points
from mmfl.rng import Stream

__all__ = ["Iid"]


@component
class Iid:
    """All clients' data has the same distribution.

    Attributes:
        points: Examples per client, a number or a range; by default all data, shared out evenly.
        overlap: Whether an example may belong to several clients.
    """

    points: Points | None = None
    overlap: Flag = False

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Cut a permutation, or let each client draw."""
        if self.overlap:
            points = need_points(self.points, len(examples))
            everything = np.arange(len(examples))
            return Drawn(
                points, rng, lambda k, n: choose_rows(everything, n, rng.child("shard", k))
            )
        sizes = cut_sizes(self.points, len(examples), clients, rng)
        order = rng.child("cut").permutation(len(examples))
        owners = np.repeat(np.arange(clients), sizes)
        return Cut(order[: len(owners)], owners, clients)
