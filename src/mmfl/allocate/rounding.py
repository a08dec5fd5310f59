"""Dependent rounding: expected numbers of clients become whole numbers with that expectation.

R. Gandhi, S. Khuller, S. Parthasarathy, A. Srinivasan: "Dependent Rounding and its Applications to
Approximation Algorithms", J. ACM 2006.
"""

from __future__ import annotations

import numpy as np

from mmfl.allocate.base import Floats, Ints
from mmfl.rng import Stream

__all__ = ["round_counts"]

_UNIT = 1 << 52


def round_counts(expected: Floats, *, rng: Stream) -> Ints:
    """Round a table of expected counts to whole numbers without changing their expectation.

    Input: a non-negative table whose rows sum to whole numbers. Output: a random table of whole
    numbers with the same row sums; each entry and each column sum is its expectation rounded up or
    down; the mean of each entry is its expectation.

    1. Take the fractional parts, as whole multiples of 2^-52: from here on all is exact.
    2. Add a row that makes each column sum whole, so that every row and column with a fractional
       entry has at least two of them, and a walk along fractional entries must close a cycle.
    3. Along a cycle, move alternately up and down by the largest step that keeps all in [0, 1], in
       one of the two directions with probabilities that keep the mean: one entry becomes whole.
    """
    table = np.asarray(expected, dtype=np.float64)
    whole = np.floor(table)
    part = np.rint((table - whole) * _UNIT).astype(np.int64)
    _make_whole(part)
    part = np.vstack([part, -part.sum(axis=0) % _UNIT])
    counts = whole.astype(np.int64) + part[:-1] // _UNIT
    part %= _UNIT
    in_row = [dict.fromkeys(np.flatnonzero(row).tolist()) for row in part]
    in_column = [dict.fromkeys(np.flatnonzero(column).tolist()) for column in part.T]
    value = part.tolist()
    for start, left in enumerate(in_row):
        while left:
            cycle = _cycle(start, in_row, in_column)
            up = [value[r][c] for r, c in cycle[::2]]
            down = [value[r][c] for r, c in cycle[1::2]]
            rise = min(_UNIT - max(up), *down)
            fall = min(_UNIT - max(down), *up)
            step = rise if rng.random() < fall / (rise + fall) else -fall
            for r, c in cycle:
                value[r][c] = now = value[r][c] + step
                step = -step
                if now in {0, _UNIT}:
                    del in_row[r][c], in_column[c][r]
    counts += np.array(value[:-1], dtype=np.int64).reshape(counts.shape) // _UNIT
    return counts


def _make_whole(part: Ints) -> None:
    """Undo rounding errors, in place: the parts of a row add up to a whole number of units."""
    excess = part.sum(axis=1) % _UNIT
    excess[excess > _UNIT // 2] -= _UNIT
    for row in np.flatnonzero(excess).tolist():
        rest = int(excess[row])
        for column in np.argsort(-part[row], kind="stable").tolist():
            before = int(part[row, column])
            part[row, column] = after = min(max(before - rest, 0), _UNIT)
            rest -= before - after
            if not rest:
                break


def _cycle(
    start: int, in_row: list[dict[int, None]], in_column: list[dict[int, None]]
) -> list[tuple[int, int]]:
    """Entries of a cycle that alternates between a row and a column, walking from row `start`."""
    row, came_by = start, -1
    entries: list[tuple[int, int]] = []
    row_at: dict[int, int] = {}
    column_at: dict[int, int] = {}
    while row not in row_at:
        row_at[row] = len(entries)
        for column in in_row[row]:
            if column != came_by:
                break
        entries.append((row, column))
        if column in column_at:
            return entries[column_at[column] :]
        column_at[column] = len(entries)
        for other in in_column[column]:
            if other != row:
                break
        row = other
        entries.append((row, column))
        came_by = column
    return entries[row_at[row] :]
