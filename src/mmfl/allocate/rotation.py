"""Tasks in turn: a client whose turn is at a task that it may not train goes on to the next."""

from __future__ import annotations

import numpy as np

from mmfl.allocate.base import Assignments, Ints, View

__all__ = ["assign_in_turn"]


def assign_in_turn(view: View, task: Ints) -> Assignments:
    """Each client gets its task, or the next one in the order of the tasks that it may train.

    Args:
        view: The round.
        task: (n) each client's task; it is changed.
    """
    S = len(view.tasks)
    waiting = np.flatnonzero(~view.eligible[np.arange(len(task)), task])
    if not len(waiting):
        return Assignments(view.clients, task, np.ones(len(task)))
    for _ in range(S - 1):
        task[waiting] = ahead = (task[waiting] + 1) % S
        waiting = waiting[~view.eligible[waiting, ahead]]
    given = np.ones(len(task), dtype=bool)
    given[waiting] = False
    rows = np.flatnonzero(given)
    return Assignments(view.clients[rows], task[rows], np.ones(len(rows)))
