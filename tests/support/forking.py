"""Forks whose two sides both go on, as user code may do it anywhere."""

from __future__ import annotations

import os
import select
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn

__all__ = ["Forking", "ForkingLoss", "fork_and_wait"]

LONG = 30.0


def fork_and_wait() -> int | None:
    """Fork; None in the fork. Here, when the fork has ended, its exit code.

    A fork that does not end in `LONG` seconds has the code -100.
    """
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
        fork = os.fork()
    if not fork:
        os.close(ours)
        return None
    os.close(theirs)
    ended, *_ = select.select([ours], [], [], LONG)
    os.close(ours)
    return os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) if ended else -100


@dataclass(frozen=True)
class Forking:
    """A linear model that forks once: in its n-th training batch, or in a test of many rows.

    Attributes:
        path: Where the fork's exit code is written.
        how: "trains", "raises" (the fork, in training), "evaluates", or "late" (see `Net`).
        batch: Which training batch.
    """

    path: str
    how: str
    batch: int = 1

    def build(self, shape, outputs):
        return Net(self, shape[0], outputs)


BATCHES: Counter[tuple[int, str]] = Counter()
"""Training batches of a process and a path, over all turns: a turn begins with a fresh network."""


class Net(nn.Linear):
    """With "late" nobody waits: the fork goes on when somebody opens the pipe, as long as it lives.

    Its result is another one, so that it shows.
    """

    def __init__(self, settings: Forking, *sizes: int) -> None:
        super().__init__(*sizes)
        self.settings, self.factor = settings, 1.0

    def forward(self, x):
        how, path = self.settings.how, Path(self.settings.path)
        BATCHES[os.getpid(), self.settings.path] += self.training
        batches = BATCHES[os.getpid(), self.settings.path]
        in_training = self.training and batches == self.settings.batch
        if how == "late" and in_training and not os.fork():
            os.open(path, os.O_RDONLY)
            self.factor = 3.0
        wanted = in_training if how in {"trains", "raises"} else not self.training and len(x) > 2
        if how in {"trains", "raises", "evaluates"} and wanted and not path.exists():
            code = fork_and_wait()
            if code is not None:
                path.write_text(str(code))
            elif how == "raises":
                raise RuntimeError("the fork failed")
        return super().forward(x) * self.factor


@dataclass(frozen=True)
class ForkingLoss:
    """Cross entropy that forks once, in the first training batch of all.

    Attributes:
        folder: Where the fork's exit code is written, and a line for each training batch: who
            computes it.
        how: "forwards" or "backwards".
    """

    folder: str
    how: str
    targets: ClassVar[str] = "classes"
    metric: ClassVar[str] = "accuracy"

    def mean(self, outputs, targets):
        loss = nn.functional.cross_entropy(outputs, targets)
        if not outputs.requires_grad:
            return loss
        with Path(self.folder, "batches").open("a") as file:
            file.write(f"{os.getpid()}\n")
        if self.how == "backwards":
            return Backwards.apply(loss, self.folder)
        fork_once(self.folder)
        return loss


class Backwards(torch.autograd.Function):
    """Forks on the way back."""

    @staticmethod
    def forward(ctx, loss, folder):
        ctx.folder = folder
        return loss.clone()

    @staticmethod
    def backward(ctx, gradient):
        fork_once(ctx.folder)
        return gradient, None


def fork_once(folder: str) -> None:
    """Fork, unless a file says that it was done: it is made before."""
    path = Path(folder, "code")
    if not path.exists():
        path.touch()
        code = fork_and_wait()
        if code is not None:
            path.write_text(str(code))
