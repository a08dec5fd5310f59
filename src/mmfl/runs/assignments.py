"""Who was to train what in a round, and how it ended, as blobs: two columns of `run.sqlite`.

`round.assignment` is zlib-compressed: a little-endian uint32 n, then n int64 client ids, n uint16
task numbers (table `task`) and n float64 probabilities.

`round.turns` is about the same n turns, in the same order: n uint8 (1 = its update was accepted, 0
= it failed), then n int64 (examples that the client holds), n float64 (loss), n float64 (norm) and
n float64 (seconds), little-endian, not compressed. Of a turn that failed these are 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.allocate import Assignments
from mmfl.errors import StoreError

__all__ = ["TurnColumns", "pack_assignments", "pack_turns", "unpack_assignments", "unpack_turns"]

_DAMAGED = "an assignment in the run's database is damaged"
_DAMAGED_TURNS = "the turns of a round in the run's database are damaged"

_INFLATED = 1 << 30
"""The most bytes that the assignments of a round may take."""

_TURN = (
    ("accepted", "u1"),
    ("examples", "<i8"),
    *((n, "<f8") for n in ("loss", "norm", "seconds")),
)


class TurnColumns(NamedTuple):
    """How the turns of a round ended; one entry per assignment.

    Attributes:
        accepted: Whether its update was accepted.
        examples: How many examples of the task the client holds.
        loss: The loss of the turn's first batch, at the weights received.
        norm: The Euclidean norm of the update.
        seconds: How long it took.
    """

    accepted: npt.NDArray[np.bool_]
    examples: npt.NDArray[np.int64]
    loss: npt.NDArray[np.float64]
    norm: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]


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


def pack_turns(
    assignments: Assignments, tasks: Sequence[str], accepted: Sequence[tuple[Any, ...]]
) -> bytes:
    """The blob of `round.turns`.

    Args:
        assignments: Who was to train what.
        tasks: The names of the tasks, by number.
        accepted: (client, task, loss, norm, examples, seconds) of each accepted update.
    """
    columns = {name: np.zeros(len(assignments), kind) for name, kind in _TURN}
    if accepted:
        clients, names, loss, norm, examples, seconds = zip(*accepted, strict=True)
        number = {task: n for n, task in enumerate(tasks)}
        rows = _find_rows(assignments, clients, [number[name] for name in names])
        given = (1, examples, loss, norm, seconds)
        for column, values in zip(columns.values(), given, strict=True):
            column[rows] = values
    return b"".join(column.tobytes() for column in columns.values())


def unpack_turns(blob: bytes, assignments: Assignments) -> TurnColumns:
    """The inverse of `pack_turns`."""
    n, place, columns = len(assignments), 0, []
    if len(blob) != n * sum(np.dtype(kind).itemsize for _, kind in _TURN):
        raise StoreError(_DAMAGED_TURNS)
    for _, kind in _TURN:
        columns.append(np.frombuffer(blob, kind, n, place))
        place += columns[-1].nbytes
    accepted, examples = columns[:2]
    if accepted.max(initial=0) > 1 or examples.min(initial=0) < 0:
        raise StoreError(_DAMAGED_TURNS)
    return TurnColumns(accepted.astype(bool), *columns[1:])


def _find_rows(
    assignments: Assignments, clients: Sequence[int], tasks: Sequence[int]
) -> npt.NDArray[np.int64]:
    """The places of these clients and tasks among the assignments."""
    order = np.lexsort((assignments.clients, assignments.tasks))  # that of the jobs
    if np.array_equal(assignments.clients[order], clients) and np.array_equal(
        assignments.tasks[order], tasks
    ):
        return order
    pairs = zip(assignments.clients.tolist(), assignments.tasks.tolist(), strict=True)
    place = {pair: row for row, pair in enumerate(pairs)}
    return np.array([place[pair] for pair in zip(clients, tasks, strict=True)], np.int64)
