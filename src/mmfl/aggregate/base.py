"""The aggregator protocols, and the one order in which all engines add updates up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from mmfl.params import Params
from mmfl.updates import CHUNK, ClientFailure, ClientUpdate, PartialSum

__all__ = ["Aggregator", "CollectingAggregator", "MergingAggregator", "partial_sum", "partial_sums"]


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


Aggregator = MergingAggregator | CollectingAggregator


def partial_sum(updates: Iterable[ClientUpdate]) -> PartialSum | None:
    """The float64 sum of examples x delta over one chunk's accepted updates, in job order."""
    total, examples = None, 0
    for update in updates:
        assert isinstance(update.delta, Params), "only checked updates are summed"
        term = np.multiply(update.delta.flat, update.examples, dtype=np.float64)
        total = term if total is None else np.add(total, term, out=total)
        examples += update.examples
    return None if total is None else PartialSum(total, examples)


def partial_sums(results: Iterable[ClientUpdate | ClientFailure]) -> Iterator[PartialSum]:
    """One sum per chunk of `CHUNK` consecutive results of a task that has an accepted update."""
    chunk: list[ClientUpdate | ClientFailure] = []
    for result in results:
        chunk.append(result)
        if len(chunk) == CHUNK:
            yield from _sum_of(chunk)
            chunk = []
    yield from _sum_of(chunk)


def _sum_of(chunk: Sequence[ClientUpdate | ClientFailure]) -> Iterator[PartialSum]:
    formed = chunk[-1].partial if chunk else None
    if formed is None:
        formed = partial_sum(result for result in chunk if isinstance(result, ClientUpdate))
    if formed is not None:
        yield formed
