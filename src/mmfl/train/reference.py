"""Local training as a plain loop: Algorithm 1, lines 8-9. All other kernels are compared with it.

The optimizer is new for every turn, as in the authors' code; by default it is SGD as torch has it.
The kernel "fast" is the same loop with an SGD that updates all weights in one pass, over shards
that are scaled once a turn, not once a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mmfl.config import short
from mmfl.errors import InputError
from mmfl.exchange import Flat, LocalWork
from mmfl.rng import Stream
from mmfl.train.device import CPU, Device
from mmfl.train.optimizers import StartOptimizer, start_optimizer
from mmfl.train.precision import use_precision
from mmfl.train.resident import Resident
from mmfl.train.seeding import end_fork
from mmfl.train.sgd import Sgd

__all__ = [
    "Kernel",
    "Mean",
    "OneByOne",
    "Turn",
    "TurnReport",
    "batches",
    "forward",
    "match_shape",
    "train",
]

Ints = npt.NDArray[np.int64]
Batch = Callable[[Ints], tuple[Tensor, Tensor]]
Mean = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What a turn reports besides the weights; see `mmfl.exchange.ClientUpdate`."""

    samples: int
    loss_before: float
    loss_after: float


@dataclass(frozen=True, eq=False)
class Turn:
    """One client's turn: its shard, how much of it, and its own stream."""

    rows: Ints
    work: LocalWork
    rng: Stream


class Kernel(Protocol):
    """A way to compute turns of one task."""

    @property
    def together(self) -> int:
        """How many turns it takes at a time, at most; their results do not depend on each other."""
        ...

    def train(
        self, weights: Flat, turns: Sequence[Turn], out: Callable[[], Flat] | None = None
    ) -> Iterator[tuple[Flat, TurnReport]]:
        """How each client changes the task's weights (Algorithm 1, lines 8-9), and its report.

        A change is to be used before the next is asked for: they all lie in what `out` gives, which
        is asked when the client's turn is over, or in memory of the kernel's own.
        """
        ...


@dataclass(frozen=True, eq=False)
class OneByOne:
    """The loop as a kernel: it trains a resident network, one client after the other.

    Attributes:
        resident: The network.
        batches: From a shard and the turn's stream to a function from rows of it to a batch.
        loss: From a batch's outputs and targets to its mean loss.
        precision: "float32" or "bf16".
        start: What starts a turn's optimizer.
        device: Where the network is.
        least: Examples that a step needs. A pass drops a smaller remainder.
    """

    resident: Resident
    batches: Callable[[Ints, Stream], Batch]
    loss: Mean
    precision: str
    start: StartOptimizer = Sgd
    device: Device = CPU
    least: int = 1
    together: ClassVar[int] = 1

    def train(
        self, weights: Flat, turns: Sequence[Turn], out: Callable[[], Flat] | None = None
    ) -> Iterator[tuple[Flat, TurnReport]]:
        """Each turn's change of the weights, and its report."""
        for turn in turns:
            self.resident.set(weights)
            with self.device.seed(turn.rng):
                report = train(
                    self.resident.module,
                    self.batches(turn.rows, turn.rng),
                    self.loss,
                    len(turn.rows),
                    turn.work.drop_below(self.least, len(turn.rows)),
                    precision=self.precision,
                    rng=turn.rng,
                    start=self.start,
                    device=self.device,
                )
            yield self.resident.change(weights, None if out is None else out()), report


def batches(size: int, work: LocalWork, *, rng: Stream) -> Iterator[Ints]:
    """Rows of the shard, batch after batch: each pass is a new permutation of the shard.

    A pass ends with its remainder as a smaller batch (or without it: ``remainder = "drop"``), so a
    batch never spans two passes. With `steps`, passes follow each other until the steps are done.
    """
    steps, enough = 0, work.steps_with(size)
    for _ in range(work.epochs) if work.epochs is not None else iter(int, 1):
        order = rng.permutation(size)
        for start in range(0, size, work.batch_size):
            batch = order[start : start + work.batch_size]
            if work.remainder == "drop" and start > 0 and len(batch) < work.batch_size:
                continue
            if steps == enough:
                return
            steps += 1
            yield batch


def forward(model: nn.Module, x: Tensor, precision: str) -> Tensor:
    """Outputs in float32, whatever the layers compute in."""
    with use_precision(precision, x.device.type):
        outputs: Tensor = model(x)
    if not isinstance(outputs, Tensor):
        raise InputError(f"forward must return a tensor, got {short(outputs)}")
    return outputs.float()


def match_shape(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs in the shape of real targets, where a model gives a row of as many numbers."""
    row = targets.is_floating_point() and outputs.ndim == 2
    same = outputs.numel() == targets.numel() and len(outputs) == len(targets)
    return outputs.reshape(targets.shape) if row and same else outputs


def train(
    model: nn.Module,
    batch: Batch,
    loss: Mean,
    size: int,
    work: LocalWork,
    *,
    precision: str,
    rng: Stream,
    start: StartOptimizer = Sgd,
    device: Device = CPU,
) -> TurnReport:
    """Tau steps of SGD on the client's shard, in place (Algorithm 1, lines 8-9).

    Args:
        model: The network, at the weights w_s that the server sent.
        batch: From rows of the shard to examples and targets.
        loss: From a batch's outputs and targets to its mean loss.
        size: Rows of the shard.
        work: How much, and the optimiser's settings.
        precision: "float32" or "bf16".
        rng: The turn's own stream.
        start: What starts the turn's optimizer.
        device: Where the network is.
    """
    process = os.getpid()
    model.train()
    optimizer = start_optimizer(start, model.parameters(), work)
    samples = 0
    first: Tensor | float = float("nan")
    last: Tensor | float = float("nan")
    for rows in batches(size, work, rng=rng):
        x, y = batch(rows)
        optimizer.zero_grad()
        mean = loss(match_shape(forward(model, x, precision), y), y)
        mean.backward()
        optimizer.step()
        last = device.read(mean)
        first = first if samples else last
        samples += len(rows)
        end_fork(process)  # before the next step, in which it would fork again
    return TurnReport(samples, float(first), float(last))
