"""One task after another: the strawman of the paper's introduction, whose later models wait."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.allocate.base import Assignments, View
from mmfl.config import Count, component
from mmfl.rng import Stream

__all__ = ["Sequential"]


@component
class Sequential:
    """All clients train the first task, then all train the second, and so on, then start again.

    Weights of tasks are ignored.

    Attributes:
        rounds_each: Rounds per task before moving on; by default the planned rounds divided evenly.
    """

    rounds_each: Count | None = None

    @property
    def plans_ahead(self) -> bool:
        """Whether more rounds would change the first ones; such a run cannot be extended."""
        return self.rounds_each is None

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """Clients that may not train the round's task rest."""
        S = len(view.tasks)
        if self.rounds_each is None:
            task = (view.round - 1) * S // view.rounds % S
        else:
            task = (view.round - 1) // self.rounds_each % S
        rows = np.flatnonzero(view.eligible[:, task])
        return Assignments(view.clients[rows], np.full(len(rows), task), np.ones(len(rows))), state
