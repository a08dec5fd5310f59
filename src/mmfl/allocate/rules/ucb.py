"""UCB: each task takes the clients with the largest discounted upper confidence bound on its loss.

N. Bhuyan, S. Moharir: "Multi-Model Federated Learning", COMSNETS 2022 (arXiv 2201.02582), with the
discount and the order of choice of "sync-ucb" in FedAST's public code (UAI 2024). For client i and
task s, with a discount gamma:

    N_is(t) = gamma N_is(t-1) + 1{i trained s in round t-1}       L_is(t) likewise, with its loss
    A_is(t) = L_is / N_is + sqrt( 2 ln( sum of gamma^j, j < t ) / N_is )

In each round, every task gets the same number of clients; tasks choose in turn, and each takes the
clients with the largest A_is that are still free.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from mmfl.allocate.base import Assignments, Floats, Ints, View
from mmfl.allocate.memory import recall, remember
from mmfl.config import component
from mmfl.rng import Stream

__all__ = ["Ucb"]

_MOST = 1e100
"""A loss of more than that, which a client may claim, counts as this."""

_UNKNOWN = {"N": 0.0, "L": 0.0, "seen": 0, "task": -1, "turns": 0}


@component
class Ucb:
    """Every task gets as many clients; bandits decide which.

    It chooses clients, not tasks: a client whose loss at a task is high, or that has not trained it
    for long, goes there. Weights of tasks are ignored.

    Decided here: a client that never trained a task has the bound infinity (in the code, all
    clients train all tasks in round one). Among equal bounds, the order is drawn. The task that
    chooses first moves on by one each round, and so do the clients that are left over when m is not
    a multiple of S. A client that none of its tasks chose, since each had its number, trains the
    one with the largest bound. A turn that failed does not count.

    Attributes:
        gamma: The discount, in (0, 1].
    """

    gamma: Annotated[float, Strict(), Field(gt=0, le=1)] = 0.99

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """State: a memory of clients (`allocate/memory.py`).

        `N` and `L` (r, S) are those of the round `seen` (r), when the client was active last;
        `task` (r) is what it was given then, or -1, and `turns` (r) how often it had trained that.
        """
        known = recall(state, view.tasks, view.clients, _UNKNOWN)
        N, L = self._look_back(view, known)
        bound = self._compute_bounds(N, L, view.round)
        task = _choose_in_turn(view, bound, rng.at(view.clients))
        rows = np.flatnonzero(task >= 0)
        given = Assignments(view.clients[rows], task[rows], np.ones(len(rows)))
        turns = np.zeros(len(task), np.int64)
        turns[rows] = view.counts[rows, task[rows]]
        seen = np.full(len(task), view.round)
        now = {"N": N, "L": L, "seen": seen, "task": task, "turns": turns}
        return given, remember(state, view.tasks, view.clients, now)

    def _look_back(self, view: View, known: dict[str, Any]) -> tuple[Floats, Floats]:
        """(n, S) N and L before this round, from those when the client was active last."""
        N, L = known["N"], known["L"]
        age = view.round - known["seen"]
        fade = self.gamma**age
        N *= fade[:, None]
        L *= fade[:, None]
        rows = np.flatnonzero(known["task"] >= 0)
        task = known["task"][rows]
        trained = view.counts[rows, task] > known["turns"][rows]
        rows, task = rows[trained], task[trained]
        weight = self.gamma ** (age[rows] - 1)
        N[rows, task] += weight
        L[rows, task] += weight * np.clip(view.loss[rows, task], -_MOST, _MOST)
        return N, L

    def _compute_bounds(self, N: Floats, L: Floats, t: int) -> Floats:
        """(n, S) A_is; infinity for a task that the client never trained."""
        gamma = self.gamma
        rounds = t if gamma == 1 else (1 - gamma**t) / (1 - gamma)
        bound: Floats = np.full(N.shape, np.inf, order="F")  # tasks read whole columns
        trained = np.nonzero(N)
        turns = N[trained]
        bound[trained] = L[trained] / turns + np.sqrt(2 * np.log(rounds) / turns)
        return bound


def _choose_in_turn(view: View, bound: Floats, draws: Floats) -> Ints:
    """(n) each client's task, or -1.

    1. In the order of their names, beginning with another one in each round, tasks choose their
       number of free clients that may train them: those with the largest bounds.
    2. A client that was not chosen trains its task with the largest bound.
    """
    S = len(view.tasks)
    by_name = sorted(range(S), key=view.tasks.__getitem__)
    task = np.full(len(bound), -1)
    able = np.asarray(view.eligible.any(axis=1))
    number, more = divmod(int(able.sum()), S)
    by_draw = np.argsort(draws, kind="stable")
    free = by_draw[able[by_draw]]
    for place in range(S):
        s = by_name[(view.round - 1 + place) % S]
        may = view.eligible[free, s]
        rows = free[may]
        chosen = _find_largest(bound[rows, s], number + (place < more))
        task[rows[chosen]] = s
        free = free[task[free] < 0]
    if len(free):
        task[free] = np.where(view.eligible[free], bound[free], -np.inf).argmax(axis=1)
    return task


def _find_largest(values: Floats, count: int) -> Ints:
    """The places of the largest values; among equal ones, the first."""
    if count >= len(values):
        return np.arange(len(values))
    if not count:
        return np.empty(0, np.int64)
    limit = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > limit)
    return np.concatenate([above, np.flatnonzero(values == limit)[: count - len(above)]])
