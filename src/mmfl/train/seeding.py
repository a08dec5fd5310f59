"""Torch's own generator and its threads, set for one piece of work and put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mmfl.rng import Stream

__all__ = ["one_thread", "seeded"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread: a result must not depend on the number of cores."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def seeded(rng: Stream) -> Iterator[None]:
    """Torch's own generator is set from an address (dropout, first weights)."""
    generator = torch.default_generator  # torch.manual_seed costs 1 ms for CUDA's sake
    before = generator.get_state()
    try:
        generator.manual_seed(rng.torch_seed())
        yield
    finally:
        generator.set_state(before)
