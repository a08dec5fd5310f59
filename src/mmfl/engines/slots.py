"""Places in a growing file into which workers put results, and from which we take them."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.engines.arena import Arena, reserve

__all__ = ["Slots"]


class Slots:
    """A pool of places of one size; the file lives as long as the engine."""

    def __init__(self) -> None:
        self._arena = Arena()
        self.fd = self._arena.fd
        self._size = 0
        self._free: list[int] = []
        self._maps: list[mmap.mmap] = []

    @property
    def size(self) -> int:
        """Bytes of a slot."""
        return self._size

    @size.setter
    def size(self, wanted: int) -> None:
        self._maps = []
        self._size = -(-max(wanted, 1) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY

    def take(self) -> int:
        """The number of a free place."""
        if self._free:
            return self._free.pop()
        number = len(self._maps)
        reserve(self.fd, (number + 1) * self._size)
        self._maps.append(mmap.mmap(self.fd, self._size, offset=number * self._size))
        return number

    def reset(self) -> None:
        """All slots are free again, also those of a training that was broken off."""
        self._free = list(range(len(self._maps)))

    def give_back(self, number: int) -> None:
        """A place is free again."""
        self._free.append(number)

    def read(self, number: int, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """What lies in a place, as long as it is not given back."""
        return np.frombuffer(self._maps[number], dtype, count)

    def close(self) -> None:
        """Give the file back."""
        self._maps = []
        self._arena.close()
