"""What a network keeps besides its weights, put back to its beginning before each turn.

A network's `forward` may cache a table, count its calls, or put one tensor in the place of another.
A turn must not depend on the turns before it in the same process, which differ from one number of
workers to the next. So whatever a network can reach through its attributes is noted when it has
been built: tensors, arrays, random generators, lists, dictionaries, sets, and the attributes and
slots of layers and of the user's own objects. Iterators are refused. Classes, functions, global
variables and the objects of other libraries are left alone.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import IOBase
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmfl.errors import EngineError
from mmfl.system.user_code import is_users_class

__all__ = ["ModuleState"]

_NOTHING = object()

LARGE = 1 << 20
"""Tensors of more numbers are copied only if torch has counted a change in place.

It does not count what batch norm does to running statistics, but these are never so large.
"""


class ModuleState:
    """All that `restore` puts back.

    Args:
        module: The network, as it was built.
        weights: Its parameters and buffers whose values are set elsewhere.
    """

    def __init__(self, module: nn.Module, weights: Iterable[Tensor]) -> None:
        self._seen: dict[int, Any] = {id(tensor): tensor for tensor in weights}
        self._actions: list[Callable[[], object]] = [
            partial(tensor.requires_grad_, tensor.requires_grad) for tensor in self._seen.values()
        ]
        waiting: list[Any] = [module]
        while waiting:
            value = waiting.pop()
            if id(value) not in self._seen:
                action, inner = _inspect(value)
                slots = _find_slots(value)
                self._seen[id(value)] = value  # while it is kept, nothing else has this number
                self._actions += [] if action is None else [action]
                self._actions += [partial(_put_slots, value, slots)] if slots else []
                kept = (one for one in slots.values() if one is not _NOTHING)
                waiting += [*inner, *kept, *_find_attributes(value)]

    def restore(self) -> None:
        """Everything as it was when the network was built."""
        for action in self._actions:
            action()


def _inspect(value: Any) -> tuple[Callable[[], object] | None, Iterable[Any]]:
    """What puts a value back, and the values in it."""
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() | type():
            return None, ()
        case Tensor():
            return _for_tensor(value), ()
        case np.ndarray():
            return partial(_put_array, value, value.copy()) if value.flags.writeable else None, ()
        case dict():
            return partial(_put_items, value, dict(value)) if value else value.clear, value.values()
        case list() | deque():
            return partial(_put_sequence, value, list(value)) if value else value.clear, value
        case set():
            return partial(_put_set, value, set(value)), ()
        case bytearray():
            return partial(_put_bytes, value, bytes(value)), ()
        case tuple():
            return None, value
    library = isinstance(value, Iterator) and not is_users_class(type(value))
    if library and not isinstance(value, IOBase):
        raise EngineError(
            f"the network keeps an iterator ({type(value).__name__}), which cannot be put back to "
            "its beginning before each turn; make it in forward, or keep a list"
        )
    return _for_generator(value), ()


def _for_generator(value: Any) -> Callable[[], object] | None:
    """What puts back a generator of random numbers; None for anything else."""
    match value:
        case torch.Generator():
            return partial(value.set_state, value.get_state())
        case np.random.RandomState():
            return partial(value.set_state, value.get_state())
        case random.Random():
            return partial(value.setstate, value.getstate())
        case np.random.Generator():
            bits = value.bit_generator
            return partial(setattr, bits, "state", bits.state)
    return None


def _find_attributes(value: Any) -> Iterable[Any]:
    """The table of a layer's attributes, or of those of an object of the user's."""
    own = isinstance(value, nn.Module) or is_users_class(type(value))
    return [vars(value)] if own and hasattr(value, "__dict__") else ()


def _find_slots(value: Any) -> dict[str, Any]:
    """What an object of the user's keeps in its slots, which may be empty, by their names."""
    if isinstance(value, type) or not is_users_class(type(value)):
        return {}
    slots = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
    names = [name for some in slots for name in ([some] if isinstance(some, str) else some)]
    return {name: getattr(value, name, _NOTHING) for name in names if name[:2] != "__"}


def _put_slots(value: Any, first: dict[str, Any]) -> None:
    for name, one in first.items():
        if getattr(value, name, _NOTHING) is one:
            continue
        if one is _NOTHING:
            object.__delattr__(value, name)
        else:
            object.__setattr__(value, name, one)


def _for_tensor(tensor: Tensor) -> Callable[[], object] | None:
    if tensor.grad_fn is not None or tensor.is_inference() or tensor.is_meta:
        return None
    if tensor.numel() > LARGE:
        return _LargeTensor(tensor)
    return partial(_put_tensor, tensor, tensor.detach().clone())


class _LargeTensor:
    """A tensor that is put back only if torch counts a change, because copying it takes time."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._first = tensor, tensor.detach().clone()
        self._seen = self._count()

    def _count(self) -> tuple[int, int]:
        return self._tensor._version, self._tensor.data_ptr()

    def __call__(self) -> None:
        if self._count() != self._seen:
            _put_tensor(self._tensor, self._first)
            self._seen = self._count()


def _put_tensor(tensor: Tensor, first: Tensor) -> None:
    tensor.data = first.clone()
    tensor.grad = None


def _put_array(array: np.ndarray[Any, Any], first: np.ndarray[Any, Any]) -> None:
    np.copyto(array, first)


def _put_items(items: dict[Any, Any], first: dict[Any, Any]) -> None:
    same = len(items) == len(first) and all(map(is_, items, first))
    if not (same and all(map(is_, items.values(), first.values()))):
        items.clear()
        items.update(first)


def _put_sequence(items: list[Any] | deque[Any], first: list[Any]) -> None:
    if len(items) != len(first) or not all(map(is_, items, first)):
        items.clear()
        items.extend(first)


def _put_bytes(items: bytearray, first: bytes) -> None:
    items[:] = first


def _put_set(items: set[Any], first: set[Any]) -> None:
    items.clear()
    items.update(first)
