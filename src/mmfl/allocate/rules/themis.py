"""Finish-time fairness: no task ends much later than it would with an equal share of its own.

K. Mahajan, A. Balasubramanian, A. Singhvi, S. Venkataraman, A. Akella, A. Phanishayee, S. Chawla:
"Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020: minimise the maximum of
rho_s = T_shared / T_independent, the time until the task finishes here, divided by its time alone
on 1/S of the clients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.odds import restrict_shares
from mmfl.allocate.progress import divide, fit_curves, note_progress, turns_left
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, Positive, component
from mmfl.rng import Stream

__all__ = ["Themis", "equalize_finish_times"]


def equalize_finish_times(
    left: Floats, done: Floats, elapsed: float, share: float, total: float
) -> Floats:
    """(S) n_s that minimise the largest rho_s = (elapsed + Q_s / n_s) / ((k_s + Q_s) / share).

    At the optimum, all tasks with Q_s > 0 have the same rho: n_s = Q_s / (rho T_s - elapsed), with
    the one rho at which they add up to the total.

    Args:
        left: (S) Q_s >= 0: turns until task s finishes.
        done: (S) k_s >= 0: turns that it has had.
        elapsed: Rounds so far.
        share: An equal share of the clients.
        total: How many clients there are for these tasks.
    """
    n = np.zeros(len(left))
    some = np.flatnonzero(left > 0)
    if not len(some):
        return n
    Q = left[some]
    T = (done[some] + Q) / share
    low = (elapsed / T).max()
    high = low + (Q / T).sum() / total  # each n_s <= Q_s / ((rho - low) T_s)
    for _ in range(100):
        rho = 0.5 * (low + high)
        with np.errstate(divide="ignore", over="ignore"):
            needed = (Q / np.maximum(rho * T - elapsed, 0.0)).sum()
        low, high = (rho, high) if needed > total else (low, rho)
    n[some] = Q / np.maximum(high * T - elapsed, 1e-300)
    return n


@component
class Themis:
    """p_s ~ n_s, with n_s such that all tasks are equally late for their targets.

    Tasks that reached their target get their floor, and all share alike when every task did.
    Weights of tasks are ignored.

    Decided here: a task finishes when its fitted curve (`allocate/progress.py`) reaches its
    `target`; one without a target, or that cannot reach it, when it converges, as in `Optimus`.
    Themis holds auctions among the jobs with the largest rho, for jobs to tell the truth; here the
    server knows all tasks, and equalises rho at once. A task with fewer than three observations
    gets an equal share.

    Attributes:
        threshold: The fall of a round below which a task has converged, as in `Optimus`.
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    threshold: Positive = 0.002
    sampling: SamplingKind = "stratified"
    floor: Natural = 0

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """State: `progress`, by task name, its last difficulties after so many turns."""
        progress = note_progress(view, state)
        curves = fit_curves(view, progress)
        share = int(view.eligible.any(axis=1).sum()) / len(view.tasks)
        wanted = np.zeros(len(view.tasks))
        if share:
            left = np.nan_to_num(turns_left(curves, view.targets, share, self.threshold))
            done = curves.turns.astype(np.float64)
            total = share * int(curves.known.sum())
            wanted = equalize_finish_times(left, done, view.round - 1.0, share, total)
        p = restrict_shares(divide(curves, wanted))
        state = {**(state or {}), "progress": progress}
        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
