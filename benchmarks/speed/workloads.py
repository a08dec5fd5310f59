"""The workloads: the same models, examples and clients for mmfl, the peers and the bare loops.

This runs in our environment and in the peers' (torch and NumPy, no mmfl). Examples are random: the
speed of training does not depend on what the images show. ("F" is measured on mmfl's embedded
digits.)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import nn

__all__ = ["WORKLOADS", "Workload"]


@dataclass(frozen=True)
class Workload:
    """One model, trained by several clients per round, each on its own examples.

    Attributes:
        name: "A", "B", "R", or "F": the time to the end of a small first round.
        model: "cnn", "mlp" or "resnet".
        shape: The shape of an example: channels, height, width.
        clients: The number of clients that train in a round.
        examples: The number of examples of each client.
        epochs: The number of passes over them.
        batch_size: The batch size of SGD.
        classes: The number of classes.
        lr: The learning rate of plain SGD.
        real: Whether examples are real, from the npz file that MMFL_BENCH_DATA names.
    """

    name: str
    model: str
    shape: tuple[int, int, int]
    clients: int
    examples: int
    epochs: int
    batch_size: int
    classes: int = 10
    lr: float = 0.01
    real: bool = False

    @property
    def samples(self) -> int:
        """Training examples processed in a round."""
        return self.clients * self.examples * self.epochs

    def data(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Images (N x C x H x W) and labels; client k has rows k*examples to (k+1)*examples."""
        total = self.clients * self.examples
        if self.real:
            with np.load(os.environ["MMFL_BENCH_DATA"]) as file:
                return file["x_train"][:total, None], file["y_train"][:total]
        rng = np.random.default_rng(0)
        x = rng.integers(0, 256, (total, *self.shape), dtype=np.uint8)
        return x, rng.integers(0, self.classes, total)

    def build(self) -> nn.Module:
        """The network, as a PyTorch user would write it."""
        from torch import nn

        depth, height, width = self.shape
        if self.model == "mlp":
            return nn.Sequential(
                nn.Flatten(),
                nn.Linear(depth * height * width, 64),
                nn.ReLU(),
                nn.Linear(64, self.classes),
            )
        if self.model == "cnn":
            return nn.Sequential(
                nn.Conv2d(depth, 32, 5, padding=2),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 5, padding=2),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(64 * (height // 4) * (width // 4), 512),
                nn.ReLU(),
                nn.Linear(512, self.classes),
            )
        return _resnet(depth, self.classes)


def _resnet(depth: int, classes: int) -> nn.Module:
    """Pre-activation ResNet: width 16, one block per stage, batch norm without running means."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.norm1 = nn.BatchNorm2d(before, track_running_stats=False)
            self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(width, track_running_stats=False)
            self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            same = stride == 1 and before == width
            self.shortcut = None if same else nn.Conv2d(before, width, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            active = torch.relu(self.norm1(x))
            residual = x if self.shortcut is None else self.shortcut(active)
            out = self.conv1(active)
            return self.conv2(torch.relu(self.norm2(out))) + residual

    return nn.Sequential(
        nn.Conv2d(depth, 16, 3, padding=1, bias=False),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("A", "cnn", (1, 28, 28), clients=20, examples=200, epochs=2, batch_size=32),
        Workload("B", "mlp", (1, 28, 28), clients=300, examples=20, epochs=1, batch_size=20),
        Workload("F", "mlp", (1, 28, 28), 10, examples=200, epochs=1, batch_size=32, real=True),
        Workload("R", "resnet", (3, 32, 32), clients=20, examples=100, epochs=1, batch_size=32),
    )
}
