"""Updates of the right form with wrong numbers in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mmfl.config import Positive, component
from mmfl.exchange import ClientUpdate, Params
from mmfl.faults.base import delta_of
from mmfl.rng import Stream

__all__ = ["Inf", "Nan", "Scaled", "SignFlipped"]


def _with_one(update: ClientUpdate, value: float, rng: Stream) -> list[ClientUpdate]:
    """The update with this value in one place: harder to detect than an update full of it."""
    delta = delta_of(update)
    flat = delta.flat.copy()
    flat[rng.integers(len(flat))] = value
    return [dataclasses.replace(update, delta=Params(delta.layout, flat))]


def _times(update: ClientUpdate, factor: float) -> list[ClientUpdate]:
    delta = delta_of(update)
    with np.errstate(over="ignore"):
        flat = (delta.flat * np.float64(factor)).astype(np.float32)
    return [dataclasses.replace(update, delta=Params(delta.layout, flat))]


@component
class Nan:
    """Sends an update in which one number is NaN."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """In a random place."""
        return _with_one(update, float("nan"), rng)


@component
class Inf:
    """Sends an update in which one number is infinite."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """In a random place."""
        return _with_one(update, float("inf"), rng)


@component
class Scaled:
    """Sends the update times `factor`, as in model replacement (Bagdasaryan et al. 2020).

    Attributes:
        factor: What the update is multiplied by.
    """

    factor: Positive = 10.0

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """The update times `factor`."""
        return _times(update, self.factor)


@component
class SignFlipped:
    """Sends the update with its sign flipped, times `factor`: away from what the client learnt.

    Attributes:
        factor: What the flipped update is multiplied by.
    """

    factor: Positive = 1.0

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """The update times `-factor`."""
        return _times(update, -self.factor)
