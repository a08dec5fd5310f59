"""What the server remembers about clients: it grows with their turns, not with their number.

The problem: each round looks up and changes the m active clients, among n that ever had a turn,
and a table is a value: that of an earlier round must stay as it was. A copy of n rows in every
round is too slow, and a place for every client too large.

The method: keep the turns of segments of rounds, each segment at least twice as long as the next
(J. L. Bentley, J. B. Saxe: "Decomposable Searching Problems I. Static-to-Dynamic Transformation",
J. Algorithms 1980). A round adds its own segment and merges it with those before it
that are too short for that. So a turn is moved O(log(n / m)) times, and a client is looked up in as
many segments. Segments are never changed: tables share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["ClientTable", "Segment"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 12
"""How many rows of segments are joined at a time: extra memory stays small."""


class Segment(NamedTuple):
    """Turns of some rounds: one row, of 30 bytes, for each client and task; ascending by both.

    Attributes:
        ids: (r) whose turn.
        columns: (r) the task's number in the table.
        counts: (r) accepted turns in these rounds.
        loss: (r) loss of the last of them at its start.
        norm: (r) norm of its update.
    """

    ids: Ints
    columns: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint32]
    loss: Floats
    norm: Floats


def _merge(parts: Sequence[Segment], tasks: int) -> Segment:
    """Segments, from the oldest to the newest, as one."""
    borders = max((part.ids for part in parts), key=len)[_BLOCK::_BLOCK]
    cuts = [[0, *np.searchsorted(part.ids, borders).tolist(), len(part.ids)] for part in parts]
    blocks = []
    for ends in zip(*map(pairwise, cuts), strict=True):
        some = [Segment._make(a[i:j] for a in p) for p, (i, j) in zip(parts, ends, strict=True)]
        blocks.append(_merge_rows(some, tasks))
    if len(blocks) == 1:
        return blocks[0]
    arrays = [list(array) for array in zip(*blocks, strict=True)]
    del blocks  # so that each array's blocks are given back before the next array is made
    return Segment._make(np.concatenate(arrays.pop(0)) for _ in Segment._fields)


def _merge_rows(parts: Sequence[Segment], tasks: int) -> Segment:
    """Rows in the order of time become one row for each client and task, in ascending order.

    Counts are added up; loss and norm are those of the newest row.
    """
    rows = Segment._make(map(np.concatenate, zip(*parts, strict=True)))
    if not len(rows.ids):
        return parts[0]
    order, key = _sort_stably(rows, tasks)
    first = np.flatnonzero(np.diff(key, prepend=-1))  # where each client and task begins
    newest = order[np.append(first[1:], len(key)) - 1]
    counts = np.add.reduceat(rows.counts[order], first, dtype=np.uint32)
    return Segment(
        rows.ids[newest], rows.columns[newest], counts, rows.loss[newest], rows.norm[newest]
    )


def _sort_stably(rows: Segment, tasks: int) -> tuple[Ints, Ints]:
    """The order by client and task, equal ones by time; and a key of each row in that order."""
    by_client = np.argsort(rows.ids, kind="stable")  # quick: parts are mostly sorted
    ids = rows.ids[by_client]
    # The client's rank instead of its id: an id times the number of tasks may be too large.
    rank = np.cumsum(np.diff(ids, prepend=ids[:1]) != 0)
    key: Ints = rank * np.int64(tasks) + rows.columns[by_client]
    by_task = np.argsort(key, kind="stable")
    return by_client[by_task], key[by_task]


def _find_rows(segment: Segment, ids: Ints) -> tuple[Ints, Ints]:
    """(which of the ids, which row of the segment) for each row that belongs to one of the ids."""
    start = np.searchsorted(segment.ids, ids)
    known = np.flatnonzero(start < len(segment.ids))
    known = known[segment.ids[start[known]] == ids[known]]
    start = start[known]
    lengths = np.searchsorted(segment.ids, ids[known], "right") - start
    before = np.cumsum(lengths) - lengths  # rows of the ids before
    rows = np.arange(lengths.sum()) + np.repeat(start - before, lengths)
    return np.repeat(known, lengths), rows


@dataclass(frozen=True, eq=False)
class ClientTable:
    """What is remembered of clients that had a turn, by id; others cost nothing.

    The whole table as arrays, rows by ascending client, is made when it is asked for: `ids` (n),
    `counts` (n, S), `loss` (n, S) and `norm` (n, S), see `rows`. For a file, use `whole`.

    Attributes:
        tasks: (S) what the columns are.
        segments: From the oldest and longest to the newest.
    """

    tasks: tuple[str, ...]
    segments: tuple[Segment, ...] = ()

    @classmethod
    def empty(cls, tasks: Iterable[str]) -> ClientTable:
        """Nobody had a turn."""
        return cls(tuple(tasks))

    def rows(self, ids: Ints, tasks: Sequence[str]) -> tuple[Ints, Floats, Floats]:
        """Of these clients, with a column for each of these tasks.

        Returns:
            counts: Turns that were accepted.
            loss: Loss of the last one at its start; NaN = none yet.
            norm: Norm of its update; NaN = none yet.
        """
        counts, loss, norm = self._rows(ids)
        if tuple(tasks) == self.tasks:
            return counts, loss, norm
        columns = [self.tasks.index(task) for task in tasks]
        return counts[:, columns], loss[:, columns], norm[:, columns]

    def _rows(self, ids: Ints) -> tuple[Ints, Floats, Floats]:
        shape = (len(ids), len(self.tasks))
        counts, loss = np.zeros(shape, np.int64), np.full(shape, np.nan)
        norm = loss.copy()
        for segment in self.segments:
            which, rows = _find_rows(segment, ids)
            cell = (which, segment.columns[rows])
            counts[cell] += segment.counts[rows]
            loss[cell], norm[cell] = segment.loss[rows], segment.norm[rows]
        return counts, loss, norm

    def turns(self, tasks: Sequence[str]) -> Ints:
        """(S) turns that were accepted, of all clients."""
        total = np.zeros(len(self.tasks))
        for segment in self.segments:
            total += np.bincount(segment.columns, segment.counts, len(self.tasks))
        return total[[self.tasks.index(task) for task in tasks]].astype(np.int64)

    def after(self, turns: Sequence[tuple[Any, ...]]) -> ClientTable:
        """The table after turns: (client, task, loss, norm) each, and perhaps more."""
        if not turns:
            return self
        clients, names, loss, norm, *_ = zip(*turns, strict=True)
        number = {task: column for column, task in enumerate(self.tasks)}
        new = Segment(
            np.array(clients, np.int64),
            np.array([number[name] for name in names], np.uint16),
            np.ones(len(turns), np.uint32),
            np.array(loss, np.float64),
            np.array(norm, np.float64),
        )
        kept, length = len(self.segments), len(turns)
        while kept and len(self.segments[kept - 1].ids) < 2 * length:
            kept -= 1
            length += len(self.segments[kept].ids)
        S = len(self.tasks)
        joined = _merge([*self.segments[kept:], _merge_rows([new], S)], S)
        return ClientTable(self.tasks, (*self.segments[:kept], joined))

    @cached_property
    def whole(self) -> Segment:
        """All turns as one segment: ``ClientTable(tasks, (whole,))`` is an equal table."""
        if len(self.segments) == 1:
            return self.segments[0]
        kinds = (np.int64, np.uint16, np.uint32, np.float64, np.float64)
        nothing = Segment._make(np.empty(0, kind) for kind in kinds)
        return _merge([nothing, *self.segments], len(self.tasks))

    @property
    def ids(self) -> Ints:
        """(n) the clients that had a turn, ascending."""
        ids = self.whole.ids
        return ids[np.flatnonzero(np.diff(ids, prepend=-1))]

    @property
    def counts(self) -> Ints:
        """(n, S) turns that were accepted."""
        return self._rows(self.ids)[0]

    @property
    def loss(self) -> Floats:
        """(n, S) loss of the last one at its start; NaN = none yet."""
        return self._rows(self.ids)[1]

    @property
    def norm(self) -> Floats:
        """(n, S) norm of its update; NaN = none yet."""
        return self._rows(self.ids)[2]
