"""The device of one process: what lies in its memory, its random numbers, and its settings.

Data and weights come from the processor's memory and go back there: checks, sums, losses and
metrics of evaluations are computed on the processor, whatever trains. On the processor itself
nothing is copied.

On a GPU, torch is asked for deterministic algorithms without TF32. The same GPU model, driver and
versions then give the same bits; an operation that torch has no deterministic algorithm for fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from mmfl.devices import get_device_type
from mmfl.errors import EngineError, text_of
from mmfl.rng import Stream
from mmfl.train.seeding import isolate_torch, seed_torch, settle_torch

__all__ = ["CPU", "Device", "DeviceLostError"]


class DeviceLostError(EngineError):
    """After this error, nothing can be computed on the GPU in this process any more."""


class Device:
    """A device that this machine has.

    Args:
        name: "cpu", "cuda", "cuda:1" or "mps".
        own_code: Whether a user's code runs on it; see `seed_torch`.
        alone: Whether the process does nothing else; see `seed_torch`.

    Attributes:
        home: Whether it is the processor, with whose memory everything begins and ends.
        read: A loss as a number, or as a tensor where a number would have to be waited for.
    """

    def __init__(self, name: str = "cpu", *, own_code: bool = False, alone: bool = False) -> None:
        self.name = name
        self._own_code, self._alone = own_code, alone
        self.home = name == "cpu"
        self.read: Callable[[Tensor], Tensor | float] = Tensor.item if self.home else Tensor.detach
        self._torch = torch.device(name)
        if get_device_type(name) == "cuda":
            # Without it, cuBLAS is not deterministic; it is read when cuBLAS is first used.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    @property
    def fused(self) -> bool:
        """Whether torch's fused optimizers can be relied on here."""
        return get_device_type(self.name) != "mps"

    def put(self, tensor: Tensor) -> Tensor:
        """A tensor from the processor's memory in the device's; the same tensor if that is one."""
        return tensor.to(self._torch)

    def fetch(self, tensor: Tensor) -> Tensor:
        """The inverse."""
        return tensor.cpu()

    def move(self, module: nn.Module) -> None:
        """Put a network's parameters and buffers, which stay the same objects, into its memory."""
        if not self.home:
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.data = self.put(tensor.data)

    def isolate(self) -> AbstractContextManager[None]:
        """See `isolate_torch`."""
        return isolate_torch(gpu=not self.home)

    def settle(self) -> None:
        """See `settle_torch`."""
        settle_torch(gpu=not self.home)

    def seed(self, rng: Stream) -> AbstractContextManager[None]:
        """See `seed_torch`: the device's own generator, too."""
        own, alone = self._own_code, self._alone
        return seed_torch(rng, self._generators, own_code=own, alone=alone)

    @property
    def _generators(self) -> Sequence[torch.Generator]:
        match self._torch.type:
            case "cuda":
                torch.cuda.init()
                return [torch.cuda.default_generators[self._torch.index or 0]]
            case "mps":
                return [torch.mps._get_default_mps_generator()]
        return ()

    def check(self) -> None:
        """Raise `DeviceLostError` if the device is beyond use.

        A failed assertion on a GPU, such as a class number that is too large, also fails whatever
        its process computes there later.
        """
        if self.home:
            return
        try:
            self._synchronize()
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            raise DeviceLostError(f"device {self.name!r} has failed: {first}") from error

    def _synchronize(self) -> None:
        if self._torch.type == "cuda":
            torch.cuda.synchronize(self._torch)
        else:
            torch.mps.synchronize()

    def hint(self, error: BaseException) -> str:
        """What helps whoever gets this error, if that is known."""
        if self.home or "does not have a deterministic implementation" not in text_of(error):
            return ""
        return '; a GPU only does what gives the same bits every time: use device = "cpu"'

    def describe(self) -> dict[str, str]:
        """What this device computes with, by name; nothing for the processor."""
        if self.home:
            return {}
        if self._torch.type == "mps":
            return {"gpu": "mps"}
        gpu: Any = torch.cuda.get_device_properties(self._torch)
        return {
            "gpu": gpu.name,
            "cuda": str(torch.version.cuda or torch.version.hip),
            "cudnn": str(torch.backends.cudnn.version()),
        }


CPU = Device()
