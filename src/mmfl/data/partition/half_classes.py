"""Every client has examples of only a share of the classes: the paper's non-iid setting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmfl.config import Flag, Share, component
from mmfl.data.arrays import Examples
from mmfl.data.partition.base import (
    Drawn,
    Ints,
    Points,
    Shards,
    chosen,
    cut_sizes,
    need_points,
    pieces,
    rows_by_class,
)
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = ["HalfClasses"]


@component
class HalfClasses:
    """Every client has examples of only a share of the classes: the paper's non-iid setting.

    Attributes:
        share: Share of the classes that a client has (one half in the paper), at least one class.
            Without overlap, classes are dealt so that all are used up alike.
        points: Examples per client, a number or a range; by default all data, each class shared out
            evenly among the clients that have it.
        overlap: Whether an example may lie with several clients.
    """

    share: Share = 0.5
    points: Points | None = None
    overlap: Flag = False

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Deal the classes, then cut up each class; or let each client draw both."""
        labels = examples.classes("half_classes")
        rows_of = rows_by_class(labels, rng)
        classes = len(rows_of)
        some = max(1, round(self.share * classes))
        if self.overlap:
            least = sum(sorted(map(len, rows_of))[:some])
            which = f"that a client with {some} of the {classes} classes may find"
            points = need_points(self.points, least, which)

            def draw(client: int, size: int) -> Ints:
                own = rng.child("classes", client).choice(classes, some, replace=False)
                pool = np.concatenate([rows_of[c] for c in np.sort(own).tolist()])
                return chosen(pool, size, rng.child("shard", client))

            return Drawn(points, rng, draw)
        sizes = cut_sizes(self.points, len(labels), clients, rng)
        if self.points is None:
            return pieces(_share_all(rows_of, clients, some, rng))
        return pieces(_share_some(rows_of, sizes.tolist(), some, rng))


def _deal(wish: npt.NDArray[np.float64], some: int, rng: Stream) -> list[int]:
    """The `some` classes with the largest wish, ties broken at random."""
    luck = rng.permutation(len(wish))
    dealt: list[int] = np.sort(np.lexsort((luck, -wish))[:some]).tolist()
    return dealt


def _share_all(rows_of: list[Ints], clients: int, some: int, rng: Stream) -> list[Ints]:
    """Every class in even pieces to the clients that have it; all classes have as many clients."""
    owners: list[list[int]] = [[] for _ in rows_of]
    for client in range(clients):
        wish = -np.array([len(o) for o in owners], dtype=np.float64)
        for c in _deal(wish, some, rng.child("classes", client)):
            owners[c].append(client)
    mine: list[list[Ints]] = [[] for _ in range(clients)]
    for c, own in enumerate(owners):
        # The first pieces may be one row longer: they go to those who have least so far.
        own.sort(key=lambda client: sum(map(len, mine[client])))
        for client, rows in zip(own, np.array_split(rows_of[c], max(1, len(own))), strict=False):
            mine[client].append(rows)
    return [np.concatenate(parts) for parts in mine]


def _share_some(rows_of: list[Ints], sizes: list[int], some: int, rng: Stream) -> list[Ints]:
    """To each client its number of rows, in turn from the classes of which most is left."""
    used = np.zeros(len(rows_of), dtype=np.int64)
    supply = np.array([len(rows) for rows in rows_of])
    shards = []
    for client, size in enumerate(sizes):
        left = supply - used
        mine = _deal(left.astype(np.float64), some, rng.child("classes", client))
        if left[mine].sum() < size:
            raise DataError(
                f"client {client} needs {size} examples of {some} of the {len(supply)} classes, "
                f"but those before it left {left[mine].sum()}; lower points or clients.count, "
                "or set overlap = true"
            )
        take = _evenly(size, left[mine])
        ends = used[mine] + take
        parts = [rows_of[c][used[c] : e] for c, e in zip(mine, ends.tolist(), strict=True)]
        used[mine] = ends
        shards.append(np.concatenate(parts))
    return shards


def _evenly(size: int, room: Ints) -> Ints:
    """`size` as a sum with one term per class: as even as the room in each allows."""
    take = np.zeros_like(room)
    while size > take.sum():
        open_ = np.flatnonzero(take < room)
        missing = size - int(take.sum())
        step = max(1, missing // len(open_))
        for c in open_[:missing].tolist():
            take[c] += min(step, int(room[c] - take[c]))
    return take
