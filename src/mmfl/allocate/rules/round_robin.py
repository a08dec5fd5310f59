"""Round robin, as in the paper's experiments (after MFA-RR: Bhuyan et al., arXiv 2207.04330).

Clients start in S contiguous blocks, one per task; each round every client's task moves on by one.
Active clients use theirs.
"""

from __future__ import annotations

from typing import Any

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.rotation import assign_in_turn
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
        return assign_in_turn(view, task), state
