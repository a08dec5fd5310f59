"""Need times speed: clients go where the next turns lower difficulty most.

H. Zhang, L. Stafman, A. Or, M. J. Freedman: "SLAQ: Quality-Driven Scheduling for Distributed
Machine Learning", SoCC 2017: choose n_s to maximise the sum over tasks of
(f_s(k_s) - f_s(k_s + n_s)) / (largest fall seen so far), with the sum of n_s at most m. SLAQ gives
the units one by one to the job that gains most; for convex curves that is the optimum, where all
marginal gains are equal. Curves f_s(k) = 1 / (b0 k + b1) + c are fitted (`allocate/progress.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.odds import restrict_shares
from mmfl.allocate.progress import divide, fit_curves, note_progress, water_level
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Flag, Natural, component
from mmfl.rng import Stream

__all__ = ["Slaq"]


@component
class Slaq:
    """p_s ~ n_s, with n_s such that one more turn gains as much at every task.

    A turn gains f_s^(alpha-1) |f_s'(k_s + n_s)|, divided by the task's largest fall if
    `normalized`: need times speed. alpha = 1 is SLAQ, which looks at speed alone. With alpha > 1
    and `normalized` off, a round lowers the sum of f_s^alpha as much as it can. A task that no
    longer falls gets its floor. So does one whose difficulty has not begun to fall. Weights of
    tasks are ignored.

    Decided here: a task with fewer than three observations gets an equal share. The numbers n_s
    become probabilities, so that clients may be limited in what they train. As in SLAQ, each task
    gets at least one unit, if there are enough clients.

    Attributes:
        alpha: How much need counts, in [1, inf).
        normalized: Whether a gain is divided by the task's largest fall so far.
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    alpha: Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)] = 1.0
    normalized: Flag = True
    sampling: SamplingKind = "stratified"
    floor: Natural = 1

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """State: `progress`, by task name, its last difficulties after so many turns."""
        progress = note_progress(view, state)
        curves = fit_curves(view, progress)
        f = np.nan_to_num(view.difficulty, nan=0.0)
        gain = (f / max(f.max(), 1e-300)) ** (self.alpha - 1)
        if self.normalized:
            gain /= curves.largest
        falls = curves.b0 > 0
        b0 = np.where(falls, curves.b0, 1.0)
        # gain b0 / (b0 (k + n) + b1)^2 = 1 / u^2  <=>  n = sqrt(gain / b0) u - (b1 / b0 + k)
        slope = np.where(falls, np.sqrt(gain / b0), 0.0)
        wanted = np.zeros(len(f))
        m = int(view.eligible.any(axis=1).sum())
        if (slope > 0).any() and m:
            total = m * curves.known.sum() / len(f)
            wanted = water_level(slope, curves.b1 / b0 + curves.turns, total)
        p = restrict_shares(divide(curves, wanted))
        state = {**(state or {}), "progress": progress}
        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
