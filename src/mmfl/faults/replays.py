"""Good updates in the wrong place: twice, or under the address of another turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mmfl.config import Count, component
from mmfl.exchange import ClientUpdate
from mmfl.rng import Stream

__all__ = ["Duplicate", "ReplayedRound", "ReplayedTask"]


@component
class Duplicate:
    """Sends its update twice."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """The update, and the update."""
        return [update, update]


@component
class ReplayedRound:
    """Answers with an update from `back` rounds ago.

    Attributes:
        back: How many rounds ago.
    """

    back: Count = 1

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """The address decides: whatever is in such an update, it is not what was asked for."""
        at = update.address
        return [dataclasses.replace(update, address=at._replace(round=at.round - self.back))]


@component
class ReplayedTask:
    """Answers with an update for another task."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """A random one of the others."""
        others = [task for task in sorted(tasks) if task != update.address.task]
        other = others[int(rng.integers(len(others)))]
        return [dataclasses.replace(update, address=update.address._replace(task=other))]
