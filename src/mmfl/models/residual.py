"""The torch side of `preact_resnet`; imported when a network is built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from mmfl.models.preact_resnet import PreactResnet

__all__ = ["Block", "residual_network"]


def residual_network(model: PreactResnet, depth: int, outputs: int) -> nn.Module:
    """Stem, stages, pooling, dense."""
    stages: list[nn.Module] = []
    before = model.width
    for stage, count in enumerate(model.blocks):
        width = model.width * 2**stage
        for number in range(count):
            stride = 2 if stage > 0 and number == 0 else 1
            stages.append(Block(before, width, stride, model))
            before = width
    return nn.Sequential(
        nn.Conv2d(depth, model.width, 3, padding=1, bias=False),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(before, outputs),
    )


class Block(nn.Module):
    """norm, ReLU, convolution, twice; plus the input (past the first ReLU where it is reshaped)."""

    def __init__(self, before: int, width: int, stride: int, model: PreactResnet) -> None:
        super().__init__()
        self.norm1 = _norm(before, model)
        self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.norm2 = _norm(width, model)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        same = stride == 1 and before == width
        self.shortcut = None if same else nn.Conv2d(before, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """X + f(x)."""
        activated = functional.relu(self.norm1(x))
        residual = x if self.shortcut is None else self.shortcut(activated)
        out = self.conv1(activated)
        out = self.conv2(functional.relu(self.norm2(out)))
        return out + residual  # type: ignore[no-any-return]


def _norm(channels: int, model: PreactResnet) -> nn.Module:
    if model.norm == "group":
        return nn.GroupNorm(math.gcd(model.groups, channels), channels)
    return nn.BatchNorm2d(channels, track_running_stats=False)
