"""SGD: the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmfl.config import component

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer as TorchOptimizer

__all__ = ["Sgd"]


@component
class Sgd:
    """SGD with `local.momentum` and `local.weight_decay`; the fastest, and the paper's."""

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """Torch's, without momentum. Kernels use `mmfl.train.sgd` instead, which is faster."""
        from torch.optim import SGD

        return SGD(parameters, lr)
