"""What travels between the round loop and an engine: jobs out; updates, failures, scores back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "CHUNK",
    "DONE",
    "Address",
    "ClientFailure",
    "ClientUpdate",
    "Evaluation",
    "EvaluationFailure",
    "Job",
    "LocalWork",
    "PartialSum",
    "Split",
]

CHUNK = 8
"""Updates of a task are summed in float64 over runs of this many consecutive jobs, and the sums of
the runs are added in order. Every engine does it so, wherever it forms the sums: same bits."""

Split = Literal["train", "validation", "test"]


class Address(NamedTuple):
    """Whose turn it is: an update is accepted only for the very address that was asked for."""

    run: str
    round: int
    task: str
    client: int
    model_version: int


@dataclass(frozen=True, slots=True)
class LocalWork:
    """The local training of one turn (tau in the paper): exactly one of `epochs`, `steps` is set.

    Attributes:
        epochs: Passes over the client's shard.
        steps: SGD steps, over as many passes as they take.
        batch_size: Examples in a step.
        lr: The learning rate eta_t of this round.
        momentum: Of SGD; its buffer starts empty in every turn.
        weight_decay: Of SGD (L2).
        remainder: What becomes of a pass's last, smaller batch: "keep" (default) or "drop" it. A
            shard smaller than one batch is always one batch.
        share: The share of these steps that is made, at least one: less than 1 for a client that
            was recruited in part.
        clip_norm: The largest Euclidean norm of a step's gradient; None: any.
        prox: mu of FedProx's term mu/2 ||w - w_global||^2.
    """

    batch_size: int
    lr: float
    epochs: int | None = None
    steps: int | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    remainder: Literal["keep", "drop"] = "keep"
    share: float = 1.0
    clip_norm: float | None = None
    prox: float = 0.0

    def steps_with(self, size: int) -> int:
        """SGD steps of a turn with a shard of this size."""
        full, rest = divmod(size, self.batch_size)
        in_pass = max(1, full + (rest > 0 and self.remainder == "keep"))
        whole = in_pass * (self.epochs or 0) if self.steps is None else self.steps
        return whole if self.share == 1 else max(1, round(self.share * whole))

    def drop_below(self, least: int, size: int) -> LocalWork:
        """The work with a shard of this size, if a batch needs this many examples."""
        few = 0 < size % self.batch_size < least
        return replace(self, remainder="drop") if few else self

    def samples_with(self, size: int) -> int:
        """Training examples, each pass counted, of a turn with a shard of this size."""
        full, rest = divmod(size, self.batch_size)
        last = rest if self.remainder == "keep" or not full else 0
        passes, over = divmod(self.steps_with(size), max(1, full + (last > 0)))
        return passes * (full * self.batch_size + last) + over * self.batch_size


@dataclass(frozen=True, slots=True)
class Job:
    """One client's turn at one task. Its random stream is (seed, "train", round, task, client).

    `probability` is that of the assignment, for aggregators that weigh by its inverse.
    """

    address: Address
    seed: int
    work: LocalWork
    probability: float = 1.0


class PartialSum:
    """The float64 sum of examples x delta over the accepted updates of one chunk of jobs.

    For large models fresh memory costs as much as sums. So an aggregator may `take` a sum's memory,
    or `release` it for the next sum; afterwards it cannot read `total`. One that does neither may
    keep the sum as long as it likes.
    """

    __slots__ = ("_released", "_total", "examples")

    def __init__(self, total: npt.NDArray[np.float64], examples: int) -> None:
        self._total: npt.NDArray[np.float64] | None = total
        self._released: npt.NDArray[np.float64] | None = None
        self.examples = examples

    @property
    def total(self) -> npt.NDArray[np.float64]:
        """The sum."""
        if self._total is None:
            raise ValueError("this partial sum was taken or released by an aggregator")
        return self._total

    def take(self) -> npt.NDArray[np.float64]:
        """The sum, in memory that is the caller's from now on: to overwrite, or to keep."""
        total, self._total = self.total, None
        return total

    def release(self) -> None:
        """The sum was used: its memory may be used again."""
        self._released = self.take()

    def reclaim(self) -> npt.NDArray[np.float64] | None:
        """The memory, if it was released; for the engine that formed the sum."""
        memory, self._released = self._released, None
        return memory


@dataclass(frozen=True, slots=True, eq=False)
class ClientUpdate:
    """What a client did with its turn.

    Attributes:
        address: The job's.
        delta: Change of the weights, by tensor name; None if `partial` of this or a later update of
            the same chunk contains it.
        examples: How many examples the client holds of the task: its weight in the mean.
        samples: Training examples processed, each pass counted.
        loss_before: Loss of the turn's first batch, at the weights received.
        loss_after: Loss of the turn's last batch, before its step.
        norm: Euclidean norm of delta.
        seconds: Time spent.
        probability: That of the assignment; set by the server, not by the client.
        partial: The sum of the chunk that ends with this update, if the engine formed it.
    """

    address: Address
    delta: Mapping[str, npt.NDArray[np.float32]] | None
    examples: int
    samples: int
    loss_before: float
    loss_after: float
    norm: float
    seconds: float = 0.0
    probability: float = 1.0
    partial: PartialSum | None = None


DONE = ("examples", "samples", "loss_before", "loss_after", "norm", "seconds")
"""What is written of an update where its delta goes another way: in the order of its fields."""


@dataclass(frozen=True, slots=True)
class ClientFailure:
    """A failed turn: recorded, never fatal.

    `partial` is here for the same purpose as in `ClientUpdate`: a chunk may end with a failure.
    `turn` is False if the client failed to evaluate a model, not to train it. `trace` is the whole
    traceback, if the model raised; it is not stored.
    """

    address: Address
    reason: str
    detail: str = ""
    partial: PartialSum | None = None
    turn: bool = True
    trace: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sums over a piece of a split, or over one client's shard; pieces add up in a fixed order.

    Attributes:
        task: The task's name.
        examples: How many there are.
        loss: Sum of the losses.
        metric: Sum of the metric; NaN if it is not a mean over examples.
        client: Whose shard it is; None for the server's split.
        guess: Sum of the losses of a guess that has not looked at the examples (all classes alike,
            or the mean of the training targets).
        tally: The sums of a metric that is made of several; see `mmfl.objectives.PooledMetric`.
    """

    task: str
    examples: int
    loss: float
    metric: float
    client: int | None = None
    guess: float = math.nan
    tally: npt.NDArray[np.float64] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class EvaluationFailure:
    """A client that could not evaluate a model on its own shard; `trace` as in `ClientFailure`."""

    task: str
    client: int
    reason: str
    detail: str = ""
    trace: str = field(default="", repr=False, compare=False)
