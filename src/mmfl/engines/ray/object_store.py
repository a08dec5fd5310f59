"""Ray's object store as a transport: an array is put in once, and each machine fetches it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.engines.ray.connection import Connection
from mmfl.errors import EngineError, text_of
from mmfl.exchange import Flat, Layout, Params

__all__ = ["ObjectStore"]


class ObjectStore:
    """See `mmfl.engines.processes.Transport`.

    Args:
        connection: To Ray; released when this is closed.
    """

    copies = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._arrays: Mapping[str, npt.NDArray[Any]] = {}
        self._shared: dict[str, Any] = {}
        self._weights: dict[str, tuple[Params, Flat, Any]] = {}

    def share(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        """Put arrays in, unless they are there already."""
        known = {id(array): self._shared[key] for key, array in self._arrays.items()}
        shared = {}
        for key, array in arrays.items():
            shared[key] = known[id(array)] if id(array) in known else self._put(array)
        self._arrays, self._shared = arrays, shared
        return shared

    def reserve(self, layouts: Mapping[str, Layout]) -> None:
        """The weights of other models are not needed any more."""
        self._weights.clear()

    def publish(self, task: str, weights: Params) -> None:
        """Put a task's weights in, unless they are there already."""
        known = self._weights.get(task)
        if known is None or known[0] is not weights or not _have_same_bits(known[1], weights.flat):
            reference = self._put(weights.flat)
            self._weights[task] = weights, self._connection.ray.get(reference), reference

    def locate(self, task: str) -> Any:
        """A reference."""
        return self._weights[task][2]

    def take(self, size: int) -> None:
        """Workers return their results."""

    def give_back(self, slot: Any) -> None:
        """There are no places."""

    def read(self, slot: object, frame: Any, count: int) -> Flat:
        """A delta, in the object store of this machine."""
        return _check(frame, np.float32, count)

    def lend(self, slot: object, frame: Any, count: int) -> npt.NDArray[np.float64]:
        """A copy of a sum: what is in the object store cannot be written to."""
        return _check(frame, np.float64, count).copy()

    def close(self) -> None:
        """Forget all references, and release the connection."""
        self._arrays, self._shared = {}, {}
        self._weights.clear()
        self._connection.release()

    def _put(self, array: npt.NDArray[Any]) -> Any:
        ray = self._connection.ray
        try:
            return ray.put(np.ascontiguousarray(array))
        except ray.exceptions.RayError as error:
            said = text_of(error).partition("\n")[0]
            raise EngineError(f"Ray cannot keep {array.nbytes:,} bytes: {said}") from None


def _have_same_bits(one: Flat, other: Flat) -> bool:
    return bool(np.array_equal(one.view(np.uint32), other.view(np.uint32)))


def _check(frame: Any, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    assert isinstance(frame, np.ndarray)
    assert (frame.dtype, frame.shape) == (dtype, (count,))
    return frame
