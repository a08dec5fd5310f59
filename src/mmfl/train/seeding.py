"""Torch's own generator and settings: set for one piece of work, and put back afterwards.

They belong to the whole process, so one lock covers them: runs in several threads take turns, and
each gets the bits that it gets alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch

from mmfl.rng import Stream
from mmfl.train.modes import set_modes_aside

__all__ = ["isolated", "seeded"]

_LOCK = threading.RLock()
_SMALLEST = 5e-324
_NOTHING = nullcontext()


class _Setting(NamedTuple):
    """A setting of torch on which bits depend; user code may change it."""

    read: Callable[[], Any]
    change: Callable[[Any], object]
    usual: Any


def _read_deterministic() -> tuple[bool, bool]:
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warns


def _change_deterministic(modes: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])


def _read_nesting() -> int:
    """In how many blocks of `torch.autocast` this is; leaving the outermost empties its cache."""
    torch.autocast_increment_nesting()
    depth: int = torch.autocast_decrement_nesting()
    return depth


def _change_nesting(depth: int) -> None:
    while (now := _read_nesting()) != depth:
        torch.autocast_increment_nesting() if now < depth else torch.autocast_decrement_nesting()


_SETTINGS = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    _Setting(_read_deterministic, _change_deterministic, (False, False)),
    _Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
    _Setting(torch.is_grad_enabled, torch.set_grad_enabled, True),
    _Setting(lambda: _SMALLEST * 1.0 == 0.0, torch.set_flush_denormal, False),  # it cannot be asked
    _Setting(
        partial(torch.is_autocast_enabled, "cpu"), partial(torch.set_autocast_enabled, "cpu"), False
    ),
    _Setting(
        partial(torch.get_autocast_dtype, "cpu"),
        partial(torch.set_autocast_dtype, "cpu"),
        torch.bfloat16,
    ),
    _Setting(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, True),
    _Setting(_read_nesting, _change_nesting, 0),
)
_READERS = [setting.read for setting in _SETTINGS]
_USUAL = [setting.usual for setting in _SETTINGS]


def _change(now: list[Any], wanted: list[Any]) -> None:
    """Change the settings that are not as wanted."""
    for setting, old, new in zip(_SETTINGS, now, wanted, strict=True):
        if old != new:
            setting.change(new)


@contextmanager
def isolated() -> Iterator[None]:
    """Nothing else uses torch; it computes on one thread, with its usual settings and no modes.

    What is changed in this block is put back at its end. A result must not depend on the number of
    cores, nor on whose model was in this process before, nor on what the caller has set.
    """
    inference = torch.is_inference_mode_enabled()
    with _LOCK, torch.inference_mode(mode=False) if inference else _NOTHING:
        modes, threads = set_modes_aside(), torch.get_num_threads()
        before = [read() for read in _READERS]
        try:
            if threads != 1:
                torch.set_num_threads(1)
            if before != _USUAL:
                _change(before, _USUAL)
            torch.clear_autocast_cache()  # it may hold what weights were in an earlier block
            yield
        finally:
            modes.put_back()
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            after = [read() for read in _READERS]
            if after != before:
                _change(after, before)


@contextmanager
def seeded(rng: Stream) -> Iterator[None]:
    """Torch's own generator is set from an address (dropout, first weights)."""
    with _LOCK:
        generator = torch.default_generator  # torch.manual_seed costs 1 ms for CUDA's sake
        before = generator.get_state()
        try:
            generator.manual_seed(rng.torch_seed())
            yield
        finally:
            generator.set_state(before)
