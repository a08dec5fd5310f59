"""Tilted probabilities: the gradient of TERM's objective, over tasks.

T. Li, A. Beirami, M. Sanjabi, V. Smith: "Tilted Empirical Risk Minimization", ICLR 2021, Lemma 1:
the gradient of (1/t) log( mean of exp(t f_s) ) is the sum of p_s grad f_s, with p_s ~ exp(t f_s).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.odds import normalize_log_odds
from mmfl.allocate.rules.fed_fair import refuse_bad
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, NonNegative, component
from mmfl.rng import Stream

__all__ = ["Tilted"]


@component
class Tilted:
    """Each active client draws its task with probability p_s ~ exp(t f_s).

    With weights of tasks, `tasks.weight`, it is proportional to weight_s exp(t f_s). Where
    `fed_fair` looks at ratios of difficulties, this looks at differences.

    The paper weighs examples, or groups of them; here groups are tasks, and weights become shares
    of the clients. Its f is a loss; here it is the difficulty, whatever `score` says.

    Attributes:
        tilt: The paper's t >= 0: 0 is uniform, a large t sends every client to the worst task.
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    tilt: NonNegative = 5.0
    sampling: SamplingKind = "independent"
    floor: Natural = 0

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """While a difficulty is unknown, all count as equal."""
        refuse_bad(view.difficulty[~np.isnan(view.difficulty)])

        def p(tasks: npt.NDArray[np.intp]) -> Floats:
            f = view.difficulty[tasks]
            f[np.isnan(f).any(axis=1)] = 0.0
            with np.errstate(over="ignore"):
                log = self.tilt * (f - f.max(axis=1, keepdims=True))
            return normalize_log_odds(log, view.weights[tasks])

        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
