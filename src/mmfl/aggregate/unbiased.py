"""Updates weighed by d / p: unbiased, whatever the probabilities of the assignments.

H. Zhang, Z. Gong, Z. Li, M. Siew, C. Joe-Wong, R. El-Azouzi: "Towards Optimal Heterogeneous Client
Sampling in Multi-Model Federated Learning" (arXiv 2504.05138), the aggregation of MMFL-LVR:
w_s <- w_s + sum over the clients i that trained of (d_is / p_is) G_is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.aggregate.base import ActiveClients
from mmfl.aggregate.collected import apply_step
from mmfl.config import component
from mmfl.errors import EngineError
from mmfl.exchange import ClientUpdate, Params

__all__ = ["Unbiased", "weigh_update"]


@component
class Unbiased:
    """w <- w + sum of (d_i / p_i) G_i, whose expectation is the step with all active clients.

    G_i is a client's change of the weights, p_i the probability with which the allocator gave it
    the task, and d_i its share of the examples that the round's active clients hold which may train
    the task. (The paper's shares are of all clients, and its p_i includes being active.) If few
    clients happen to train, steps are short, and a rare client's are long. A turn that fails
    counts as a step of 0.

    Running statistics of batch norm are averaged by data size, as in `mean`.
    """

    mergeable: ClassVar[Literal[False]] = False
    wants: ClassVar[tuple[str, ...]] = ("active",)

    def aggregate(
        self,
        params: Params,
        updates: Iterable[ClientUpdate],
        difficulty: float,
        state: Any,
        *,
        active: ActiveClients,
    ) -> tuple[Params, Any]:
        """The task's new weights."""
        total = int(active.examples.sum())
        step, mean, examples = np.zeros(params.layout.size), np.zeros(params.layout.size), 0
        for update in updates:
            assert isinstance(update.delta, Params), "only checked updates are aggregated"
            step += weigh_update(update, total) * update.delta.flat.astype(np.float64)
            if params.layout.statistics:
                mean += update.examples * update.delta.flat.astype(np.float64)
            examples += update.examples
        return apply_step(params, step, mean / max(examples, 1)), state


def weigh_update(update: ClientUpdate, total: int) -> float:
    """d_i / p_i.

    Args:
        update: The client's.
        total: How many examples all clients hold that could have had the turn.
    """
    if not update.probability > 0:
        who = f"client {update.address.client} has task {update.address.task!r}"
        raise EngineError(f"{who} with probability 0, so its update cannot be weighed by d / p")
    return update.examples / total / update.probability
