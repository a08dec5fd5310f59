"""A device whose memory is apart from the processor's, on a machine without a GPU.

Its tensors are the processor's own, but marked: an operation on marked and other tensors together
fails, as it does if one is on a GPU. It cannot tell ``torch.zeros(3, device=x.device)`` from
``torch.zeros(3)``, so models in tests use ``x.new_zeros(3)``; and it does not see `Tensor.numpy`,
which a GPU's tensors do not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmfl.train.device import Device

__all__ = ["SecondMemory", "second_memory"]

TRANSFERS = (torch.ops.aten.copy_.default,)


class SecondMemory(Device):
    """The marked memory."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.home = False
        self.read = Tensor.detach
        self.generator = torch.Generator()
        self.transfers = 0
        self.lost = False
        self._there: dict[int, Any] = {}  # storages, which are kept so that no other has its place

    def put(self, tensor: Tensor) -> Tensor:
        self.transfers += 1
        with torch.utils._python_dispatch._disable_current_modes():
            moved = tensor.clone()
        self.mark(moved)
        return moved

    def fetch(self, tensor: Tensor) -> Tensor:
        self.transfers += 1
        with torch.utils._python_dispatch._disable_current_modes():
            return tensor.clone()

    def mark(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self._there[storage.data_ptr()] = storage

    def holds(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._there

    @property
    def _generators(self):
        return [self.generator]

    def _synchronize(self) -> None:
        if self.lost:
            raise RuntimeError("CUDA error: device-side assert triggered\nlong explanations")


class _Watch(TorchDispatchMode):
    def __init__(self, device: SecondMemory) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        found = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.numel()]
        there = [t for t in found if self.device.holds(t)]
        here = [t for t in found if t.ndim and not self.device.holds(t)]
        if there and here and func not in TRANSFERS:
            raise RuntimeError(f"Expected all tensors to be on the same device, in {func}")
        done = func(*args, **kwargs)
        if there and func not in TRANSFERS:
            for made in tree_leaves(done):
                if isinstance(made, Tensor) and made.numel():
                    self.device.mark(made)
        return done


@contextmanager
def second_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[SecondMemory]:
    """Within this block trainers train on such a device."""
    device = SecondMemory()
    with monkeypatch.context() as patch:
        patch.setattr("mmfl.train.trainer.Device", lambda name, **_: device)
        patch.setattr("mmfl.train.modes._no_modes", lambda: True)  # else ours is set aside
        with _Watch(device):
            yield device
