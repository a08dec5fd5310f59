r"""The headers of NumPy's files: an array's size is known before any of it is read.

A .npy file begins with ``\x93NUMPY``, two bytes of version, the length of the header (two bytes,
little-endian; four from version 2 on) and the header: a dictionary with the keys `descr`,
`fortran_order` and `shape` (latin-1; UTF-8 from version 3 on). An .npz file is a zip archive of
.npy files. A header may claim anything, and a zip member may inflate to anything. So headers are
read here, by their own lengths, and `np.lib.format.read_array` reads no more than a header says.
"""

from __future__ import annotations

import ast
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["MAGIC", "Header", "members", "read_header", "read_member"]

MAGIC = b"\x93NUMPY"
_LONGEST = 10_000  # bytes of a head, as in NumPy's reader


@dataclass(frozen=True)
class Header:
    """What an array's header says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """The size of the array."""
        return self.dtype.itemsize * math.prod(self.shape)


def read_header(file: IO[bytes]) -> Header:
    """Read the header of a .npy file of any version; `ValueError` if there is none."""
    start = file.read(8)
    if start[:6] != MAGIC:
        raise ValueError("it is not in NumPy's npy format")
    if start[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise ValueError(f"its version {tuple(start[6:])} of the npy format is unknown")
    size = file.read(2 if start[6] == 1 else 4)
    length = int.from_bytes(size, "little")
    if length > _LONGEST:
        raise ValueError(f"its header has {length:,} bytes, but may have at most {_LONGEST:,}")
    text = file.read(length).decode("utf-8" if start[6] == 3 else "latin-1")
    try:
        head = ast.literal_eval(text)
        shape, kind = tuple(head["shape"]), np.lib.format.descr_to_dtype(head["descr"])
    except Exception:  # a damaged head can raise nearly anything
        raise ValueError("its header is damaged") from None
    if not all(type(number) is int and number >= 0 for number in shape):
        raise ValueError(f"its header is damaged: the shape must be whole numbers, got {shape}")
    return Header(shape, kind)


def members(archive: zipfile.ZipFile, names: Sequence[str]) -> dict[str, str]:
    """From an array's name to its member of an .npz archive, for those of these that it has."""
    here = {*archive.namelist()}
    return {
        name: f"{name}.npy" if f"{name}.npy" in here else name
        for name in names
        if {name, f"{name}.npy"} & here
    }


def read_member(archive: zipfile.ZipFile, member: str) -> npt.NDArray[Any]:
    """Read an array of an .npz archive whose header was read before."""
    with archive.open(member) as file:
        found: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found
