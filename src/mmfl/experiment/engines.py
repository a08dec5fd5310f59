"""Engines: the protocol of what trains and evaluates for the round loop, and their settings.

Allocation, checks, aggregation and the store stay above it. `ENGINES` is the family's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import PlainValidator, Strict, WithJsonSchema

from mmfl.config import (
    WRITE_IF_SET,
    Count,
    Family,
    Positive,
    component,
    short,
)
from mmfl.errors import InputError
from mmfl.exchange import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Params,
    Split,
)
from mmfl.system.processors import count_usable
from mmfl.system.user_code import Guard, guard_own, guard_part, is_own

if TYPE_CHECKING:
    from mmfl.experiment import Experiment
    from mmfl.experiment.description import ModelDescription
    from mmfl.experiment.federation import Federation

__all__ = [
    "ENGINES",
    "Engine",
    "EngineConfig",
    "Flower",
    "Ids",
    "Inline",
    "Local",
    "Ray",
    "guard_engine",
    "open_engine",
    "use_engine",
]

Ids = npt.NDArray[np.int64]


class Engine(Protocol):
    """Trains and evaluates, for one experiment and one federation at a time."""

    @property
    def federation(self) -> Federation:
        """The clients."""
        ...

    @property
    def merges(self) -> bool:
        """Whether our own code checks updates where they are formed, so that it may sum them."""
        ...

    @property
    def workers(self) -> int:
        """How many turns are computed at the same time."""
        ...

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data, for the tasks whose data it holds."""
        ...

    def describe(self) -> dict[str, ModelDescription]:
        """From task name to how its model is built and used, for the tasks whose data it holds."""
        ...

    def numerics(self) -> dict[str, str]:
        """What is known of what training is computed with, by name: versions, instructions.

        Other values may give other bits, so they are stored with a run and compared on resume.
        """
        ...

    def prepare(self, experiment: Experiment) -> None:
        """Serve this experiment from now on; what it shares with the previous one is reused.

        An engine that cannot do that raises an `InputError`. After any error it serves the last one
        as before, or `federation` is another object: the round loop then prepares it again.
        """
        ...

    def initial(self) -> dict[str, Params]:
        """Every task's first weights (Algorithm 1, line 1)."""
        ...

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """One result per job, in the order of the jobs.

        Anything that a client sends beyond its one answer is not a result: an engine that receives
        it delivers it, after the answer, as a `ClientFailure` with the job's address, the reason
        "duplicate" and `turn` False; it is recorded, and the answer stands. Only the engine can
        detect this, because it knows who sent what: an address can be copied.

        Jobs of a task stand together. With `merge`, the engine may check updates itself and deliver
        a chunk (`CHUNK` consecutive jobs of a task) without deltas and with the chunk's sum as
        `partial` of its last result; a delta that it delivers all the same is to be used before the
        next result is asked for.
        """
        ...

    def evaluate(
        self,
        params: Mapping[str, Params],
        split: Split,
        clients: Mapping[str, Ids] | None = None,
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """Sums for each task of `params`, in a fixed order: over the server's split or by client.

        With `clients` (from task to ids), each of them evaluates on its own shard, or fails to.
        """
        ...

    def close(self) -> None:
        """Free everything; may be called twice."""
        ...


class EngineConfig(Protocol):
    """An engine's settings: ``[engine]`` in an experiment."""

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> Engine:
        """A running engine, or one sentence about why there is none."""
        ...


_SHARE_GPU = 4
"""Workers that share a GPU by default: each takes some hundred MB of its memory for itself."""


def _workers(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value == "auto" or (whole and 1 <= value < 2**31):
        return value
    raise ValueError(f'must be a whole number >= 1 or "auto", got {short(value)}')


Workers = Annotated[
    int | Literal["auto"],
    PlainValidator(_workers),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, {"const": "auto"}]}
    ),
]


@component
class Local:
    """Worker processes on this machine.

    Attributes:
        workers: How many, or "auto": one per core that this process may use (within a container's
            CPU quota), but at most 4 if they share a GPU.
        timeout: Wall-clock seconds after which a client's turn or evaluation fails, and after which
            building a model or evaluating it on the server ends the run. A worker that is not ready
            after this time (or two minutes, if that is longer) is replaced. This is a safety net:
            results are identical as long as no timeout occurs. By default there is none.
    """

    workers: Workers = "auto"
    timeout: Positive | None = None

    def count_workers(self, device: str) -> int:
        """How many workers there are here, for an experiment on that device."""
        if isinstance(self.workers, int):
            return self.workers
        return count_usable() if device == "cpu" else min(count_usable(), _SHARE_GPU)

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> Engine:
        """Load the data, map it, start the workers."""
        from mmfl.engines import open_local

        workers = self.count_workers(experiment.resolved().device)
        return open_local(experiment, data_dir, workers, self.timeout)


def _address(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(_ADDRESS, value):
        return value
    rule = 'must be "auto", or a host and a port such as "10.0.0.1:6379"'
    client = isinstance(value, str) and value.startswith("ray://")
    hint = "; run mmfl on a machine of the cluster" if client else ""
    raise ValueError(f"{rule}, got {short(value)}{hint}")


_ADDRESS = r"(auto|[^\s/:\[\]]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5})"

Address = Annotated[
    str, PlainValidator(_address), WithJsonSchema({"type": "string", "pattern": f"^{_ADDRESS}$"})
]


def _gpus(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (0 <= value <= 1 or (1 < value < 2**31 and value == int(value))):
        return float(value)
    raise ValueError(f"must be between 0 and 1, or a whole number, got {short(value)}")


Gpus = Annotated[
    float,
    PlainValidator(_gpus),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
            ]
        }
    ),
]


@component
class Ray:
    """Worker processes on the machines of a Ray cluster, or on a Ray of its own on this machine.

    Attributes:
        address: The cluster's, such as "10.0.0.1:6379", or "auto" for the one that this machine is
            a part of. By default the Ray that the program has started, else one that listens on
            127.0.0.1 only and ends with the engine.
        workers: How many, or "auto": as many as there is room for on all machines.
        num_cpus: The CPUs that Ray sets aside for a worker; it computes on one. A Ray of its own
            asks for none.
        num_gpus: The GPUs for a worker, such as 0.25 if four share one. By default none, or one if
            `device` is a GPU.
        mixed: Whether machines are used whose processors compute other bits than the first's.
            Results then depend on which machine trains what, so by default they are refused.
        timeout: As in `local`.
    """

    address: Address | None = None
    workers: Workers = "auto"
    num_cpus: Positive = 1.0
    num_gpus: Gpus | None = None
    mixed: Annotated[bool, Strict()] = False
    timeout: Positive | None = None

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> Engine:
        """Connect to Ray, load the data, start the workers."""
        from mmfl.engines import open_ray

        return open_ray(experiment, data_dir, self)


@component
class Inline:
    """No worker processes.

    Attributes:
        raise_errors: Whether an exception in a client's turn ends the run, for a debugger. By
            default it costs the client its turn.
    """

    raise_errors: Annotated[bool, Strict(), WRITE_IF_SET] = False

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> Engine:
        """Load the data and build the trainer."""
        from mmfl.engines import InlineEngine

        return InlineEngine(experiment, data_dir, raise_errors=self.raise_errors)


@component
class Flower:
    """Real clients, each behind a node of a Flower federation.

    This engine works within a Flower ServerApp: `mmfl flower up` starts everything on this machine,
    `flwr run` uses a federation that exists.

    Attributes:
        nodes: How many clients must have a node before round one; by default all.
        patience: Seconds to wait for them.
        timeout: Wall-clock seconds after which a turn or an evaluation without an answer fails.
        max_examples: No client counts with more examples of a task, whatever it claims.
    """

    nodes: Count | None = None
    patience: Positive = 300.0
    timeout: Positive = 600.0
    max_examples: Count = 1_000_000

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> Engine:
        """Refuse: only a ServerApp has a Grid to open it with."""
        raise InputError(
            'the engine "flower" works within a Flower ServerApp; start one with "mmfl flower up", '
            'or with "flwr run" (docs/how-to/run-a-real-federation.md)'
        )


ENGINES = Family(
    name="engine",
    table={"flower": Flower, "inline": Inline, "local": Local, "ray": Ray},
    needs=("open",),
    default="local",
)


def open_engine(
    experiment: Experiment, data_dir: Path | None, settings: EngineConfig | None = None
) -> Engine:
    """The running engine of an experiment, or of other settings."""
    settings = experiment.engine if settings is None else settings
    with guard_part("engine", settings):
        return settings.open(experiment, data_dir=data_dir)


@contextmanager
def use_engine(experiment: Experiment, data_dir: Path | None) -> Iterator[Engine]:
    """The running engine of an experiment, which is closed at the end of the block."""
    engine = open_engine(experiment, data_dir)
    try:
        yield engine
    finally:
        with guard_engine(engine):
            engine.close()


def guard_engine(engine: Engine) -> Guard:
    """A guard for a block in which an engine works; it names the engine if that is the user's."""
    own = is_own(engine)
    return guard_own(f"the engine {type(engine).__name__}" if own else "your code")
