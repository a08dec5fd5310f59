"""The local engine's transport: data, weights and results in files that its workers map, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.engines.shared_memory.arena import Arena, Manifest
from mmfl.engines.shared_memory.slots import Slot, Slots
from mmfl.exchange import Flat, Layout, Params
from mmfl.system.child import Message

__all__ = ["MappedFiles"]


class MappedFiles:
    """See `mmfl.engines.processes.Transport`.

    Attributes:
        files: Their descriptors, for workers: of data, of weights, and of slots.
    """

    copies = False

    def __init__(self) -> None:
        self._data, self._weights, self.slots = Arena(), Arena(), Slots()
        self._shared: Mapping[str, npt.NDArray[Any]] = {}
        self.files = (self._data.fd, self._weights.fd, *self.slots.files)
        self.take, self.give_back = self.slots.take, self.slots.give_back

    def share(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Manifest:
        """Map arrays, unless they are those of the last time."""
        known = {key: id(array) for key, array in self._shared.items()}
        if known != {key: id(array) for key, array in arrays.items()}:
            self._shared = {}
            self._data.fill(arrays)
            self._shared = arrays
        return self._data.manifest

    def reserve(self, layouts: Mapping[str, Layout]) -> Message:
        """Make room for the weights."""
        self._weights.reserve({task: (np.float32, (one.size,)) for task, one in layouts.items()})
        return {"do": "weights", "manifest": self._weights.manifest}

    def publish(self, task: str, weights: Params) -> None:
        """Copy a task's weights to where workers read them."""
        np.copyto(self._weights.arrays[task], weights.flat)

    def locate(self, task: str) -> None:
        """Workers were told when room was made."""

    def read(self, slot: Slot | None, frame: Any, count: int) -> Flat:
        """A delta in its slot."""
        assert slot is not None
        return self.slots.read(slot, np.float32, count)

    def lend(self, slot: Slot | None, frame: Any, count: int) -> npt.NDArray[np.float64]:
        """A sum in its slot."""
        assert slot is not None
        return self.slots.lend(slot, np.float64, count)

    def close(self) -> None:
        """Free the files."""
        self._data.close()
        self._weights.close()
        self.slots.close()
