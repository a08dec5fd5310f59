"""Torch's own generator and settings: set for one piece of work, and put back afterwards.

They belong to the whole process, so one lock covers them: runs in several threads take turns, and
each gets the bits that it gets alone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from mmfl.rng import Stream
from mmfl.train.modes import set_modes_aside
from mmfl.train.settings import USUAL, change_settings, read_settings

__all__ = ["end_fork", "isolate_torch", "seed_torch", "settle_torch"]

_LOCK = threading.RLock()
_NOTHING = nullcontext()


@contextmanager
def isolate_torch() -> Iterator[None]:
    """Nothing else uses torch; it computes on one thread, with its usual settings and no modes.

    What is changed in this block is put back at its end. A result must not depend on the number of
    cores, nor on whose model was in this process before, nor on what the caller has set. A process
    that was forked in the block ends with it.
    """
    process, inference = os.getpid(), torch.is_inference_mode_enabled()
    with _LOCK, torch.inference_mode(mode=False) if inference else _NOTHING:
        threads, before = torch.get_num_threads(), read_settings()
        modes = set_modes_aside()
        try:
            if threads != 1:
                torch.set_num_threads(1)
            if before != USUAL:
                change_settings(before, USUAL)
            torch.clear_autocast_cache()  # it may hold what weights were in an earlier block
            yield
        finally:
            end_fork(process)
            modes.put_back()
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            after = read_settings()
            if after != before:
                change_settings(after, before)


def settle_torch() -> None:
    """What `isolate_torch` does for a block, for good: in a process that runs only mmfl's code."""
    set_modes_aside()
    torch.set_num_threads(1)
    change_settings(read_settings(), USUAL)


@contextmanager
def seed_torch(rng: Stream) -> Iterator[None]:
    """Torch's own generator is set from an address (dropout, first weights)."""
    process = os.getpid()
    with _LOCK:
        generator = torch.default_generator  # torch.manual_seed costs 1 ms for CUDA's sake
        before = generator.get_state()
        try:
            generator.manual_seed(rng.torch_seed())
            yield
        finally:
            end_fork(process)
            generator.set_state(before)


def end_fork(process: int) -> None:
    """End this process at once if it is not the given one: a model may have forked it.

    A fork has a copy of everything, and would train, answer and store as if it were the original.
    """
    if os.getpid() != process:
        os._exit(0)
