"""Weights as one flat float32 vector with named views: what is aggregated, checked, mapped, stored.

A `Layout` says which tensors a model has, in which order and shape. `Params` is a flat vector that
is also a mapping from name to array: the views share the vector's memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["Flat", "Layout", "Params"]

Flat = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """The names and shapes of a model's tensors, in the order in which they lie in memory."""

    entries: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, entries: list[tuple[str, list[int]]]) -> Layout:
        """A layout from plain lists, as they come out of JSON."""
        return cls(tuple((name, tuple(shape)) for name, shape in entries))

    @cached_property
    def size(self) -> int:
        """How many numbers the model has."""
        return sum(math.prod(shape) for _, shape in self.entries)

    @cached_property
    def places(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """From name to (offset, shape)."""
        places, offset = {}, 0
        for name, shape in self.entries:
            places[name] = (offset, shape)
            offset += math.prod(shape)
        return places

    @cached_property
    def statistics(self) -> tuple[slice, ...]:
        """Where the running statistics of norms lie, which torch calls running_mean, running_var.

        They are no weights: an aggregator averages them, whatever step it takes with weights.
        """
        return tuple(
            slice(offset, offset + math.prod(shape))
            for name, (offset, shape) in self.places.items()
            if name.rpartition(".")[2] in ("running_mean", "running_var")
        )


class Params(Mapping[str, Flat]):
    """A model's weights (or a change of them): one flat vector, with a named view per tensor."""

    __slots__ = ("flat", "layout")

    def __init__(self, layout: Layout, flat: Flat) -> None:
        if flat.shape != (layout.size,) or flat.dtype != np.float32:
            raise ValueError(
                f"a flat vector of {layout.size} float32 numbers is needed, "
                f"got {flat.dtype} of shape {flat.shape}"
            )
        self.layout = layout
        self.flat = flat

    @classmethod
    def pack(cls, layout: Layout, tensors: Mapping[str, npt.NDArray[np.generic]]) -> Params:
        """Copy named arrays into one vector; their shapes have been checked before."""
        parts = [np.asarray(tensors[name], np.float32).reshape(-1) for name, _ in layout.entries]
        return cls(layout, np.concatenate(parts) if parts else np.empty(0, np.float32))

    def __getitem__(self, name: str) -> Flat:
        offset, shape = self.layout.places[name]
        return self.flat[offset : offset + math.prod(shape)].reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.places)

    def __len__(self) -> int:
        return len(self.layout.entries)

    def __repr__(self) -> str:
        return f"Params({len(self)} tensors, {self.layout.size} numbers)"
