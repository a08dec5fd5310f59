"""One part of every family that a user can write, each of which raises what FAILS says."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from typing import Any, ClassVar

import typer
from torch import Tensor, nn

from mmfl.aggregate import Mean
from mmfl.data import Augment


class Odd(BaseException):
    """An exception that `except Exception` does not catch."""


class MuteError(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS: dict[str, BaseException] = {
    "ValueError": ValueError("plain"),
    "SystemExit": SystemExit(0),
    "Exit": typer.Exit(0),
    "BrokenPipeError": BrokenPipeError(errno.EPIPE, "Broken pipe"),
    "OSError": OSError(errno.ENOSPC, "No space left on device"),
    "GeneratorExit": GeneratorExit(),
    "Odd": Odd("odd"),
    "MuteError": MuteError(),
    "BaseExceptionGroup": BaseExceptionGroup("several", [Odd("odd"), ValueError("plain")]),
    "MemoryError": MemoryError(),
}


def fail(*_: Any, **__: Any) -> Any:
    """Raise it."""
    raise ERRORS[os.environ["FAILS"]].with_traceback(None)


@dataclass(frozen=True)
class Allocator:
    allocate = fail


@dataclass(frozen=True)
class LazyAllocator:
    def allocate(self, view: Any, state: Any, *, rng: Any) -> Any:
        return (fail() for _ in view.clients), state


@dataclass(frozen=True)
class Attribute:
    """Fails when it is asked for an attribute, not when it is called."""

    allocate = fail
    plans_ahead = property(fail)


@dataclass(frozen=True)
class Aggregator(Mean):  # type: ignore[misc]
    aggregate = fail


@dataclass(frozen=True)
class Score:
    difficulty = fail


@dataclass(frozen=True)
class Dataset:
    load = fail


@dataclass(frozen=True)
class Optimizer:
    build = fail


@dataclass(frozen=True)
class Partition:
    split = fail


@dataclass(frozen=True)
class LazyPartition:
    def split(self, examples: Any, clients: int, *, rng: Any) -> Any:
        return Shards()


class Shards:
    everybody = True
    sizes = shard = fail


@dataclass(frozen=True)
class Loss:
    targets: ClassVar[str] = "any"
    metric: ClassVar[str] = "loss"
    mean = fail


@dataclass(frozen=True)
class Metric:
    better: ClassVar[str] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    on = fail


@dataclass(frozen=True)
class LazyMetric(Metric):
    def on(self, data: Any, loss: Any) -> Any:
        return fail


@dataclass(frozen=True)
class PooledMetric(Metric):
    """A metric of sums that cannot say which."""

    shape = value = fail


@dataclass(frozen=True)
class LazyPooledMetric(Metric):
    """A metric of sums that fails to make something of them."""

    def on(self, data: Any, loss: Any) -> Any:
        return lambda outputs, targets: outputs.sum().reshape(1)

    def shape(self, data: Any) -> tuple[int, ...]:
        return (1,)

    value = fail


@dataclass(frozen=True)
class DoubtingMetric(LazyPooledMetric):
    """A metric of sums that fails when clients' claims are checked."""

    possible = fail


@dataclass(frozen=True)
class Model:
    build = fail


class _Network(nn.Linear):
    """Fails only while it trains."""

    def forward(self, x: Tensor) -> Tensor:
        return fail() if self.training else super().forward(x.flatten(1))


@dataclass(frozen=True)
class LazyModel:
    def build(self, shape: Any, outputs: int) -> nn.Module:
        return _Network(shape[0], outputs)


@dataclass(frozen=True)
class Schedule:
    rate = fail


@dataclass(frozen=True)
class Normalization:
    scaling = fail


@dataclass(frozen=True)
class Mechanism:
    recruit = fail


@dataclass(frozen=True)
class Bids:
    quantile = fail


@dataclass(frozen=True)
class Misbehaviour:
    send = fail


@dataclass(frozen=True)
class Witness:
    """Falsifies only what it says of its own data."""

    report = fail

    def send(self, update: Any, **_: Any) -> Any:
        return [update]


@dataclass(frozen=True)
class Speed:
    rates = fail


@dataclass(frozen=True)
class Engine:
    open = fail


@dataclass(frozen=True)
class LazyEngine:
    def open(self, experiment: Any, *, data_dir: Any) -> Any:
        from mmfl.engines import InlineEngine

        class Own(InlineEngine):
            train = fail

        return Own(experiment, data_dir)


@dataclass(frozen=True)
class Made:
    """Cannot be made."""

    allocate = fail

    def __post_init__(self) -> None:
        fail()


class Augmentation(Augment):
    """Given as an object: it is not a family, and a file cannot name it."""

    apply = fail


@dataclass(frozen=True)
class Signalled:
    """A client's model that gets the program's signal while it is built, trained or called."""

    when: str

    def build(self, shape, outputs):
        if self.when == "built":
            os.kill(os.getpid(), signal.SIGUSR1)
        return _SignalledNetwork(self.when, shape[0], outputs)


class _SignalledNetwork(nn.Linear):
    def __init__(self, when, *sizes):
        super().__init__(*sizes)
        self.when = when

    def forward(self, x):
        if self.when == ("trained" if self.training else "called"):
            os.kill(os.getpid(), signal.SIGUSR1)
        return super().forward(x)


def _time_out(number: int, frame: Any) -> None:
    raise TimeoutError("too slow")


class _LimitedNetwork(nn.Linear):
    """Exceeds its own time limit while it trains; a signal stands for the alarm."""

    kept = True

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            before = signal.signal(signal.SIGUSR1, _time_out)
            try:
                os.kill(os.getpid(), signal.SIGUSR1)
            finally:
                if not self.kept:
                    signal.signal(signal.SIGUSR1, before)
        return super().forward(x)


@dataclass(frozen=True)
class Limited:
    """A model with a time limit, which may forget to take its handler back."""

    kept: bool

    def build(self, shape: Any, outputs: int) -> nn.Module:
        network = _LimitedNetwork(shape[0], outputs)
        network.kept = self.kept
        return network
