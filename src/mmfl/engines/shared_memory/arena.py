"""Named arrays in a temporary file without a name, mapped by this process and its workers.

The file is unlinked from the start, so its space is freed however the processes end. It is in the
folder for temporary files (TMPDIR), not in /dev/shm, which is often too small. Space is reserved
before it is written to, so that a full disk is an error here and not a signal later.
"""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.child import temporary_file

__all__ = ["Arena", "Manifest", "attach", "extend", "map_part", "reserve"]

Manifest = dict[str, tuple[int, str, tuple[int, ...]]]
"""From name to (offset, dtype, shape)."""

_ALIGN = 64


class Arena:
    """The writing side: reserve space for arrays, then fill them in place."""

    def __init__(self) -> None:
        self._file = temporary_file()
        self.fd = self._file.fileno()
        self.manifest: Manifest = {}
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def reserve(self, wanted: Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]]) -> None:
        """Make room for arrays of these types and shapes, in the place of any before."""
        offset = 0
        manifest: Manifest = {}
        for name, (dtype, shape) in wanted.items():
            kind = np.dtype(dtype)
            manifest[name] = (offset, kind.str, shape)
            offset += -(-kind.itemsize * math.prod(shape) // _ALIGN) * _ALIGN
        reserve(self.fd, max(offset, 1))
        self.manifest, self.arrays = manifest, attach(self.fd, manifest, writable=True)

    def fill(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Make room for these arrays and copy them."""
        self.reserve({name: (array.dtype, array.shape) for name, array in arrays.items()})
        for name, array in arrays.items():
            np.copyto(self.arrays[name], array)

    def close(self) -> None:
        """Free the file; maps that are still in use live until they are dropped."""
        self.arrays = {}
        self._file.close()


def reserve(fd: int, size: int, *, start: int = 0) -> None:
    """Give a file at least this size, with disk space behind it from `start` on."""
    try:
        calls.reserve(fd, size, start)
    except OSError as error:
        raise EngineError(
            f"cannot reserve {size / 2**20:.1f} MiB in {tempfile.gettempdir()!r} for data and "
            f"weights: {error.strerror}; set TMPDIR to a folder with more room"
        ) from None


def extend(fd: int, size: int) -> None:
    """Make a file longer, by a hole: `reserve` puts space behind it."""
    try:
        calls.truncate(fd, size)
    except OSError as error:
        raise EngineError(
            f"cannot extend a file in {tempfile.gettempdir()!r} to {size / 2**20:.1f} MiB for "
            f"updates: {error.strerror}; set TMPDIR to a folder with more room"
        ) from None


def attach(fd: int, manifest: Manifest, *, writable: bool = False) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an arena, mapped; read-only unless asked otherwise."""
    memory = map_part(fd, 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
    return {
        name: np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
        for name, (offset, dtype, shape) in manifest.items()
    }


def map_part(
    fd: int, length: int, *, offset: int = 0, access: int = mmap.ACCESS_WRITE
) -> mmap.mmap:
    """Map a part of a file; all of it if `length` is 0."""
    try:
        return calls.map_file(fd, length, access=access, offset=offset)
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot map a file with data or weights into memory: {error}") from None
