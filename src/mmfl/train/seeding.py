"""Torch's own generator and settings: set for one piece of work, and put back afterwards.

They belong to the whole process, so one lock covers them: runs in several threads take turns, and
each gets the bits that it gets alone. The same is true of Python's and NumPy's own generators,
which only a user's code draws from.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from mmfl.rng import Stream
from mmfl.train.modes import set_modes_aside
from mmfl.train.settings import (
    USUAL,
    change_settings,
    read_settings,
    set_for_gpu,
    use_gpu_settings,
)

__all__ = ["end_fork", "isolate_torch", "seed_torch", "settle_torch"]

_LOCK = threading.RLock()
_NOTHING = nullcontext()


@contextmanager
def isolate_torch(*, gpu: bool = False) -> Iterator[None]:
    """Nothing else uses torch; it computes on one thread, with its usual settings and no modes.

    What is changed in this block is put back at its end. A result must not depend on the number of
    cores, nor on whose model was in this process before, nor on what the caller has set. A process
    that was forked in the block ends with it.

    Args:
        gpu: Whether it computes on a GPU, whose results are to be the same every time, too.
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
            with use_gpu_settings() if gpu else _NOTHING:
                yield
        finally:
            end_fork(process)
            modes.put_back()
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            after = read_settings()
            if after != before:
                change_settings(after, before)


def settle_torch(*, gpu: bool = False) -> None:
    """What `isolate_torch` does for a block, for good: in a process that runs only mmfl's code."""
    set_modes_aside()
    torch.set_num_threads(1)
    change_settings(read_settings(), USUAL)
    if gpu:
        set_for_gpu()


@contextmanager
def seed_torch(
    rng: Stream,
    others: Sequence[torch.Generator] = (),
    *,
    own_code: bool = False,
    alone: bool = False,
) -> Iterator[None]:
    """Torch's own generator is set from an address (dropout, first weights).

    Args:
        rng: The address.
        others: Generators of a GPU, which are set from it, too.
        own_code: Whether a user's code runs, which may draw from Python's and NumPy's generators.
        alone: Whether nothing else in this process draws from those two. Then they are not put
            back, which would take ten times as long as all the rest.
    """
    process = os.getpid()
    with _LOCK:
        generators = (torch.default_generator, *others)  # torch.manual_seed takes 1 ms
        before = [generator.get_state() for generator in generators]
        try:
            seed = rng.torch_seed()
            for generator in generators:
                generator.manual_seed(seed)
            if own_code and alone:
                _seed_others(seed)
            with _keep_others(seed) if own_code and not alone else _NOTHING:
                yield
        finally:
            end_fork(process)
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)


def _seed_others(seed: int) -> None:
    """Python's and NumPy's own generators are set."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002


@contextmanager
def _keep_others(seed: int) -> Iterator[None]:
    """Python's and NumPy's own generators are set, and put back."""
    before, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    _seed_others(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)  # noqa: NPY002


def end_fork(process: int) -> None:
    """End this process at once if it is not the given one: a model may have forked it.

    A fork has a copy of everything, and would train, answer and store as if it were the original.
    """
    if os.getpid() != process:
        os._exit(0)
