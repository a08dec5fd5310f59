"""What the server remembers of clients: it grows with the turns they had, not with their number.

The problem: each round looks up and changes the m active clients, among n that ever had a turn,
and a table is a value: that of an earlier round must stay as it was. A copy of n rows in every
round is too slow, and a place for every client too large.

The method: keep the turns of stretches of rounds, each stretch at least twice as long as the next
(J. L. Bentley, J. B. Saxe: "Decomposable Searching Problems I. Static-to-Dynamic Transformation",
J. Algorithms 1980). A round adds a stretch of its own and puts it together with those before it
that are too short for that. So a turn is moved O(log(n / m)) times, and a client is looked up in as
many stretches. Stretches are never changed: tables share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["ClientTable", "Stretch"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 12
"""Stretches are put together so many rows at a time: what lies beside the result stays small."""


class Stretch(NamedTuple):
    """Turns of some rounds: one row, of 30 bytes, for each client and task; ascending by both.

    Attributes:
        ids: (r) whose turn.
        columns: (r) the task's number in the table.
        counts: (r) accepted turns in these rounds.
        loss: (r) loss of the last of them at its beginning.
        norm: (r) norm of its update.
    """

    ids: Ints
    columns: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint32]
    loss: Floats
    norm: Floats


def _together(parts: Sequence[Stretch], tasks: int) -> Stretch:
    """Stretches, from the oldest to the newest, as one."""
    borders = max((part.ids for part in parts), key=len)[_BLOCK::_BLOCK]
    cuts = [[0, *np.searchsorted(part.ids, borders).tolist(), len(part.ids)] for part in parts]
    blocks = []
    for ends in zip(*map(pairwise, cuts), strict=True):
        some = [Stretch._make(a[i:j] for a in p) for p, (i, j) in zip(parts, ends, strict=True)]
        blocks.append(_tidy(some, tasks))
    if len(blocks) == 1:
        return blocks[0]
    arrays = [list(array) for array in zip(*blocks, strict=True)]
    del blocks  # so that each array's blocks are given back before the next array is made
    return Stretch._make(np.concatenate(arrays.pop(0)) for _ in Stretch._fields)


def _tidy(parts: Sequence[Stretch], tasks: int) -> Stretch:
    """Rows in the order of time, put together and in order: one for each client and task."""
    ids, columns, counts, loss, norm = map(np.concatenate, zip(*parts, strict=True))
    if not len(ids):
        return parts[0]
    order = np.argsort(ids, kind="stable")  # quick: parts are mostly sorted
    ids = ids[order]
    # The client's rank instead of its id: an id times the number of tasks may be too large.
    key = np.cumsum(np.diff(ids, prepend=ids[:1]) != 0) * tasks + columns[order]
    again = np.argsort(key, kind="stable")
    order, key = order[again], key[again]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    last = order[np.append(first[1:], len(key)) - 1]
    counts = np.add.reduceat(counts[order], first, dtype=np.uint32)
    return Stretch(ids[again[first]], columns[last], counts, loss[last], norm[last])


@dataclass(frozen=True, eq=False)
class ClientTable:
    """What is remembered of clients that had a turn, by id; others cost nothing.

    The whole table as arrays, rows by ascending client, is made when it is asked for: `ids` (n),
    `counts` (n, S), `loss` (n, S) and `norm` (n, S), see `rows`. A file is better off with `whole`.

    Attributes:
        tasks: (S) what the columns are.
        stretches: From the oldest and longest to the newest.
    """

    tasks: tuple[str, ...]
    stretches: tuple[Stretch, ...] = ()

    @classmethod
    def empty(cls, tasks: Iterable[str]) -> ClientTable:
        """Nobody had a turn."""
        return cls(tuple(tasks))

    def rows(self, ids: Ints, tasks: Sequence[str]) -> tuple[Ints, Floats, Floats]:
        """Of these clients, with a column for each of these tasks.

        Returns:
            counts: Turns that were accepted.
            loss: Loss of the last one at its beginning; NaN = none yet.
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
        for part in self.stretches:
            start = np.searchsorted(part.ids, ids)
            known = np.flatnonzero(start < len(part.ids))
            known = known[part.ids[start[known]] == ids[known]]
            start = start[known]
            held = np.searchsorted(part.ids, ids[known], "right") - start
            ends = np.cumsum(held)
            at = np.arange(held.sum()) + np.repeat(start - ends + held, held)
            cell = (np.repeat(known, held), part.columns[at])
            counts[cell] += part.counts[at]
            loss[cell], norm[cell] = part.loss[at], part.norm[at]
        return counts, loss, norm

    def after(self, turns: Sequence[tuple[int, str, float, float]]) -> ClientTable:
        """The table after (client, task, loss, norm) turns."""
        if not turns:
            return self
        clients, names, loss, norm = zip(*turns, strict=True)
        number = {task: column for column, task in enumerate(self.tasks)}
        new = Stretch(
            np.array(clients, np.int64),
            np.array([number[name] for name in names], np.uint16),
            np.ones(len(turns), np.uint32),
            np.array(loss, np.float64),
            np.array(norm, np.float64),
        )
        kept, length = len(self.stretches), len(turns)
        while kept and len(self.stretches[kept - 1].ids) < 2 * length:
            kept -= 1
            length += len(self.stretches[kept].ids)
        S = len(self.tasks)
        joined = _together([*self.stretches[kept:], _tidy([new], S)], S)
        return ClientTable(self.tasks, (*self.stretches[:kept], joined))

    @cached_property
    def whole(self) -> Stretch:
        """All turns as one stretch: ``ClientTable(tasks, (whole,))`` is an equal table."""
        if len(self.stretches) == 1:
            return self.stretches[0]
        kinds = (np.int64, np.uint16, np.uint32, np.float64, np.float64)
        nothing = Stretch._make(np.empty(0, kind) for kind in kinds)
        return _together([nothing, *self.stretches], len(self.tasks))

    @property
    def ids(self) -> Ints:
        """(n) those who had a turn, ascending."""
        ids = self.whole.ids
        return ids[np.flatnonzero(np.diff(ids, prepend=-1))]

    @property
    def counts(self) -> Ints:
        """(n, S) turns that were accepted."""
        return self._rows(self.ids)[0]

    @property
    def loss(self) -> Floats:
        """(n, S) loss of the last one at its beginning; NaN = none yet."""
        return self._rows(self.ids)[1]

    @property
    def norm(self) -> Floats:
        """(n, S) norm of its update; NaN = none yet."""
        return self._rows(self.ids)[2]
