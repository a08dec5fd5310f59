"""A network that the user gives: a function, an ``nn.Module``, or a class of them."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmfl.config import OwnFunction, copy_by_value, short
from mmfl.errors import InputError
from mmfl.system.definitions import describe_place

if TYPE_CHECKING:
    from torch import nn

__all__ = ["OwnNetwork", "is_network"]


@dataclass(frozen=True)
class OwnNetwork:
    """What a user's function or class builds, called as ``build(shape, outputs)`` or ``build()``.

    An ``nn.Module`` is copied, and training starts from its weights. A function or class that needs
    no arguments is called without any. Its other keywords are written next to `kind`.
    """

    function: OwnFunction

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The network."""
        given = self.function.find()
        if is_network(given) and not isinstance(given, type):
            made = copy_by_value(given)
        else:
            made = self.function(*((shape, outputs) if _takes_shape(given) else ()))
        if not is_network(made) or isinstance(made, type):
            said = f"{self.function.name!r} must build an nn.Module, got {short(made)}"
            raise InputError(f"{said}{describe_place(given)}")
        network: nn.Module = made
        return network


def is_network(value: object) -> bool:
    """Whether it is an ``nn.Module`` or a class of them; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(value, type):
        return issubclass(value, torch.nn.Module)
    return isinstance(value, torch.nn.Module)


def _takes_shape(build: Any) -> bool:
    """Whether it takes shape and outputs; False if it can do without any argument."""
    try:
        parameters = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(one.default is one.empty and one.kind in positional for one in parameters)
