"""The optimizer protocol: a frozen description that makes a new optimizer for every turn."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mmfl.config import short
from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer as TorchOptimizer

__all__ = ["Optimizer", "check_optimizer"]


class Optimizer(Protocol):
    """Describes how local training uses gradients; torch is imported only when it is built.

    A member may have `buffers`: how many numbers it keeps for each weight, at least.
    """

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """A new optimizer without any state.

        Args:
            parameters: The trainable ones of the model, in its order.
            lr: The learning rate of this round.
        """
        ...


def check_optimizer(made: Any) -> None:
    """Refuse what cannot take a step along gradients that are there."""
    if isinstance(made, type) or not callable(getattr(made, "step", None)):
        raise InputError(f"an optimizer must have a method step(), got {short(made)}")
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.optim.SparseAdam):
        raise InputError("SparseAdam takes only sparse gradients, and mmfl makes gradients dense")
    if _needs_closure(made.step):
        raise InputError(
            f"{type(made).__name__} needs a closure, because it evaluates the loss several times "
            "in a step; local training evaluates it once"
        )


def _needs_closure(step: Any) -> bool:
    """Whether it cannot be called without an argument."""
    try:
        inspect.signature(step).bind()
    except TypeError:
        return True
    except ValueError:  # it does not say what it takes
        return False
    return False
