"""q-Fel over tasks: q-FFL's steps (Li et al. 2020) with the task's loss instead of each client's.

It is the paper's third baseline. The allocation stays uniform; a model with a high loss takes
longer steps than one with a low loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from mmfl.aggregate.collected import apply_step
from mmfl.config import Flag, NonNegative, Positive, component
from mmfl.errors import EngineError
from mmfl.exchange import ClientUpdate, Params

__all__ = ["QFel", "q_fel_as_published"]

Doubles = npt.NDArray[np.float64]


@component
class QFel:
    """w <- w - sum of f^q D_i / sum of (q f^(q-1) |D_i|^2 + L f^q), where D_i = L (w - w_i).

    f is the loss of the task's model before the round, whatever `score` is, and w_i are the weights
    that client i sent. Data sizes and weights of tasks are ignored. With q = 0 it is the plain
    mean; a large q shortens all steps.

    Attributes:
        q: How strongly the loss matters: alpha - 1, where alpha is that of `fed_fair`.
        lipschitz: L, which bounds how fast the gradient changes; by default 1 / learning rate.
        frozen: Whether f stays the loss of the initial model, as in the authors' own runs.
    """

    q: NonNegative = 2.0
    lipschitz: Positive | None = None
    frozen: Flag = False

    mergeable: ClassVar[Literal[False]] = False
    wants: ClassVar[tuple[str, ...]] = ("loss", "lr")

    def aggregate(
        self,
        params: Params,
        updates: Iterable[ClientUpdate],
        difficulty: float,
        state: Any,
        *,
        loss: float,
        lr: float,
    ) -> tuple[Params, Any]:
        """The task's new weights. The state is the loss of the initial model, if that is needed.

        Divided by L f^q, the formula is w + sum of d_i / sum of (1 + q L |d_i|^2 / f), where d_i is
        a client's change of the weights. So nothing overflows, and updates need not be kept.
        """
        if loss < 0:
            raise EngineError(f"q_fel needs a loss that is not negative, got {loss:g}")
        if self.frozen:
            state = loss if state is None else state
            loss = state
        bound = 1 / lr if self.lipschitz is None else self.lipschitz
        total: Doubles = np.zeros(params.layout.size)
        count, curvature = 0, 0.0
        for update in updates:
            assert isinstance(update.delta, Params), "only checked updates are aggregated"
            total += update.delta.flat
            count += 1
            curvature += self.q * bound * update.norm**2
        if not count or not curvature:
            return apply_step(params, total / max(count, 1)), state
        if not math.isfinite(loss):  # a model that diverged: the longest steps
            return apply_step(params, total / count), state
        step = total * (loss / (count * loss + curvature))
        return apply_step(params, step, total / count), state


def q_fel_as_published(
    weights: Doubles, sent: Iterable[Doubles], *, loss: float, q: float, lipschitz: float
) -> Doubles:
    """The new weights, exactly as in the formula: the plain reference for `QFel`.

    Args:
        weights: w, before the round.
        sent: w_i, the weights that each client sent.
        loss: f, the task's loss.
        q: The exponent.
        lipschitz: L.
    """
    steps = [lipschitz * (weights - own) for own in sent]
    above: Doubles = np.sum([loss**q * step for step in steps], axis=0)
    below = sum(q * loss ** (q - 1) * step.dot(step) + lipschitz * loss**q for step in steps)
    after: Doubles = weights - above / below
    return after
