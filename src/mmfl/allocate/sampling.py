"""From probabilities to assignments: independent or stratified draws, and a floor per task.

Clients with the same set of eligible tasks (a *pattern*) share their probabilities, so all work is
done per pattern. Tasks are read in the order of their names and each client's draw is addressed by
its id: neither the order of the tasks in a configuration nor the other clients move a client's
draw.

Stratified draws use dependent rounding (R. Gandhi, S. Khuller, S. Parthasarathy, A. Srinivasan:
"Dependent Rounding and its Applications to Approximation Algorithms", J. ACM 2006) on the small
table of expected counts per pattern and task; within a pattern the clients are then shuffled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, Bools, Floats, Ints, View
from mmfl.rng import Stream

__all__ = ["Sampling", "round_counts", "sample"]

Columns = npt.NDArray[np.intp]
_UNIT = 1 << 52


class Sampling(NamedTuple):
    """How draws are made; see `FedFair`."""

    kind: Literal["independent", "stratified"]
    floor: int


def sample(
    view: View, probabilities: Callable[[Columns], Floats], sampling: Sampling, *, rng: Stream
) -> Assignments:
    """One task for each active client that may train any.

    Args:
        view: The round.
        probabilities: From the columns of a client's eligible tasks to its probabilities.
        sampling: The kind of draws, and the floor.
        rng: The round's stream.

    Returns:
        The assignments by ascending client. The probability of each is that of the draw, before a
        floor moved anybody.
    """
    by_name = np.array(sorted(range(len(view.tasks)), key=view.tasks.__getitem__), dtype=np.intp)
    groups = _patterns(view.eligible[:, by_name])
    tables = [probabilities(by_name[columns]) for _, columns in groups]
    if sampling.kind == "stratified":
        expected = np.zeros((len(groups), len(by_name)))
        for g, (rows, columns) in enumerate(groups):
            expected[g, columns] = len(rows) * tables[g]
        counts = round_counts(expected, rng=rng.child("round"))
    luck = rng.at(view.clients)
    task = np.full(len(view.clients), -1, dtype=np.int64)
    chance = np.zeros(len(view.clients))
    for g, (rows, columns) in enumerate(groups):
        if sampling.kind == "stratified":
            shuffled = rows[np.argsort(luck[rows], kind="stable")]
            drawn = np.repeat(np.arange(len(columns)), counts[g, columns])
            rows = shuffled  # noqa: PLW2901
        else:
            drawn = _inverse_cdf(tables[g], luck[rows])
        task[rows] = by_name[columns[drawn]]
        chance[rows] = tables[g][drawn]
    if sampling.floor:
        task = _raise_to_floor(
            task, view, by_name, sampling.floor, rng.child("floor").at(view.clients)
        )
    given = np.flatnonzero(task >= 0)
    return Assignments(view.clients[given], task[given], chance[given])


def round_counts(expected: Floats, *, rng: Stream) -> Ints:
    """Round a table of expected counts to whole numbers, in expectation without a change.

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
    for row in part:
        _make_whole(row)
    part = np.vstack([part, -part.sum(axis=0) % _UNIT])
    counts = whole.astype(np.int64) + part[:-1] // _UNIT
    part %= _UNIT
    in_row = [dict.fromkeys(np.flatnonzero(row).tolist()) for row in part]
    in_column = [dict.fromkeys(np.flatnonzero(column).tolist()) for column in part.T]
    value = {(r, c): int(part[r, c]) for r in range(len(part)) for c in in_row[r]}
    for start in range(len(in_row)):
        while in_row[start]:
            cycle = _cycle(start, in_row, in_column)
            up, down = cycle[::2], cycle[1::2]
            rise = min(*(_UNIT - value[e] for e in up), *(value[e] for e in down))
            fall = min(*(value[e] for e in up), *(_UNIT - value[e] for e in down))
            step = rise if rng.random() < fall / (rise + fall) else -fall
            for entries, change in ((up, step), (down, -step)):
                for r, c in entries:
                    value[r, c] += change
                    if value[r, c] in (0, _UNIT):
                        if r < len(counts):
                            counts[r, c] += value[r, c] // _UNIT
                        del in_row[r][c], in_column[c][r]
    return counts


def _make_whole(row: Ints) -> None:
    """Undo rounding errors, in place: the parts of a row add up to a whole number of units."""
    excess = int(row.sum()) % _UNIT
    excess -= _UNIT if excess > _UNIT // 2 else 0
    for column in np.argsort(-row, kind="stable").tolist():
        before = int(row[column])
        row[column] = min(max(before - excess, 0), _UNIT)
        excess -= before - int(row[column])


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
        column = next(c for c in in_row[row] if c != came_by)
        entries.append((row, column))
        if column in column_at:
            return entries[column_at[column] :]
        column_at[column] = len(entries)
        row = next(r for r in in_column[column] if r != row)
        entries.append((row, column))
        came_by = column
    return entries[row_at[row] :]


def _patterns(eligible: Bools) -> list[tuple[Columns, Columns]]:
    """(rows, columns) for each distinct non-empty set of eligible tasks."""
    n, S = eligible.shape
    if n == 0 or eligible.all():
        return [(np.arange(n), np.arange(S))] if n else []
    packed = np.packbits(eligible, axis=1)
    width = next((w for w in (1, 2, 4, 8) if packed.shape[1] <= w), packed.shape[1])
    padded = np.zeros((n, width), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    code = padded.view(f"u{width}" if width in (1, 2, 4, 8) else f"V{width}").ravel()
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse))[:-1]
    groups = zip(np.split(order, ends), first, strict=True)
    return [(rows, np.flatnonzero(eligible[row])) for rows, row in groups if eligible[row].any()]


def _inverse_cdf(p: Floats, luck: Floats) -> Columns:
    """The task at which the running sum of p passes each number; never one with p = 0."""
    drawn: Columns = np.searchsorted(np.cumsum(p), luck, side="right")
    drawn[drawn > np.flatnonzero(p)[-1]] = np.flatnonzero(p)[-1]
    return drawn


def _raise_to_floor(task: Ints, view: View, by_name: Columns, floor: int, luck: Floats) -> Ints:
    """Move clients until each task has `floor` of them, as far as clients last.

    If all tasks can have their floor, they get it. Otherwise level by level, 1, 2, ... `floor`:
    nobody falls below a level to lift another one to it, and no task stays below a level that a
    rearrangement could have reached.
    """
    most = np.minimum(view.eligible.sum(axis=0), floor)
    harder_first = by_name[np.argsort(-np.nan_to_num(view.difficulty[by_name]), kind="stable")]
    lifted = _lift(task, most, view.eligible, harder_first, luck)
    if (np.bincount(lifted[lifted >= 0], minlength=len(most)) >= most).all():
        return lifted
    for level in range(1, int(most.max()) + 1):
        task = _lift(task, np.minimum(most, level), view.eligible, harder_first, luck)
    return task


def _lift(task: Ints, target: Ints, eligible: Bools, order: Columns, luck: Floats) -> Ints:
    """Bring each task to its target, as far as tasks above theirs can give.

    A task below its target receives clients along a shortest chain of moves (breadth first: clients
    of b may train a, clients of c may train b, ...) that begins at a task above its own target.
    """
    task = task.copy()
    count = np.bincount(task[task >= 0], minlength=len(target))
    for needy in order.tolist():
        while count[needy] < target[needy]:
            chain = _chain(needy, task, eligible, order, count > target)
            if not chain:
                break
            giver = chain[-1][0]
            wanted = min(count[giver] - target[giver], target[needy] - count[needy])
            amount = min(wanted, *(len(movable) for _, movable, _ in chain))
            for _, movable, to in chain:
                task[movable[np.argsort(luck[movable], kind="stable")[:amount]]] = to
            count[giver] -= amount
            count[needy] += amount
    return task


def _chain(
    needy: int, task: Ints, eligible: Bools, order: Columns, spare: Bools
) -> list[tuple[int, Columns, int]]:
    """(from, rows that may move, to) for each move of a shortest chain to `needy`, or nothing."""
    came: dict[int, tuple[int, Columns, int]] = {}
    queue = deque([needy])
    while queue:
        to = queue.popleft()
        for source in order.tolist():
            if source == needy or source in came:
                continue
            movable = np.flatnonzero((task == source) & eligible[:, to])
            if len(movable) == 0:
                continue
            came[source] = (source, movable, to)
            if spare[source]:
                chain, here = [], source
                while here != needy:
                    chain.append(came[here])
                    here = came[here][2]
                return chain[::-1]
            queue.append(source)
    return []
