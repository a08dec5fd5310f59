"""Exponential weights over tasks: agnostic federated learning, and group DRO.

M. Mohri, G. Sivek, A. T. Suresh: "Agnostic Federated Learning", ICML 2019: minimise over w the
maximum over mixtures q of the sum of q_s f_s(w). S. Sagawa, P. W. Koh, T. B. Hashimoto, P. Liang:
"Distributionally Robust Neural Networks for Group Shifts", ICLR 2020, Algorithm 1:
q_s <- q_s exp(eta f_s), then divide by the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.odds import normalize_log_odds
from mmfl.allocate.rules.fed_fair import refuse_bad
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, Positive, component
from mmfl.rng import Stream

__all__ = ["ExponentialWeights"]

_LEAST = -700.0
"""The least logarithm of a weight: its exponential is just above the smallest number."""


@component
class ExponentialWeights:
    """Each active client draws its task with probability q_s; difficult tasks gain every round.

    `tilted` looks at the difficulty of this round, this rule at the sum of all rounds so far. With
    weights of tasks, `tasks.weight`, q starts in proportion to them.

    Group DRO updates the weight of the group that it just sampled, in every step. Here the
    difficulties of all tasks are known, so all weights are updated once a round, as in agnostic
    federated learning (whose projected gradient step is replaced by the exponential one). Neither
    paper has limits on who may train what: a client draws among its eligible tasks, in proportion
    to q.

    Attributes:
        rate: eta > 0. With difficulties in [0, 1], about sqrt(8 ln S / T) is best in theory: 0.46
            for 5 tasks and 60 rounds.
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    rate: Positive = 0.3
    sampling: SamplingKind = "independent"
    floor: Natural = 0

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """While a difficulty is unknown, its task gains as much as the worst known one.

        State: `log`, by task name, the logarithm of q_s up to a constant.
        """
        refuse_bad(view.difficulty[~np.isnan(view.difficulty)])
        before = (state or {}).get("log", {})
        log = np.array([before.get(task, 0.0) for task in view.tasks])
        worst = np.max(view.difficulty, initial=-np.inf, where=~np.isnan(view.difficulty))
        with np.errstate(over="ignore"):
            log += np.nan_to_num(self.rate * (view.difficulty - worst), nan=0.0)
        log = np.maximum(log - log.max(), _LEAST)
        state = {**(state or {}), "log": before | dict(zip(view.tasks, log.tolist(), strict=True))}

        def p(tasks: npt.NDArray[np.intp]) -> Floats:
            some = log[tasks]
            return normalize_log_odds(some - some.max(axis=1, keepdims=True), view.weights[tasks])

        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
