"""Round robin, as in the paper's experiments (after MFA-RR: Bhuyan et al., arXiv 2207.04330).

Clients start in S contiguous blocks, one per task; each round every client's task moves on by one.
Active clients use theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.allocate.base import Assignments, View
from mmfl.config import component
from mmfl.rng import Stream

__all__ = ["RoundRobin"]


@component
class RoundRobin:
    """Every client goes through the tasks in turn, skipping those that it may not train.

    Weights of tasks are ignored.
    """

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """The client at place i of K, in round t, is at task (floor(i S / K) + t - 1) mod S."""
        S = len(view.tasks)
        task = (view.positions * S // max(view.population, 1) + view.round - 1) % S
        waiting = np.flatnonzero(~view.eligible[np.arange(len(task)), task])
        if not len(waiting):
            return Assignments(view.clients, task, np.ones(len(task))), state
        for _ in range(S - 1):
            task[waiting] = ahead = (task[waiting] + 1) % S
            waiting = waiting[~view.eligible[waiting, ahead]]
        given = np.ones(len(task), dtype=bool)
        given[waiting] = False
        rows = np.flatnonzero(given)
        return Assignments(view.clients[rows], task[rows], np.ones(len(rows))), state
