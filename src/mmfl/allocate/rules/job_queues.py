"""Job queues: tasks that waited longest, and bid most, choose clients first.

Y. Shi, H. Yu: "Fairness-Aware Job Scheduling for Multi-Job Federated Learning", ICASSP 2024
(FairFedJS, arXiv 2401.02740). By Lyapunov optimisation, jobs are served in ascending order of the
job scheduling index; k is a job, here a task s, and m its type of data:

    Psi_k(t) = -Q_m(t) - sigma p_k(t) / n_k + sigma c_m / r_m
    Q_m(t+1) = max(0, Q_m(t) + demand_m(t) - served_m(t))

with the queue Q of unmet demand, the bid p_k and the demand n_k of a job, and the mean cost c and
reputation r of the clients that hold the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.rules.fed_fair import refuse_bad
from mmfl.config import NonNegative, Positive, component
from mmfl.rng import Stream

__all__ = ["JobQueues"]


@component
class JobQueues:
    """In order of Q_s / n_s + sigma f_s, largest first, each task takes the clients it demands.

    Weights of tasks are ignored.

    Decided here: every task is a type of data of its own. It demands n_s = `demand` m / S clients
    (at least one) of the m that can train something, so with the default half of the tasks are
    served in a round, and the others wait. Queues count rounds of waiting, Q_s / n_s, so that sigma
    does not depend on m. There are no payments: a task bids its difficulty f_s for each client
    (0 while it is unknown). Costs and reputations are left out; `quarantine` keeps bad clients
    away. Who is taken among those that may train the task is drawn at random. If clients are left
    over, tasks choose again in the same order, without a limit. A client counts as served when it
    is given the task.

    The probability of an assignment is the share of the task's eligible clients that it took, which
    is exact if all clients may train all tasks.

    Attributes:
        demand: How many clients a task demands, as a multiple of an equal share.
        sigma: How much bids count, against a round of waiting.
    """

    demand: Positive = 2.0
    sigma: NonNegative = 1.0

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """State: by task name, its queue in rounds of waiting."""
        refuse_bad(view.difficulty[~np.isnan(view.difficulty)])
        S = len(view.tasks)
        before = state or {}
        queue = np.array([before.get(name, 0.0) for name in view.tasks])
        bids = np.nan_to_num(view.difficulty, nan=0.0)
        by_name = sorted(range(S), key=view.tasks.__getitem__)
        with np.errstate(over="ignore"):
            index = queue + self.sigma * bids
        order = sorted(by_name, key=lambda s: -index[s])

        by_draw = np.argsort(rng.at(view.clients), kind="stable")
        free = by_draw[np.asarray(view.eligible.any(axis=1))[by_draw]]
        number = max(1, round(self.demand * len(free) / S))
        task = np.full(len(view.clients), -1)
        for limit in (number, len(free)):
            for s in order:
                rows = free[view.eligible[free, s]][:limit]
                if len(rows):
                    task[rows] = s
                    free = free[task[free] < 0]

        served = np.bincount(task[task >= 0], minlength=S)
        after = np.maximum(0.0, queue + 1.0 - served / number)
        rows = np.flatnonzero(task >= 0)
        could = np.maximum(view.eligible.sum(axis=0), 1)
        chance = (served / could)[task[rows]]
        given = Assignments(view.clients[rows], task[rows], chance)
        return given, {**before, **dict(zip(view.tasks, after.tolist(), strict=True))}
