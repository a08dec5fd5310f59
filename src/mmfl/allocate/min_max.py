"""Whole numbers of clients that make the largest of several falling bounds as small as possible.

The problem. Given: for each of S tasks a bound U_s(n), n = 0 ... m, that never rises with the
number n of clients that train it; and m clients, each with the set of tasks that it may train.
Choose: a task for each client. Minimise: max over s of U_s(n_s), where n_s counts the task's
clients; then the second largest, and so on.

Which n = (n_1 ... n_S) are possible? Those for which a flow from clients to tasks has n_s units at
every task s, by Hall's theorem those with sum of n_s over A <= clients that may train one of A, for
every set A of tasks. Two facts follow, and no integer programming is needed:

*A level is easy.* All bounds are at most z iff n_s >= need_s(z), the fewest clients with
U_s(n) <= z. If n is possible, so is every smaller n' <= n. So z can be reached iff need(z) is
possible, which is one flow, and the lowest such z is found by bisection over the S (m + 1) values
that bounds have.

*Handing out is exact.* Start from n = 0 and give clients, as many as it takes to lower its bound,
again and again to the task whose bound is largest. Let z be the optimum. As long as the largest
bound is above z, that task has n_s < need_s(z), so it gets at most need_s(z): n <= need(z) all the
time, each step is possible, and none is left to do only when no bound is above z. Where everybody
may train everything, each step is possible while clients last.

Computed here is the first, task after task; tests/allocate has the second as a plain loop.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mmfl.allocate.base import Floats, Ints
from mmfl.allocate.patterns import Patterns

__all__ = ["min_max_counts", "obstacle"]

_COUNTED = 12
"""Up to this many tasks, all their sets are tried, which is quicker than a flow."""


def min_max_counts(bounds: Floats, patterns: Patterns) -> Ints:
    """(G, S) how many clients of each pattern train each task; everybody who may train something.

    1. Find the lowest level z that all tasks can be brought to, and give each need_s(z).
    2. Where the bound is z and cannot fall further, the task's number is settled.
    3. Again from 1 for the others, until all are settled.
    4. Clients that lower no bound go where the fewest are, one after the other.

    Among equal bounds, the task that comes first is lowered first.

    Args:
        bounds: (S, m + 1) U_s(n), rows that never rise; columns of `patterns` are its rows.
        patterns: Who may train what.
    """
    S, width = bounds.shape
    room = _FeasibleCounts(patterns)
    useful = _leximin(bounds, np.zeros(S, np.int64), room)
    fewest_first = np.broadcast_to(-np.arange(width, dtype=np.float64), bounds.shape)
    return room.flow(_leximin(fewest_first, useful, room))


def _leximin(bounds: Floats, least: Ints, room: _FeasibleCounts) -> Ints:
    """(S) the numbers of steps 1 to 3, each at least `least`."""
    counts, unsettled = least.copy(), np.ones(len(least), dtype=bool)

    def bring_to(level: float, tasks: Ints) -> Ints:
        """The numbers after these tasks are brought to a level."""
        tried = counts.copy()
        tried[tasks] = np.maximum(_need(bounds[tasks], level), least[tasks])
        return tried

    while unsettled.any():
        tasks = np.flatnonzero(unsettled)
        levels = np.unique(bounds[tasks])
        lowest = bisect_left(levels, True, key=lambda z: room.holds(bring_to(z, tasks)))
        counts = bring_to(levels[lowest], tasks)  # the highest needs nobody beyond `least`
        for s in tasks[bounds[tasks, counts[tasks]] == levels[lowest]].tolist():
            if lowest and room.holds(lower := bring_to(levels[lowest - 1], np.array([s]))):
                counts = lower
            else:
                unsettled[s] = False
    return counts


def _need(bounds: Floats, level: float) -> Ints:
    """need_s(z): the fewest clients with U_s(n) <= z; one too many if there are not enough."""
    return np.array([np.searchsorted(-row, -level) for row in bounds], np.int64)


@dataclass(frozen=True, eq=False)
class _FeasibleCounts:
    """Which numbers of clients are possible."""

    patterns: Patterns

    @cached_property
    def hall(self) -> tuple[Ints, Ints]:
        """All sets of tasks (2^S, S), and how many clients may train one of each."""
        S = self.patterns.sets.shape[1]
        sets = np.arange(1 << S)[:, None] >> np.arange(S) & 1
        meets = sets @ self.patterns.sets.T > 0
        return sets, meets @ self.patterns.sizes

    def holds(self, counts: Ints) -> bool:
        """Whether every task can have its number."""
        if len(counts) > _COUNTED:
            return int(self.flow(counts).sum()) == int(counts.sum())
        sets, clients = self.hall
        return bool((sets @ counts <= clients).all())

    def flow(self, counts: Ints) -> Ints:
        """(G, S) clients of each pattern for each task: its number, or in all as many as can be."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        sets, sizes = self.patterns.sets, self.patterns.sizes
        G, S = sets.shape
        source, sink = G + S, G + S + 1
        width = np.zeros((sink + 1, sink + 1), np.int32)
        width[source, :G] = sizes
        width[:G, G:source] = sets * sizes[:, None]
        width[G:source, sink] = counts
        flow = maximum_flow(csr_array(width), source, sink).flow
        table: Ints = flow[:G, G:source].toarray().astype(np.int64)
        return table


def obstacle(bounds: Floats, counts: Ints, patterns: Patterns) -> tuple[int, ...] | None:
    """Why the largest bound cannot be any smaller: it verifies what the solver found.

    Returns:
        Tasks that, to have smaller bounds than the largest is now, would together need more clients
        than there are who may train one of them: a smallest such set. None if there is none, and so
        counts with a smaller largest bound. All sets of tasks are looked at.
    """
    largest = bounds[np.arange(len(bounds)), counts].max()
    need = _need(bounds, bounds[bounds < largest].max(initial=-np.inf))
    sets, clients = _FeasibleCounts(patterns).hall
    short = sets[sets @ need > clients]
    if not len(short):
        return None
    return tuple(np.flatnonzero(short[short.sum(axis=1).argmin()]).tolist())
