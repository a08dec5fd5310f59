"""The mean weighted by data size: Algorithm 1, line 13 (McMahan et al. 2017, FedAvg)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.aggregate.base import BLOCK, add_up
from mmfl.config import component
from mmfl.exchange import Params, PartialSum
from mmfl.system import calls

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
        total, examples = add_up(updates)
        if total is None or not examples:
            return Params(params.layout, params.flat.copy()), state
        new = calls.allocate(params.flat.shape, np.float32)
        for start in range(0, len(new), BLOCK):
            some = slice(start, start + BLOCK)
            step = total[some] + 0.0  # a sum starts at 0.0, so no -0.0 of the first part may remain
            step /= examples
            step += params.flat[some]
            new[some] = step
        return Params(params.layout, new), state
