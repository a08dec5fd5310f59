"""Torch's own generator and settings: set for one piece of work, and put back afterwards.

They belong to the whole process, so one lock covers them: runs in several threads take turns, and
each gets the bits that it gets alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import torch

from mmfl.rng import Stream

__all__ = ["isolated", "seeded"]

_LOCK = threading.RLock()
_SMALLEST = 5e-324


class _Settings(NamedTuple):
    """Settings of torch on which bits depend; user code may change any of them."""

    dtype: torch.dtype
    deterministic: bool
    warns_only: bool
    matmul: str
    gradients: bool
    flushes: bool

    @classmethod
    def now(cls) -> Self:
        return cls(
            torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_float32_matmul_precision(),
            torch.is_grad_enabled(),
            _SMALLEST * 1.0 == 0.0,  # torch cannot be asked
        )

    def restore(self) -> None:
        torch.set_default_dtype(self.dtype)
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warns_only)
        torch.set_float32_matmul_precision(self.matmul)
        torch.set_grad_enabled(self.gradients)
        torch.set_flush_denormal(self.flushes)


@contextmanager
def isolated() -> Iterator[None]:
    """Nothing else uses torch; it computes on one thread, and keeps no setting that is changed.

    A result must not depend on the number of cores, nor on whose model was in this process before.
    """
    with _LOCK:
        threads, settings = torch.get_num_threads(), _Settings.now()
        if threads != 1:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            if _Settings.now() != settings:
                settings.restore()


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
