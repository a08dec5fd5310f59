"""Updates of another model: tensors that are missing, unknown or of another shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from mmfl.config import component
from mmfl.exchange import ClientUpdate, Flat
from mmfl.faults.base import delta_of
from mmfl.rng import Stream

__all__ = ["ExtraTensor", "MissingTensor", "WrongShape"]


def _some_name(tensors: Mapping[str, Flat], rng: Stream) -> str:
    return list(tensors)[int(rng.integers(len(tensors)))]


@component
class WrongShape:
    """Sends one tensor with an extra axis (and the same numbers)."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """A random one."""
        tensors = dict(delta_of(update))
        name = _some_name(tensors, rng)
        tensors[name] = tensors[name][np.newaxis]
        return [dataclasses.replace(update, delta=tensors)]


@component
class MissingTensor:
    """Leaves out one tensor."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """A random one."""
        tensors = dict(delta_of(update))
        del tensors[_some_name(tensors, rng)]
        return [dataclasses.replace(update, delta=tensors)]


@component
class ExtraTensor:
    """Sends a tensor that the model does not have."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """A single zero, under a name that is free."""
        tensors = dict(delta_of(update))
        name = "extra"
        while name in tensors:
            name += "_"
        return [dataclasses.replace(update, delta=tensors | {name: np.zeros(1, np.float32)})]
