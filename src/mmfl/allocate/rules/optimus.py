"""Remaining work: the tasks' times to converge, added up, become as small as possible.

Y. Peng, Y. Bao, Y. Chen, C. Wu, C. Guo: "Optimus: An Efficient Dynamic Resource Scheduler for Deep
Learning Clusters", EuroSys 2018: choose n_s to minimise the sum over jobs of Q_s / speed_s(n_s),
where Q_s is the work that remains until a fitted curve converges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.odds import restrict_shares
from mmfl.allocate.progress import divide, fit_curves, note_progress, turns_left
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, Positive, component
from mmfl.rng import Stream

__all__ = ["Optimus"]


@component
class Optimus:
    """p_s ~ sqrt(Q_s), where Q_s is the number of turns that task s still needs.

    The speed of a task is its number of clients, n_s turns a round, so the sum of Q_s / n_s has its
    minimum at n_s ~ sqrt(Q_s). (Optimus models a job's speed by its workers and servers, and hands
    out units one by one.) A task that has converged gets its floor. Weights of tasks are ignored.

    Decided here: a task with a `target` needs the turns until its curve reaches it; one without, or
    whose curve never reaches it, those until it converges: until a round with an equal share of the
    clients lowers its difficulty by less than `threshold` times its first difficulty. A task with
    fewer than three observations gets an equal share. Each task gets at least one client, if there
    are enough, as a job in the paper gets a worker.

    Attributes:
        threshold: The fall of a round below which a task has converged.
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    threshold: Positive = 0.002
    sampling: SamplingKind = "stratified"
    floor: Natural = 1

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """State: `progress`, by task name, its last difficulties after so many turns."""
        progress = note_progress(view, state)
        curves = fit_curves(view, progress)
        share = int(view.eligible.any(axis=1).sum()) / len(view.tasks)
        left = turns_left(curves, view.targets, share, self.threshold)
        p = restrict_shares(divide(curves, np.sqrt(np.nan_to_num(left))))
        state = {**(state or {}), "progress": progress}
        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
