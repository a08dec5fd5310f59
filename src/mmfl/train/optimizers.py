"""The optimizer of one turn: SGD by hand, one of ``torch.optim``, and what changes its gradients.

Each turn starts with a new optimizer. Sparse gradients are made dense before anything uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from mmfl import optimizers
from mmfl.exchange import LocalWork
from mmfl.optimizers import check_optimizer
from mmfl.train.sgd import FusedSgd, Optimizer, Sgd, make_dense

__all__ = [
    "StartOptimizer",
    "choose_optimizer",
    "clip_gradients",
    "start_optimizer",
    "try_optimizer",
]

StartOptimizer = Callable[[Sequence[Tensor], LocalWork], Optimizer]

_CLIP_EPS = 1e-6  # as in torch.nn.utils.clip_grad_norm_


def choose_optimizer(settings: optimizers.Optimizer, *, fused: bool) -> StartOptimizer:
    """What starts a turn's optimizer.

    Args:
        settings: Those of the task.
        fused: Whether SGD updates all weights in one pass, or line by line.
    """
    if isinstance(settings, optimizers.Sgd):
        return FusedSgd if fused else Sgd
    return lambda parameters, work: _Built(parameters, work, settings)


def try_optimizer(settings: optimizers.Optimizer, parameters: Iterable[Tensor]) -> None:
    """Raise whatever it raises when a turn starts; SGD cannot.

    The first use of ``torch.optim`` also imports torch's compiler, which takes two seconds.
    """
    if not isinstance(settings, optimizers.Sgd):
        check_optimizer(settings.build([p for p in parameters if p.requires_grad], 0.01))


def start_optimizer(
    start: StartOptimizer, parameters: Iterable[Tensor], work: LocalWork
) -> Optimizer:
    """A turn's optimizer, at the weights that the server sent."""
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    made = start(trainable, work)
    return _Adjusted(trainable, work, made) if work.prox or work.clip_norm else made


class _Built(Optimizer):
    """One of ``torch.optim``, or of the user's."""

    def __init__(
        self, parameters: Sequence[Tensor], work: LocalWork, settings: optimizers.Optimizer
    ) -> None:
        super().__init__(parameters, work)
        self._inner = settings.build(parameters, work.lr)
        check_optimizer(self._inner)

    def step(self) -> None:
        """Its step."""
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad = make_dense(parameter.grad)
        self._inner.step()


class _Adjusted(Optimizer):
    """FedProx's term and clipping, before another optimizer's step.

        g <- gradient + prox * (w - w_global)
        g <- g * min(1, clip_norm / (||g|| + 1e-6)), with the norm over all parameters

    The first is the gradient of prox/2 ||w - w_global||^2 (Li et al., "Federated Optimization in
    Heterogeneous Networks", MLSys 2020). Parameters without a gradient are left alone.
    """

    def __init__(self, parameters: Sequence[Tensor], work: LocalWork, inner: Optimizer) -> None:
        super().__init__(parameters, work)
        self._inner = inner
        self._first = [w.detach().clone() for w in self._parameters] if work.prox else []

    @torch.no_grad()
    def step(self) -> None:
        """Adjust the gradients, then take the step."""
        work = self._work
        for number, w in enumerate(self._parameters):
            if w.grad is not None:
                w.grad = make_dense(w.grad)
                if work.prox:
                    w.grad.add_(w - self._first[number], alpha=work.prox)
        if work.clip_norm is not None:
            gradients = [w.grad for w in self._parameters if w.grad is not None]
            clip_gradients(gradients, work.clip_norm)
        self._inner.step()


def clip_gradients(gradients: Sequence[Tensor], most: float) -> None:
    """Scale gradients down so that their common norm is at most `most`."""
    if gradients:
        norms = torch.stack([torch.linalg.vector_norm(g).float() for g in gradients])
        factor = (most / (torch.linalg.vector_norm(norms) + _CLIP_EPS)).clamp_(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.dtype))
