"""Who was to train what in a round, as a blob: the column `round.assignment` of `run.sqlite`.

It is zlib-compressed: a little-endian uint32 n, then n int64 client ids, n uint16 task numbers
(table `task`) and n float64 probabilities.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from mmfl.allocate import Assignments
from mmfl.errors import StoreError

__all__ = ["pack_assignments", "unpack_assignments"]

_DAMAGED = "an assignment in the run's database is damaged"

_INFLATED = 1 << 30
"""The most bytes that the assignments of a round may take."""


def pack_assignments(assignments: Assignments) -> bytes:
    """The blob of `round.assignment`."""
    head = struct.pack("<I", len(assignments))
    columns = (
        assignments.clients.astype("<i8").tobytes(),
        assignments.tasks.astype("<u2").tobytes(),
        assignments.probabilities.astype("<f8").tobytes(),
    )
    return zlib.compress(head + b"".join(columns), 1)


def unpack_assignments(blob: bytes) -> Assignments:
    """The inverse of `pack_assignments`."""
    try:
        inflating = zlib.decompressobj()
        data = inflating.decompress(blob, _INFLATED)
        (n,) = struct.unpack_from("<I", data)
    except (zlib.error, struct.error):
        raise StoreError(_DAMAGED) from None
    if not inflating.eof or len(data) != 4 + 18 * n:
        raise StoreError(_DAMAGED)
    return Assignments(
        np.frombuffer(data, "<i8", n, 4).astype(np.int64),
        np.frombuffer(data, "<u2", n, 4 + 8 * n).astype(np.int64),
        np.frombuffer(data, "<f8", n, 4 + 10 * n).astype(np.float64),
    )
