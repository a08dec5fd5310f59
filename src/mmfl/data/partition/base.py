"""What all partitions share: the protocols, how many examples a client gets, and the shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, WithJsonSchema

from mmfl.config import short
from mmfl.data.arrays import Examples
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = [
    "Cut",
    "Drawn",
    "Ints",
    "Partition",
    "Points",
    "Shards",
    "choose_rows",
    "cut_sizes",
    "draw_sizes",
    "holders",
    "need_points",
    "pieces",
    "rows_by_class",
]

Ints = npt.NDArray[np.int64]


class Shards(Protocol):
    """Which client holds which examples (row numbers)."""

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
            raise ValueError(f"must be a whole number >= 1 or [low, high], got {short(value)}")
    if low > high:
        raise ValueError(f"must be [low, high] with low <= high, got {short(value)}")
    return (low, high)


_WHOLE = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
Points = Annotated[
    tuple[int, int],
    BeforeValidator(_points),
    WithJsonSchema(
        {
            "anyOf": [
                _WHOLE,
                {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2},
            ]
        }
    ),
]
"""Examples per client: a number, or the ends of a range from which each client's is drawn."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows in the order of their owners: the cost depends on the rows, not on the clients.

    Attributes:
        rows: The rows that somebody holds.
        owners: The client of each of them, ascending.
        clients: How many clients there are, with and without rows.
        note: A sentence that a user should read, e.g. that the data is too short; or nothing.
    """

    rows: Ints
    owners: Ints
    clients: int
    note: str = ""

    @classmethod
    def of(cls, owner: Ints, clients: int) -> Cut:
        """From each row's client (-1 = nobody); a client's rows are ascending."""
        order = np.argsort(owner, kind="stable")
        order = order[np.count_nonzero(owner < 0) :]
        return cls(order, owner[order], clients)

    @property
    def everybody(self) -> bool:
        """Whether every client holds at least one."""
        return len(self.holders) == self.clients

    @property
    def holders(self) -> Ints:
        """The clients that hold at least one, ascending."""
        return self.owners[np.flatnonzero(np.diff(self.owners, prepend=-1))]

    def sizes(self, clients: Ints) -> Ints:
        """How many rows each of these clients holds."""
        ends: Ints = np.searchsorted(self.owners, clients, "right")
        return ends - np.searchsorted(self.owners, clients, "left")

    def shard(self, client: int) -> Ints:
        """The client's rows."""
        if not 0 <= client < self.clients:
            raise IndexError(f"there is no client {client} among {self.clients}")
        find = self.owners.searchsorted  # twice is faster than of a list
        return self.rows[find(client) : find(client + 1)]


def holders(shards: Shards, clients: int) -> Ints:
    """The clients that hold at least one example, ascending."""
    if isinstance(shards, Cut):
        return shards.holders
    some = 1 << 16  # at a time
    blocks = [np.arange(k, min(k + some, clients)) for k in range(0, clients, some)]
    return np.concatenate([block[shards.sizes(block) > 0] for block in blocks])


def pieces(shards: Sequence[Ints]) -> Cut:
    """One list of rows per client, put together."""
    sizes = [len(shard) for shard in shards]
    return Cut(np.concatenate(shards), np.repeat(np.arange(len(sizes)), sizes), len(sizes))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Shards that are drawn when they are asked for.

    Attributes:
        points: Examples per client.
        rng: The partition's address.
        draw: From a client and its number of examples to its rows.
        everybody: Always: `points` are at least one.
    """

    points: tuple[int, int]
    rng: Stream
    draw: Callable[[int, int], Ints]
    everybody: bool = True

    def sizes(self, clients: Ints) -> Ints:
        """How many rows each of these clients holds."""
        return draw_sizes(self.points, clients, self.rng)

    def shard(self, client: int) -> Ints:
        """The client's rows."""
        return self.draw(client, int(self.sizes(np.array([client]))[0]))


def choose_rows(rows: Ints, size: int, rng: Stream) -> Ints:
    """That many of these rows, all different."""
    return rows[rng.choice(len(rows), size, replace=False)]


def draw_sizes(points: tuple[int, int], clients: Ints, rng: Stream) -> Ints:
    """How many examples each of these clients gets by `points`; clients are independent."""
    low, high = points
    if low == high:
        return np.full(len(clients), low, dtype=np.int64)
    draws = rng.child("points").at(clients)
    draws *= high - low + 1
    sizes = draws.astype(np.int64)  # rounds down
    sizes += low
    return sizes


def cut_sizes(points: tuple[int, int] | None, examples: int, clients: int, rng: Stream) -> Ints:
    """Sizes for shards that do not overlap: as asked for, or all data shared out evenly."""
    if points is None:
        if clients > examples:
            raise DataError(
                f"{clients} clients cannot share {examples} training examples without overlap; "
                "lower clients.count or set points and overlap = true"
            )
        return np.full(clients, examples // clients) + (np.arange(clients) < examples % clients)
    low, high = points
    needed, drawn = clients * low, low == high
    if needed <= examples:
        sizes, drawn = draw_sizes(points, np.arange(clients), rng), True
        needed = int(sizes.sum())
    if needed > examples:
        each = f"{low} points each" if low == high else f"{low} to {high} points"
        raise DataError(
            f"{clients} clients with {each} need {'' if drawn else 'at least '}{needed} training "
            f"examples, but there are only {examples}; lower points or "
            "clients.count, or set overlap = true"
        )
    return sizes


def need_points(
    points: tuple[int, int] | None, available: int, which: str = "to draw from"
) -> tuple[int, int]:
    """The points that a draw with overlap needs; refused if there are fewer examples.

    Args:
        points: As configured.
        available: How many examples a client surely finds.
        which: Examples these are, for the message.
    """
    if points is None:
        raise DataError("a partition with overlap = true needs points, e.g. points = [150, 250]")
    if points[1] > available:
        raise DataError(f"points up to {points[1]} exceed the {available} examples {which}")
    return points


def rows_by_class(labels: Ints, rng: Stream) -> list[Ints]:
    """The rows of each class that occurs, by class number, in an order that the address decides."""
    order = rng.child("cut").permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
