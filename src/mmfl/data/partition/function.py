"""A partition by a user's plain function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.config import OwnFunction, short
from mmfl.data.arrays import Examples
from mmfl.data.partition.base import Cut, Ints, Shards, pieces
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = ["ByFunction"]


@dataclass(frozen=True)
class ByFunction:
    """What a user's function decides, called as ``function(examples, clients, rng)``.

    It returns one client number per example (-1 = nobody), or one list of places in `examples` per
    client, where several clients may have the same place. Its other keywords are written next to
    `kind`.
    """

    function: OwnFunction

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Call it, check what it returns."""
        found = self.function(examples, clients, rng)
        where = f"partition {self.function.name!r}"
        if hasattr(found, "__array__"):
            found = np.asarray(found)
            found = found if found.ndim == 1 and found.dtype != object else found.tolist()
        if isinstance(found, np.ndarray) or _flat(found):
            shards = _by_example(where, found, len(examples), clients)
        elif isinstance(found, list | tuple):
            shards = _by_client(where, found, len(examples), clients)
        else:
            raise DataError(
                f"{where} must return one client number per example, or one list of positions "
                f"per client, got {short(found)}"
            )
        if not len(shards.rows):
            raise DataError(f"{where} gives no client any example")
        return shards


def _flat(found: object) -> bool:
    """Whether these are numbers and not lists."""
    return isinstance(found, list | tuple) and len(found) > 0 and np.isscalar(found[0])


def _by_example(where: str, found: Any, examples: int, clients: int) -> Cut:
    owner = _whole(f"{where}: client numbers", found)
    if len(owner) != examples:
        raise DataError(
            f"{where} must return one client number per example ({examples}), got {len(owner)}"
        )
    wrong = np.flatnonzero((owner < -1) | (owner >= clients))
    if len(wrong):
        raise DataError(
            f"{where}: the example at position {wrong[0]} must go to a client from 0 to "
            f"{clients - 1}, or to nobody (-1), got {owner[wrong[0]]}"
        )
    return Cut.of(owner.astype(np.int64), clients)


def _by_client(where: str, found: list[Any] | tuple[Any, ...], examples: int, clients: int) -> Cut:
    if len(found) != clients:
        raise DataError(
            f"{where} must return one list of positions per client ({clients}), "
            f"got {len(found)} lists"
        )
    shards: list[Ints] = []
    for client, own in enumerate(found):
        places = _whole(f"{where}: client {client}'s positions", own)
        wrong = places[(places < 0) | (places >= examples)]
        if len(wrong):
            raise DataError(
                f"{where}: client {client}'s positions must be from 0 to {examples - 1}, "
                f"got {wrong[0]}"
            )
        shards.append(places.astype(np.int64))
        values, times = np.unique(places, return_counts=True)
        if len(values) < len(places):
            raise DataError(f"{where}: client {client} has position {values[times > 1][0]} twice")
    return pieces(shards)


def _whole(what: str, given: Any) -> npt.NDArray[Any]:
    try:
        numbers = np.asarray(given)
    except Exception:  # lists of different lengths, or a user's object
        numbers = np.empty(())
    if numbers.shape == (0,):
        return np.empty(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(f"{what} must be a list of whole numbers, got {short(given)}")
    return numbers
