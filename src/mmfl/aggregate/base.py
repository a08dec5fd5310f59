"""The aggregator protocols, and the fixed order in which every engine adds updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.exchange import CHUNK, ClientFailure, ClientUpdate, Params, PartialSum

__all__ = [
    "WANTS",
    "ActiveClients",
    "Aggregator",
    "ChunkSum",
    "CollectingAggregator",
    "MergingAggregator",
    "add_up",
    "partial_sums",
    "wanted_by",
]

WANTS = ("active", "loss", "lr")
"""What an aggregator gets as keyword arguments of `aggregate` if its class attribute `wants` names
it: the `ActiveClients` of the round that may train the task; the task's loss before the round,
measured where its difficulty is, whatever the score (NaN if nobody could measure it); and the
learning rate of the round's turns."""


class ActiveClients(NamedTuple):
    """The round's active clients that may train a task, whether it was given to them or not.

    Attributes:
        ids: (n) ascending.
        examples: (n) how many examples of the task each holds.
    """

    ids: npt.NDArray[np.int64]
    examples: npt.NDArray[np.int64]


def wanted_by(aggregator: Aggregator) -> tuple[str, ...]:
    """Which of `WANTS` an aggregator gets."""
    words = getattr(aggregator, "wants", ())
    return (words,) if isinstance(words, str) else tuple(words)


class MergingAggregator(Protocol):
    """Needs only partial sums: engines form them where the updates are, which saves memory."""

    mergeable: ClassVar[Literal[True]]

    def aggregate(
        self, params: Params, updates: Iterable[PartialSum], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights, in new memory; without updates, the same weights."""
        ...


class CollectingAggregator(Protocol):
    """Needs each update by itself (medians, Krum)."""

    mergeable: ClassVar[Literal[False]]

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights, in new memory; without updates, the same weights."""
        ...


Doubles = npt.NDArray[np.float64]

BLOCK = 1 << 15
"""How many numbers are cast to float64 at a time: these stay in the processor's cache."""

Aggregator = MergingAggregator | CollectingAggregator


class ChunkSum:
    """The float64 sum of examples x delta over one chunk's accepted updates, in job order.

    It is formed as they arrive, so none of them has to be kept. Each product is exact, so the bits
    of the sum depend only on the order.

    Args:
        out: Where to form it; by default in new memory.
    """

    def __init__(self, out: Doubles | None = None) -> None:
        self._total = out
        self._examples = 0

    def add(self, update: ClientUpdate) -> None:
        """Add examples x delta."""
        assert isinstance(update.delta, Params), "only checked updates are summed"
        flat = update.delta.flat
        if not self._examples:
            self._total = np.multiply(flat, update.examples, out=self._total, dtype=np.float64)
        else:
            assert self._total is not None
            for start in range(0, len(flat), BLOCK):
                term = flat[start : start + BLOCK].astype(np.float64)
                term *= update.examples
                self._total[start : start + BLOCK] += term
        self._examples += update.examples

    def sum(self) -> PartialSum | None:
        """What was added; None if nothing was."""
        if not self._examples:
            return None
        assert self._total is not None
        return PartialSum(self._total, self._examples)


def add_up(parts: Iterable[PartialSum]) -> tuple[Doubles | None, int]:
    """The sum of partial sums, in their order, and its examples; None without any."""
    total, examples = None, 0
    for part in parts:
        if total is None:
            total = part.take()
        else:
            total += part.total
            part.release()
        examples += part.examples
    return total, examples


def partial_sums(results: Iterable[ClientUpdate | ClientFailure]) -> Iterator[PartialSum]:
    """One sum per chunk of `CHUNK` consecutive results of a task that has an accepted update.

    An update is used before the next result is asked for.
    """
    chunk, count = ChunkSum(), 0
    for result in results:
        count += 1
        if isinstance(result, ClientUpdate) and result.delta is not None:
            chunk.add(result)
        if result.partial is not None or count == CHUNK:
            formed = result.partial or chunk.sum()
            memory = None
            if formed is not None:
                yield formed
                memory = formed.reclaim()
            chunk, count = ChunkSum(memory), 0
            del result, formed, memory
    formed = chunk.sum()
    if formed is not None:
        yield formed
