"""From rows of a data set to tensors: augmented, scaled, in the layout that is fast.

Images are given channels last in memory (their shape is N x C x H x W as usual) to networks that
support it: on the processors tried, training a small CNN is half as fast again and evaluating it
twice as fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmfl.data import Arrays, Augment, Normalize
from mmfl.errors import DataError
from mmfl.rng import Stream
from mmfl.train.device import CPU, Device

__all__ = ["Inputs"]

Ints = npt.NDArray[np.int64]

SMALL = 1 << 23
"""A shard of at most this many numbers is scaled once in a turn, a larger one batch by batch."""


class Inputs:
    """The examples of one task as its model sees them.

    Args:
        data: The task's data.
        normalize: How examples are scaled.
        augment: How training images are changed at random.
        channels_last: Whether the network supports images that lie channels last.
        series: Whether it gets examples of N x T x F as they are, not as images.
        device: Where it is.
    """

    def __init__(
        self,
        data: Arrays,
        normalize: Normalize,
        augment: Augment,
        *,
        channels_last: bool = True,
        series: bool = False,
        device: Device = CPU,
    ) -> None:
        if augment and data.x_train.ndim not in (3, 4):
            what = "tables" if data.x_train.ndim < 3 else "examples of four dimensions"
            raise DataError(f"augment is for images, not for {what}")
        if augment and augment.crop >= min(data.shape[1:]):
            side = min(data.shape[1:])
            raise DataError(f"augment.crop must be below the images' {side}, got {augment.crop}")
        self._data = data
        self._augment = augment
        self._channels_last = channels_last and device.home
        self._plain_sizes = 3 if series else 2
        self._put = device.put
        self._home = device.home
        self._scaling: tuple[Tensor, Tensor] | None = None
        scaling = normalize.scaling(data)
        if scaling is not None:
            mean, std = (self._put(torch.from_numpy(part)) for part in scaling)
            self._scaling = mean, std  # for the last axis, or one number for all

    def train(self, rows: Ints, *, rng: Stream | None = None) -> tuple[Tensor, Tensor]:
        """Training examples, changed at random if the task wants that and `rng` is given.

        The examples are on the device, their targets on the processor.
        """
        x = self._data.x_train[rows]
        if rng is not None and self._augment:
            x = self._augment.apply(x, rng=rng)
        return self._seen(self._scaled(x)), torch.from_numpy(self._data.y_train[rows])

    def batches(
        self, rows: Ints, rng: Stream, *, at_once: bool = True
    ) -> Callable[[Ints], tuple[Tensor, Tensor]]:
        """`train` for a turn: a function of numbers of these rows, with targets on the device.

        Args:
            rows: The client's shard.
            rng: The turn's stream.
            at_once: Whether to scale a shard once, unless it is large or changes from pass to pass.
        """
        if self._augment:
            changes = rng.child("augment")
            return lambda picked: self._put_targets(*self.train(rows[picked], rng=changes))
        if not at_once or len(rows) * math.prod(self._data.x_train.shape[1:]) > SMALL:
            return lambda picked: self._put_targets(*self.train(rows[picked]))
        targets = torch.from_numpy(self._data.y_train[rows])
        x, y = self._put_targets(self._scaled(self._data.x_train[rows]), targets)

        def pick(picked: Ints) -> tuple[Tensor, Tensor]:
            chosen = torch.from_numpy(picked)
            if not self._home:
                chosen = self._put(chosen)
            return self._seen(x.index_select(0, chosen)), y.index_select(0, chosen)

        return pick

    def _put_targets(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, y if self._home else self._put(y)

    def put(self, rows: Ints, out: Tensor) -> Tensor:
        """Training examples, unchanged, as flat vectors into `out`; returns the targets."""
        x = self._data.x_train[rows]
        if x.ndim > 3 and x.shape[-1] > 1:  # a flat image is channel after channel
            x = x.transpose(0, -1, *range(1, x.ndim - 1))
        out.copy_(torch.from_numpy(x.reshape(out.shape)))
        if self._flat_scaling is not None:
            mean, std = self._flat_scaling
            out.sub_(mean).div_(std)
        return torch.from_numpy(self._data.y_train[rows])

    @cached_property
    def _flat_scaling(self) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of each number of a flat vector, or one for all."""
        if self._scaling is None or max(part.numel() for part in self._scaling) == 1:
            return self._scaling
        mean, std = torch.broadcast_tensors(*self._scaling)
        each = math.prod(self._data.x_train.shape[1:]) // mean.numel()
        series = self._data.x_train.ndim == 3  # step after step, not channel after channel
        mean, std = (
            part.repeat(each) if series else part.repeat_interleave(each) for part in (mean, std)
        )
        return mean, std

    def test(self, rows: Ints) -> tuple[Tensor, Tensor]:
        """Test examples, on the device, and their targets, on the processor."""
        x = self._scaled(self._data.x_test[rows])
        return self._seen(x), torch.from_numpy(self._data.y_test[rows])

    def _scaled(self, rows: npt.NDArray[Any]) -> Tensor:
        x = torch.from_numpy(rows)
        if not self._home:
            x = self._put(x)
        if x.dtype == torch.int64:  # tokens
            return x
        x = x.float()
        if self._scaling is not None:
            mean, std = self._scaling
            x = x.sub_(mean).div_(std) if rows.dtype == np.uint8 else x.sub(mean).div_(std)
        return x

    def _seen(self, x: Tensor) -> Tensor:
        """Scaled rows as a model sees them: images N x C x H x W, volumes N x C x D x H x W."""
        if x.ndim <= self._plain_sizes or x.dtype == torch.int64:
            return x
        volumes = x.ndim == 5
        x = (x.unsqueeze(3) if x.ndim == 3 else x).movedim(-1, 1)
        if self._channels_last and not volumes:
            return x
        return x.clone(memory_format=torch.contiguous_format)
