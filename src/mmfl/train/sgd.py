"""SGD with momentum and weight decay: torch's own update rule, to the bit.

Why not `torch.optim.SGD`: its first use imports torch's compiler, which takes as long as importing
torch itself, in every worker, before the first step of the first round.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from mmfl.updates import LocalWork

__all__ = ["Sgd"]


class Sgd:
    """One client's optimiser for one turn.

        g <- gradient + weight_decay * w
        v <- g in the first step, momentum * v + g later
        w <- w - lr * v

    A parameter without a gradient is left alone, as in torch.
    """

    def __init__(self, parameters: Iterable[Tensor], work: LocalWork) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self._work = work
        self._velocity: dict[int, Tensor] = {}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take one step along the gradients."""
        for number, w in enumerate(self._parameters):
            if w.grad is None:
                continue
            g = w.grad
            if self._work.weight_decay:
                g = g.add(w, alpha=self._work.weight_decay)
            if self._work.momentum:
                v = self._velocity.get(number)
                v = g.clone() if v is None else v.mul_(self._work.momentum).add_(g)
                self._velocity[number] = g = v
            w.add_(g, alpha=-self._work.lr)
