"""Modes that change what every call of torch does: set aside for one piece of work.

Torch keeps them on stacks, one set per thread. A default device is a function mode, too. Torch has
no public functions for a whole stack; where a version lacks one of those below, that stack is left
alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import torch

__all__ = ["Modes", "set_modes_aside"]


class _Stack(NamedTuple):
    """One of torch's stacks; `top` is falsy if it is empty."""

    top: Callable[[], Any]
    pop: Callable[[], Any]
    push: Callable[[Any], Any]

    def take(self) -> list[Any]:
        """Empty the stack; what was on top comes first."""
        taken = []
        while self.top():
            taken.append(self.pop())
        return taken


class Modes(NamedTuple):
    """What was on the stacks, and what torch had noted about the default device."""

    stacks: tuple[list[Any], ...]
    device: tuple[Any, Any]

    def put_back(self) -> None:
        """Replace whatever is on the stacks now by what was there."""
        if self is _NONE and _no_modes():
            return
        for stack, before in zip(_STACKS, self.stacks, strict=True):
            stack.take()
            for mode in reversed(before):
                stack.push(mode)
        _note_device(*self.device)


def set_modes_aside() -> Modes:
    """Leave torch without any mode and without a default device."""
    if _no_modes():
        return _NONE
    modes = Modes(tuple(stack.take() for stack in _STACKS), _noted_device())
    _note_device(None, None)
    return modes


def _no_modes() -> bool:
    return not any([top() for top in _TOPS])  # noqa: C419  (quicker than a generator)


def _noted_device() -> tuple[Any, Any]:
    """The default device's mode and the device itself, which torch keeps besides the stack."""
    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return context, getattr(sys.modules.get("torch.utils._device"), "CURRENT_DEVICE", None)


def _note_device(context: Any, current: Any) -> None:
    notes: Any = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    if notes is not None:
        notes.device_context = context
    module: Any = sys.modules.get("torch.utils._device")  # torch imports it with the first device
    if module is not None:
        module.CURRENT_DEVICE = current


def _function_modes() -> _Stack:
    core: Any = torch._C
    return _Stack(
        core._len_torch_function_stack,
        core._pop_torch_function_stack,
        core._push_on_torch_function_stack,
    )


def _dispatch_modes() -> _Stack:
    core: Any = torch._C
    return _Stack(
        core._len_torch_dispatch_stack,
        partial(core._pop_torch_dispatch_stack, None),
        core._push_on_torch_dispatch_stack,
    )


def _saved_tensors_hooks() -> _Stack:
    autograd: Any = torch._C._autograd
    top, remove = (
        autograd._top_saved_tensors_default_hooks,
        autograd._pop_saved_tensors_default_hooks,
    )
    push = autograd._push_saved_tensors_default_hooks

    def pop() -> Any:
        hooks = top(True)
        remove()
        return hooks

    return _Stack(partial(top, True), pop, lambda hooks: push(*hooks))


def _known_stacks() -> tuple[_Stack, ...]:
    stacks = []
    for make in (_function_modes, _dispatch_modes, _saved_tensors_hooks):
        with suppress(AttributeError):
            stacks.append(make())
    return tuple(stacks)


_STACKS = _known_stacks()
_TOPS = [stack.top for stack in _STACKS]
_NONE = Modes(tuple([] for _ in _STACKS), (None, None))
