"""How a task's data is shared out among the clients. `PARTITIONS` is the family's table.

With ``overlap = false`` one seeded permutation is cut up: no example lies with two clients. With
``overlap = true`` each client's shard is drawn by itself from the address (seed, task, client): a
population of any size costs nothing until a client's turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, WithJsonSchema

from mmfl.config import Family, Flag, Share, component
from mmfl.data.arrays import Examples
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = ["PARTITIONS", "HalfClasses", "Iid", "Partition", "Points", "Shards"]

Ints = npt.NDArray[np.int64]


class Shards(Protocol):
    """Which examples (numbers of rows) lie with which client."""

    @property
    def everybody(self) -> bool:
        """Whether every client holds at least one."""
        ...

    def sizes(self, clients: Ints) -> Ints:
        """How many examples each of these clients holds."""
        ...

    def shard(self, client: int) -> Ints:
        """The client's examples."""
        ...


class Partition(Protocol):
    """Shares examples out among clients 0, 1, ... K - 1."""

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Shards by places in `examples`; `DataError` if there is not enough data."""
        ...


def _points(value: Any) -> Any:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    for number in (low, high):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**31:
            raise ValueError(f"must be a whole number >= 1 or [low, high], got {value!r}")
    if low > high:
        raise ValueError(f"must be [low, high] with low <= high, got {value!r}")
    return (low, high)


Points = Annotated[
    tuple[int, int],
    BeforeValidator(_points),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
            ]
        }
    ),
]
"""Examples per client: a number, or the ends of a range from which each client's is drawn."""


@dataclass(frozen=True, eq=False)
class _Cut:
    """Consecutive pieces of one list of rows."""

    rows: Ints
    ends: Ints

    @property
    def everybody(self) -> bool:
        return bool((self.sizes(np.arange(len(self.ends))) > 0).all())

    def sizes(self, clients: Ints) -> Ints:
        starts = np.concatenate([[0], self.ends[:-1]])
        sizes: Ints = (self.ends - starts)[clients]
        return sizes

    def shard(self, client: int) -> Ints:
        start = self.ends[client - 1] if client else 0
        return self.rows[start : self.ends[client]]


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Each shard drawn by itself when it is asked for."""

    points: tuple[int, int]
    rng: Stream
    pool: Callable[[int], Ints]
    everybody: bool = True

    def sizes(self, clients: Ints) -> Ints:
        return _sizes(self.points, clients, self.rng)

    def shard(self, client: int) -> Ints:
        pool = self.pool(client)
        size = int(self.sizes(np.array([client]))[0])
        return pool[self.rng.child("shard", client).choice(len(pool), size, replace=False)]


def _sizes(points: tuple[int, int], clients: Ints, rng: Stream) -> Ints:
    low, high = points
    luck = rng.child("points").at(clients)
    return (low + np.floor(luck * (high - low + 1))).astype(np.int64)


def _cut_sizes(points: tuple[int, int] | None, examples: int, clients: int, rng: Stream) -> Ints:
    """Sizes for shards that do not overlap: as asked for, or all data shared out evenly."""
    if points is None:
        if clients > examples:
            raise DataError(
                f"{clients} clients cannot share {examples} training examples without overlap; "
                "lower clients.count or set points and overlap = true"
            )
        return np.full(clients, examples // clients) + (np.arange(clients) < examples % clients)
    needed = clients * points[0]
    if needed <= examples:
        sizes = _sizes(points, np.arange(clients), rng)
        needed = int(sizes.sum())
    if needed > examples:
        raise DataError(
            f"{clients} clients with {points[0]} to {points[1]} points need {needed} training "
            f"examples, there are {examples}; lower points or clients.count, or set overlap = true"
        )
    return sizes


def _need_points(points: tuple[int, int] | None, available: int) -> tuple[int, int]:
    if points is None:
        raise DataError("a partition with overlap = true needs points, e.g. points = [150, 250]")
    if points[1] > available:
        raise DataError(f"points up to {points[1]} exceed the {available} examples to draw from")
    return points


@component
class Iid:
    """Every client's data looks like everybody's.

    Attributes:
        points: Examples per client, a number or a range; by default all data, shared out evenly.
        overlap: Whether an example may lie with several clients.
    """

    points: Points | None = None
    overlap: Flag = False

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Cut a permutation, or let each client draw."""
        if self.overlap:
            everything = np.arange(len(examples))
            return _Drawn(_need_points(self.points, len(examples)), rng, lambda client: everything)
        sizes = _cut_sizes(self.points, len(examples), clients, rng)
        return _Cut(rng.child("cut").permutation(len(examples)), np.cumsum(sizes))


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
        classes = np.unique(labels)
        some = max(1, round(self.share * len(classes)))
        order = rng.child("cut").permutation(len(labels))
        rows_of = [order[labels[order] == c] for c in classes.tolist()]
        if self.overlap:
            least = sum(sorted(map(len, rows_of))[:some])

            def pool(client: int) -> Ints:
                own = rng.child("classes", client).choice(len(classes), some, replace=False)
                return np.concatenate([rows_of[c] for c in np.sort(own).tolist()])

            return _Drawn(_need_points(self.points, least), rng, pool)
        sizes = _cut_sizes(self.points, len(labels), clients, rng)
        if self.points is None:
            return _pieces(_share_all(rows_of, clients, some, rng))
        return _pieces(_share_some(rows_of, sizes.tolist(), some, rng))


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
                f"client {client} needs {size} examples of its {some} classes, but those before "
                "it left too few; lower points or clients.count, or set overlap = true"
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


def _pieces(shards: list[Ints]) -> _Cut:
    return _Cut(np.concatenate(shards), np.cumsum([len(shard) for shard in shards]))


PARTITIONS = Family(
    name="partition",
    table={"half_classes": HalfClasses, "iid": Iid},
    needs=("split",),
    default="iid",
)
