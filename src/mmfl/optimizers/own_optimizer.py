"""An optimizer that the user gives: a class like those of ``torch.optim``, or a function."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmfl.config import OwnFunction

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer as TorchOptimizer

__all__ = ["OwnOptimizer", "is_optimizer_class"]


@dataclass(frozen=True)
class OwnOptimizer:
    """What a class or function makes, called as ``build(parameters, lr)`` in every turn.

    Its other keywords are written next to `kind`.
    """

    function: OwnFunction

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """A new optimizer."""
        made: Any = self.function(parameters, lr)
        return made  # type: ignore[no-any-return]


def is_optimizer_class(value: object) -> bool:
    """Whether it is a class of optimizers; a dataclass describes one instead."""
    if not isinstance(value, type) or dataclasses.is_dataclass(value):
        return False
    return callable(getattr(value, "step", None))
