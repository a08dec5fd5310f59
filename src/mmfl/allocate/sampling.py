"""From probabilities to assignments: independent or stratified draws, and a floor per task.

Clients with the same set of eligible tasks (a *pattern*) share their probabilities. Tasks are read
in the order of their names and each client's draw is addressed by its id: neither the order of the
tasks in a configuration nor the other clients move a client's draw.

Either kind of draw uses thresholds: a client's draw, a number in [0, 1), is compared with those of
its pattern, one for each task, and the first threshold above it gives its task. For independent
draws the thresholds are the running sums of the probabilities. Stratified draws first fix how many
clients of each pattern each task gets (`round_counts`); the thresholds are the draws of the clients
with that rank in their pattern. The result is the same as to shuffle the pattern and cut it up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, Bools, Floats, Ints, View
from mmfl.allocate.credit import serve_credits
from mmfl.allocate.patterns import Patterns
from mmfl.allocate.rounding import round_counts
from mmfl.rng import Stream

__all__ = ["Sampling", "SamplingKind", "deal", "round_counts", "sample"]

Columns = npt.NDArray[np.intp]

_BLOCK = 1 << 13
"""How many clients are handled at a time: their numbers stay in the processor's cache."""


SamplingKind = Literal["independent", "stratified", "credit"]


class Sampling(NamedTuple):
    """How draws are made; see `FedFair`."""

    kind: SamplingKind
    floor: int


def sample(
    view: View,
    probabilities: Callable[[Columns], Floats],
    sampling: Sampling,
    state: Any,
    *,
    rng: Stream,
) -> tuple[Assignments, Any]:
    """One task for each active client that may train any.

    Args:
        view: The round.
        probabilities: From sets of that many tasks each, by their columns (g, c), to each set's
            probabilities (g, c).
        sampling: The kind of draws, and the floor.
        state: The rule's; None, or a dictionary. Credits are its entry `credit`, by task name.
        rng: The round's stream.

    Returns:
        The assignments by ascending client, and the rule's next state. The probability of each
        assignment is p, whatever the kind of draws, before a floor moved anybody.
    """
    by_name = _by_name(view)
    patterns = Patterns.of(view.eligible, by_name)
    p = _table(patterns.sets, by_name, probabilities)
    draws = rng.at(view.clients)
    if sampling.kind == "stratified":
        counts = round_counts(p * patterns.sizes[:, None], rng=rng.child("round"))
        drawn = _cut(counts, patterns, draws)
    elif sampling.kind == "credit":
        counts, state = _serve(view, by_name, patterns, p, state)
        drawn = _cut(counts, patterns, draws)
    else:
        drawn = _compare(_running_sums(p), patterns, draws)
    task, chance = by_name.take(drawn), p.take(_cells(drawn, patterns))
    resting = patterns.without_tasks
    if resting is not None:
        task[resting] = -1
    if sampling.floor:
        task = _raise_to_floor(task, view, by_name, sampling.floor, rng)
    return _make_assignments(view, patterns, task, chance), state


def _serve(
    view: View, by_name: Columns, patterns: Patterns, p: Floats, state: Any
) -> tuple[Ints, Any]:
    """(G, S) counts by credit, and the rule's state with the credits for the next round."""
    before = (state or {}).get("credit", {})
    names = [view.tasks[s] for s in by_name]
    credit = np.array([before.get(name, 0.0) for name in names])
    sizes = np.where(patterns.sets.any(axis=1), patterns.sizes, 0)
    counts, credit = serve_credits(p * sizes[:, None], sizes, credit)
    after = dict(zip(names, credit.tolist(), strict=True))
    return counts, {**(state or {}), "credit": {**before, **after}}


def deal(view: View, counts: Callable[[Patterns, Columns], Ints], *, rng: Stream) -> Assignments:
    """A number of clients for each task; who they are is drawn at random.

    Args:
        view: The round.
        counts: From patterns, and the tasks that their columns are, to (G, S) how many clients of
            each pattern train each task: all of them, unless they may train nothing.
        rng: The round's stream.

    Returns:
        The assignments by ascending client. A client's probability is the share of its pattern
        that trains its task.
    """
    by_name = _by_name(view)
    patterns = Patterns.of(view.eligible, by_name)
    dealt = counts(patterns, by_name)
    drawn = _cut(dealt, patterns, rng.at(view.clients))
    chance = (dealt / patterns.sizes[:, None]).take(_cells(drawn, patterns))
    return _make_assignments(view, patterns, by_name.take(drawn), chance)


def _by_name(view: View) -> Columns:
    """(S) the tasks' columns in the order of their names."""
    return np.array(sorted(range(len(view.tasks)), key=view.tasks.__getitem__), dtype=np.intp)


def _make_assignments(view: View, patterns: Patterns, task: Ints, chance: Floats) -> Assignments:
    """The assignments of the clients that may train something."""
    resting = patterns.without_tasks
    if resting is None:
        return Assignments(view.clients, task, chance)
    given = np.flatnonzero(~resting)
    return Assignments(view.clients[given], task[given], chance[given])


def _table(sets: Bools, by_name: Columns, probabilities: Callable[[Columns], Floats]) -> Floats:
    """(G, S) each pattern's probabilities, columns by name; 0 for what it does not contain."""
    p = np.zeros(sets.shape)
    size = sets.sum(axis=1)
    for c in np.flatnonzero(np.bincount(size)).tolist():
        some = np.flatnonzero(size == c)
        columns = np.nonzero(sets[some])[1].reshape(len(some), c)
        if c:
            p[some[:, None], columns] = probabilities(by_name[columns])
    return p


def _running_sums(p: Floats) -> Floats:
    """Thresholds that are passed with probability p; never to a task with p = 0."""
    sums = np.cumsum(p, axis=1)
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)
    sums[np.arange(p.shape[1]) >= last[:, None]] = np.inf  # where rounding errors leave a gap
    return sums


def _cut(counts: Ints, patterns: Patterns, draws: Floats) -> Columns:
    """Each pattern's clients in the order of their draws: the first counts[g, 0], the next, ...

    The fast way of `_cut_one`, for all patterns at once. It relies on draws that differ; where some
    are equal, it notices and does that pattern the plain way.
    """
    drawn = _compare(_rank_thresholds(counts, patterns, draws), patterns, draws)
    reached = np.bincount(_cells(drawn, patterns), minlength=counts.size).reshape(counts.shape)
    wrong = (reached != counts).any(axis=1) & (counts.sum(axis=1) > 0)
    for g in np.flatnonzero(wrong).tolist():
        number = patterns.number
        rows = np.arange(len(draws)) if number is None else np.flatnonzero(number == g)
        drawn[rows] = _cut_one(counts[g], draws[rows])
    return drawn


def _cut_one(counts: Ints, draws: Floats) -> Columns:
    """The plain way, for one pattern: the first counts[0] get column 0, the next column 1, ...

    Those with the same draw come by ascending client.
    """
    columns = np.empty(len(draws), dtype=np.intp)
    columns[np.argsort(draws, kind="stable")] = np.repeat(np.arange(len(counts)), counts)
    return columns


def _rank_thresholds(counts: Ints, patterns: Patterns, draws: Floats) -> Floats:
    """(G, S) the draw of the first client that each task does not get; inf after the last task."""
    number, sizes = patterns.number, patterns.sizes
    ranked = draws.copy() if number is None else draws[np.argsort(number, kind="stable")]
    starts = np.cumsum(sizes) - sizes
    for start, length in zip(starts.tolist(), sizes.tolist(), strict=True):
        ranked[start : start + length].sort()
    ends = np.cumsum(counts, axis=1)
    thresholds = np.full(counts.shape, np.inf)
    first_beyond = ranked.take(starts[:, None] + ends, mode="clip")
    np.copyto(thresholds, first_beyond, where=ends < ends[:, -1:])
    return thresholds


def _cells(drawn: Columns, patterns: Patterns) -> Columns:
    """Where in a flat (G, S) table a client's pattern and task lie."""
    if patterns.number is None:
        return drawn
    return np.multiply(patterns.number, patterns.sets.shape[1], dtype=np.intp) + drawn


def _compare(thresholds: Floats, patterns: Patterns, draws: Floats) -> Columns:
    """How many of its pattern's thresholds (G, S, ascending) do not lie above each draw."""
    drawn = np.zeros(len(draws), dtype=np.intp)
    columns = [column for column in thresholds.T.copy() if (column < np.inf).any()]
    for rows in _blocks(len(draws)):
        here, passed = draws[rows], np.zeros(len(draws[rows]), dtype=np.int16)
        number = None if patterns.number is None else patterns.number[rows].astype(np.intp)
        for column in columns:
            passed += (column[0] if number is None else column.take(number)) <= here
        drawn[rows] = passed
    return drawn


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, n, _BLOCK))


def _raise_to_floor(task: Ints, view: View, by_name: Columns, floor: int, rng: Stream) -> Ints:
    """Move clients until each task has `floor` of them, or no client is left to move.

    If all tasks can have their floor, they get it. Otherwise level by level, 1, 2, ... `floor`:
    nobody falls below a level to lift another one to it, and no task stays below a level that a
    rearrangement could have reached.
    """
    count = np.bincount(task[task >= 0], minlength=len(by_name))
    if (count >= floor).all():
        return task
    most = np.minimum(view.eligible.sum(axis=0), floor)
    draws = rng.child("floor").at(view.clients)
    harder_first = by_name[np.argsort(-np.nan_to_num(view.difficulty[by_name]), kind="stable")]
    lifted = _lift(task, most, view.eligible, harder_first, draws)
    if (np.bincount(lifted[lifted >= 0], minlength=len(most)) >= most).all():
        return lifted
    for level in range(1, int(most.max()) + 1):
        task = _lift(task, np.minimum(most, level), view.eligible, harder_first, draws)
    return task


def _lift(task: Ints, target: Ints, eligible: Bools, order: Columns, draws: Floats) -> Ints:
    """Bring each task to its target, or as near as the tasks above their targets can give.

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
                task[movable[np.argsort(draws[movable], kind="stable")[:amount]]] = to
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
