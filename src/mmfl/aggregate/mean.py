"""The mean weighted by data size: Algorithm 1, line 13 (McMahan et al. 2017, FedAvg)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.config import component
from mmfl.params import Params
from mmfl.updates import PartialSum

__all__ = ["Mean"]


@component
class Mean:
    """w_s <- sum over Sel_s of p_{k,Sel_s} w_{k,s}, with p_{k,Sel_s} = |D_ks| / sum |D_k's|.

    Written with w_{k,s} = w_s + delta_k: w_s <- w_s + sum |D_ks| delta_k / sum |D_ks|, in float64.
    """

    mergeable: ClassVar[Literal[True]] = True

    def aggregate(
        self, params: Params, updates: Iterable[PartialSum], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """Algorithm 1, line 13."""
        total, examples = np.zeros(params.layout.size), 0
        for part in updates:
            total += part.total
            examples += part.examples
        if examples:
            total /= examples
            total += params.flat
        return Params(params.layout, (total if examples else params.flat).astype(np.float32)), state
