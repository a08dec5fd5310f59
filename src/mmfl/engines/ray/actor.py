"""The worker on Ray: an actor around the same handler of requests as in the local engine."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import MmflWarning
from mmfl.exchange import Flat
from mmfl.system.child import ONE_THREAD, Message

__all__ = ["Actor"]

_KEEP_MEMORY = {-3: 1_000_000_000, -1: 1_000_000_000, -2: 100_000_000}
"""What `mmfl.engines.processes` says in the environment: here the process runs already."""


class Actor:
    """A handler of requests in its own process.

    Args:
        path: Where to look for modules: where the coordinator does.
        folder: The coordinator's, for relative paths; it may not exist on this machine.
    """

    def __init__(self, path: Sequence[str], folder: str) -> None:
        os.environ.update(ONE_THREAD)
        sys.path += [entry for entry in path if entry not in sys.path]
        with suppress(OSError):
            os.chdir(folder)
        with suppress(OSError, AttributeError):  # not every system has glibc
            for option, value in _KEEP_MEMORY.items():
                ctypes.CDLL(None).mallopt(option, value)
        warnings.simplefilter("ignore", MmflWarning)  # the coordinator has shown them already
        import ray
        import torch

        from mmfl.engines.handler import Handler

        torch.set_num_threads(1)
        node = ray.get_runtime_context().get_node_id()[:8]
        self._machine = f"{ray.util.get_node_ip_address()} (node {node})"
        self._handler = Handler(_StoreMemory())

    def answer(self, request: Message) -> tuple[Message, Any]:
        """The answer to a request; that to a probe says where this is."""
        reply, frame = self._handler.answer(request)
        return reply | {"machine": self._machine} if "probe" in reply else reply, frame


class _StoreMemory:
    """What workers see of an `mmfl.engines.ray.object_store.ObjectStore`."""

    def __init__(self) -> None:
        import ray

        self._get = ray.get
        self._weights: dict[str, tuple[Any, Flat]] = {}
        self._place: npt.NDArray[Any] = np.empty(0)

    def attach_data(self, manifest: Mapping[str, Any]) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays, in the memory that all workers of this machine share."""
        return dict(zip(manifest, self._get([*manifest.values()]), strict=True))

    def attach_weights(self, manifest: Any) -> None:
        """A request says where they are."""

    def find_weights(self, task: str, where: Any) -> Flat:
        """Weights are fetched once."""
        known, flat = self._weights.get(task, (None, None))
        if flat is None or known != where:
            flat = self._get(where)
            self._weights[task] = where, flat
        return flat

    def find_place(self, slot: None, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """The place of the last result: that was copied when it was sent."""
        if (self._place.dtype, len(self._place)) != (dtype, count):
            self._place = np.empty(count, dtype)
        return self._place

    def deliver(self, place: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The result goes with the answer."""
        return place
