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

from mmfl.config import Family, Share, component
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = ["PARTITIONS", "HalfClasses", "Iid", "Partition", "Points", "Shards"]

Ints = npt.NDArray[np.int64]


class Shards(Protocol):
    """Which examples (numbers of rows) lie with which client."""

    def sizes(self, clients: Ints) -> Ints:
        """How many examples each of these clients holds."""
        ...

    def shard(self, client: int) -> Ints:
        """The client's examples."""
        ...


class Partition(Protocol):
    """Shares labelled examples out among clients 0, 1, ... K - 1."""

    def split(self, labels: Ints, clients: int, *, rng: Stream) -> Shards:
        """Shards of the rows of `labels`; `DataError` if there is not enough data."""
        ...


def _points(value: Any) -> Any:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    for number in (low, high):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
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
    sizes = _sizes(points, np.arange(clients), rng)
    if sizes.sum() > examples:
        raise DataError(
            f"{clients} clients with {points[0]} to {points[1]} points need {sizes.sum()} training "
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
    overlap: bool = False

    def split(self, labels: Ints, clients: int, *, rng: Stream) -> Shards:
        """Cut a permutation, or let each client draw."""
        if self.overlap:
            everything = np.arange(len(labels))
            return _Drawn(_need_points(self.points, len(labels)), rng, lambda client: everything)
        sizes = _cut_sizes(self.points, len(labels), clients, rng)
        return _Cut(rng.child("cut").permutation(len(labels)), np.cumsum(sizes))


@component
class HalfClasses:
    """Every client has examples of only a share of the classes: the paper's non-iid setting.

    Attributes:
        share: Share of the classes that a client has (one half in the paper), at least one class.
        points: Examples per client, a number or a range; by default all data, shared out evenly.
        overlap: Whether an example may lie with several clients.
    """

    share: Share = 0.5
    points: Points | None = None
    overlap: bool = False

    def split(self, labels: Ints, clients: int, *, rng: Stream) -> Shards:
        """Draw each client's classes; then cut up each class, or let each client draw."""
        classes = np.unique(labels)
        some = max(1, round(self.share * len(classes)))

        def own(client: int) -> Ints:
            return np.sort(rng.child("classes", client).choice(classes, some, replace=False))

        if self.overlap:
            rows_of = {c: np.flatnonzero(labels == c) for c in classes.tolist()}
            least = sum(sorted(map(len, rows_of.values()))[:some])
            return _Drawn(
                _need_points(self.points, least),
                rng,
                lambda client: np.concatenate([rows_of[c] for c in own(client).tolist()]),
            )
        sizes = _cut_sizes(self.points, len(labels), clients, rng)
        order = rng.child("cut").permutation(len(labels))
        left = {c: order[labels[order] == c].tolist() for c in classes.tolist()}
        rows: list[int] = []
        for client, size in enumerate(sizes.tolist()):
            mine = own(client).tolist()
            if sum(len(left[c]) for c in mine) < size:
                raise DataError(
                    f"client {client} needs {size} examples of its {some} classes, but the clients "
                    "before it left too few; lower points or clients.count, or set overlap = true"
                )
            for turn in range(size):
                # Class after class in turn; one that is used up leaves its turns to the next.
                choice = next(c for c in mine[turn % some :] + mine[: turn % some] if left[c])
                rows.append(left[choice].pop())
        return _Cut(np.array(rows, dtype=np.int64), np.cumsum(sizes))


PARTITIONS = Family(
    name="partition", table={"half_classes": HalfClasses, "iid": Iid}, needs=("split",)
)
