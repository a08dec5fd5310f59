"""FedAvgM: momentum at the server (Hsu, Qi and Brown, 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.aggregate.collected import apply_step
from mmfl.aggregate.server_step import Decay, compute_mean_step
from mmfl.config import Positive, component
from mmfl.exchange import Params, PartialSum

__all__ = ["ServerMomentum"]


@component
class ServerMomentum:
    """v <- momentum v + d, w <- w + lr v, where d is the mean update, weighted by data size.

    A round without updates changes neither w nor v. With momentum 0 and lr 1 it is the mean.

    Attributes:
        momentum: How much of the previous steps is kept.
        lr: The server's learning rate.
    """

    momentum: Decay = 0.9
    lr: Positive = 1.0

    mergeable: ClassVar[Literal[True]] = True

    def aggregate(
        self, params: Params, updates: Iterable[PartialSum], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights; the state is v."""
        mean = compute_mean_step(updates)
        if mean is None:
            return Params(params.layout, params.flat.copy()), state
        velocity = mean if state is None else self.momentum * np.asarray(state) + mean
        return apply_step(params, self.lr * velocity, mean), velocity
