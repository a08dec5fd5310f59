"""SGD with momentum and weight decay: torch's own update rule.

Why not `torch.optim.SGD`: its first use imports torch's compiler, which takes as long as importing
torch itself, in every worker, before the first step of the first round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor

from mmfl.exchange import LocalWork

__all__ = ["FusedSgd", "Optimizer", "Sgd", "make_dense"]


class Optimizer(ABC):
    """One client's optimiser for one turn. A parameter without a gradient is left alone."""

    def __init__(self, parameters: Iterable[Tensor], work: LocalWork) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self._work = work

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @abstractmethod
    def step(self) -> None:
        """Take one step along the gradients."""


class Sgd(Optimizer):
    """The rule, line by line: torch's bits.

    g <- gradient + weight_decay * w
    v <- g in the first step, momentum * v + g later
    w <- w - lr * v
    """

    def __init__(self, parameters: Iterable[Tensor], work: LocalWork) -> None:
        super().__init__(parameters, work)
        self._velocity: dict[int, Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Weight by weight."""
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


class FusedSgd(Optimizer):
    """The rule in one pass over the memory; equal within rounding."""

    def __init__(self, parameters: Iterable[Tensor], work: LocalWork) -> None:
        super().__init__(parameters, work)
        self._velocity: dict[int, Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        """All weights at once."""
        work = self._work
        moving = {w: make_dense(w.grad) for w in self._parameters if w.grad is not None}
        if not moving:
            return
        if not work.momentum and not work.weight_decay:
            torch._foreach_add_(list(moving), list(moving.values()), alpha=-work.lr)
            return
        new = {w: g for w, g in moving.items() if id(w) not in self._velocity}
        known = {w: g for w, g in moving.items() if id(w) in self._velocity}
        if work.momentum:
            self._velocity |= {id(w): torch.empty_like(w) for w in new}
        for group in (new, known):
            if group:
                torch._fused_sgd_(
                    list(group),
                    list(group.values()),
                    [self._velocity[id(w)] for w in group] if work.momentum else [],
                    weight_decay=work.weight_decay,
                    momentum=work.momentum,
                    lr=work.lr,
                    dampening=0.0,
                    nesterov=False,
                    maximize=False,
                    is_first_step=group is new,
                )


def make_dense(gradient: Tensor) -> Tensor:
    """A gradient as torch's optimizers and sums take it."""
    return gradient.to_dense() if gradient.is_sparse else gradient
