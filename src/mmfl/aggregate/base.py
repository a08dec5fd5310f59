"""The aggregator protocols, and the one order in which all engines add updates up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.params import Params
from mmfl.updates import CHUNK, ClientFailure, ClientUpdate, PartialSum

__all__ = ["Aggregator", "ChunkSum", "CollectingAggregator", "MergingAggregator", "partial_sums"]


class MergingAggregator(Protocol):
    """Partial sums suffice: engines may form them where the updates are, and memory stays small."""

    mergeable: ClassVar[Literal[True]]

    def aggregate(
        self, params: Params, updates: Iterable[PartialSum], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights, in memory of their own; without updates, the same weights."""
        ...


class CollectingAggregator(Protocol):
    """Each update is needed by itself (medians, Krum, q-Fel)."""

    mergeable: ClassVar[Literal[False]]

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights, in memory of their own; without updates, the same weights."""
        ...


Doubles = npt.NDArray[np.float64]

BLOCK = 1 << 16
"""So many numbers are cast to float64 at a time: they stay in the processor's cache."""

Aggregator = MergingAggregator | CollectingAggregator


class ChunkSum:
    """The float64 sum of examples x delta over one chunk's accepted updates, in job order.

    It is formed while they arrive: none of them has to be kept.
    """

    def __init__(self) -> None:
        self._total: Doubles | None = None
        self._examples = 0
        self._scratch = np.empty(BLOCK)

    def add(self, update: ClientUpdate) -> None:
        """Add examples x delta; the product is exact, so the order of the sum alone matters."""
        assert isinstance(update.delta, Params), "only checked updates are summed"
        flat = update.delta.flat
        if self._total is None:
            self._total = np.multiply(flat, update.examples, dtype=np.float64)
        else:
            for start in range(0, len(flat), BLOCK):
                block, part = flat[start : start + BLOCK], self._total[start : start + BLOCK]
                term = self._scratch[: len(block)]
                part += np.multiply(block, update.examples, out=term, dtype=np.float64)
        self._examples += update.examples

    def sum(self) -> PartialSum | None:
        """What was added; None if nothing was."""
        return None if self._total is None else PartialSum(self._total, self._examples)


def partial_sums(results: Iterable[ClientUpdate | ClientFailure]) -> Iterator[PartialSum]:
    """One sum per chunk of `CHUNK` consecutive results of a task that has an accepted update.

    An update is used before the next result is asked for.
    """
    left = iter(results)
    while True:
        chunk, formed, count = ChunkSum(), None, 0
        for result in islice(left, CHUNK):
            formed = result.partial
            if isinstance(result, ClientUpdate) and result.delta is not None:
                chunk.add(result)
            count += 1
        formed = formed or chunk.sum()
        if formed is not None:
            yield formed
        if count < CHUNK:
            return
