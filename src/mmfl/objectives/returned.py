"""What a user's loss or metric returns, checked: the sentence names where it is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmfl.config import OwnFunction
from mmfl.errors import InputError, describe_type
from mmfl.objectives.base import Values
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import describe_part

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_mean", "check_one_number_each", "check_values"]


def check_one_number_each(value: Any, examples: int, function: OwnFunction) -> Tensor:
    """Refuse what a user's function returns unless it is a mean or a vector."""
    from torch import Tensor

    if not isinstance(value, Tensor) or tuple(value.shape) not in ((), (examples,)):
        who = f"{function.name!r} must return one number or one per example ({examples})"
        raise InputError(f"{who}, got {_describe(value)}{describe_place(function)}")
    found: Tensor = value
    return found


def check_values(values: Values, metric: object) -> Values:
    """The function of a user's class of metrics, whose results are checked."""

    def compute(outputs: Tensor, targets: Tensor) -> Tensor:
        found = values(outputs, targets)
        shape = tuple(found.shape) if hasattr(found, "sum") else None
        if shape not in ((), (len(targets),)):
            who = f"the metric {describe_part(metric)} must make of a batch its mean, or one number"
            raise InputError(
                f"{who} per example ({len(targets)}), got {_describe(found)}"
                f"{describe_place(values, metric)}"
            )
        return found

    return compute


def check_mean(value: Any, loss: object) -> None:
    """Refuse what a loss returns unless it is a real number in a tensor."""
    from torch import Tensor

    if not isinstance(value, Tensor) or value.numel() != 1 or not value.is_floating_point():
        got = _describe(value)
        if isinstance(value, Tensor) and value.numel() == 1:
            got = f"a tensor of {str(value.dtype).removeprefix('torch.')}"
        raise InputError(
            f"mean of the loss {describe_part(loss)} must return one real number, "
            f"got {got}{describe_place(loss)}"
        )


def _describe(value: Any) -> str:
    """The shape of a tensor; the type of anything else."""
    from torch import Tensor

    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)}"
    return f"{describe_type(value)}, not a tensor"
