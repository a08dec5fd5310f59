"""Uniform random allocation: the paper's "random" baseline (MFA-Rand of Bhuyan et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, component
from mmfl.rng import Stream

__all__ = ["Uniform"]


@component
class Uniform:
    """Each active client draws one of its eligible tasks, all equally likely.

    Weights of tasks are ignored; `fed_fair` with alpha = 1 draws in proportion to them.

    Attributes:
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    sampling: SamplingKind = "independent"
    floor: Natural = 0

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """FedFair's rule at alpha = 1: the very same draws."""

        def p(tasks: npt.NDArray[np.intp]) -> Floats:
            return np.full(tasks.shape, 1 / tasks.shape[1])

        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
