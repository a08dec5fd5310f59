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
    """Every client walks through the tasks in turn; a turn it may not take goes to its next one."""

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """The client at place i of K, in round t, is at task (floor(i S / K) + t - 1) mod S."""
        S = len(view.tasks)
        turn = (view.positions * S // max(view.population, 1) + view.round - 1) % S
        ahead = (turn[:, None] + np.arange(S)) % S
        open_ahead = np.take_along_axis(view.eligible, ahead, axis=1)
        rows = np.flatnonzero(open_ahead.any(axis=1))
        task = (turn[rows] + open_ahead[rows].argmax(axis=1)) % S
        return Assignments(view.clients[rows], task, np.ones(len(rows))), state
