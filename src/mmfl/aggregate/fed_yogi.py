"""FedYogi: Yogi at the server (Reddi et al., Adaptive Federated Optimization, ICLR 2021)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.aggregate.server_step import Decay, adapt
from mmfl.config import Positive, component
from mmfl.exchange import Params, PartialSum

__all__ = ["FedYogi"]


@component
class FedYogi:
    """m <- b1 m + (1 - b1) d, v <- v - (1 - b2) d^2 sign(v - d^2), w <- w + lr m / (sqrt(v) + tau).

    d is the mean update, weighted by data size. v starts at tau^2, m at 0, without bias
    correction. A round without updates changes nothing.

    Attributes:
        lr: The server's learning rate.
        beta1: How much of the previous steps is kept.
        beta2: How much of the previous squares is kept.
        tau: The larger it is, the less the steps adapt to each coordinate.
    """

    lr: Positive = 0.01
    beta1: Decay = 0.9
    beta2: Decay = 0.99
    tau: Positive = 1e-3

    mergeable: ClassVar[Literal[True]] = True

    def aggregate(
        self, params: Params, updates: Iterable[PartialSum], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights; the state is m and v."""
        return adapt(
            params,
            updates,
            state,
            lambda before, square: before - (1.0 - self.beta2) * square * np.sign(before - square),
            lr=self.lr,
            beta1=self.beta1,
            tau=self.tau,
        )
