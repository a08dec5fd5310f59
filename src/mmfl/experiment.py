"""The whole configuration of a run: frozen, strict, TOML in and TOML out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BeforeValidator, Field, Strict, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import ArgsKwargs

from mmfl.aggregate import AGGREGATORS, Aggregator, Checks, Mean
from mmfl.allocate import ALLOCATORS, Allocator, FedFair
from mmfl.config import (
    Count,
    Natural,
    NonNegative,
    apply_set,
    component,
    dump,
    imports_allowed,
    is_finite,
    parse,
)
from mmfl.data.datasets import DATASETS, Dataset
from mmfl.data.partition import PARTITIONS, Iid, Partition
from mmfl.engines import ENGINES, EngineConfig, Local
from mmfl.errors import ConfigError
from mmfl.evaluate import SCORES, Error, Score
from mmfl.models import MODELS, Mlp, Model
from mmfl.schedule import SCHEDULES, Constant, Schedule
from mmfl.updates import LocalWork

__all__ = ["Clients", "Evaluate", "Experiment", "LocalOverride", "LocalTraining", "Task"]

Kernel = Literal["auto", "reference"]
Remainder = Literal["keep", "drop"]
Momentum = Annotated[float, Strict(), Field(ge=0, lt=1)]


def _active(value: Any) -> Any:
    rates = value if isinstance(value, list | tuple) else [value]
    if not rates or not all(is_finite(rate) and 0 <= rate <= 1 for rate in rates):
        raise ValueError(f"must be a rate in (0, 1], or a list of one per client, got {value!r}")
    if value == 0:
        raise ValueError("must be above 0, or nobody ever trains")
    return tuple(map(float, rates)) if isinstance(value, list | tuple) else float(value)


Active = Annotated[
    float | tuple[float, ...],
    BeforeValidator(_active),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]}),
]


@component
class Clients:
    """The pool.

    Attributes:
        count: K.
        active: C: in each round exactly round(C K') clients are active, K' of the K may train
            something. Or a list of K rates: each client is active by itself, at its own rate.
    """

    count: Count
    active: Active = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.active, tuple) and len(self.active) != self.count:
            raise ValueError(
                f"active must have one rate per client ({self.count}), got {len(self.active)}"
            )


@component
class LocalOverride:
    """Keys of ``[local]`` that a task sets differently."""

    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Count | None = None
    lr: Annotated[Schedule | None, SCHEDULES] = None
    momentum: Momentum | None = None
    weight_decay: NonNegative | None = None
    remainder: Remainder | None = None


@component
class LocalTraining:
    """What a client does with its turn (tau in the paper); see `mmfl.updates.LocalWork`.

    Attributes:
        epochs: Passes over the shard (5 unless `steps` is set).
        steps: SGD steps instead.
        batch_size: Examples in a step.
        lr: A number, or a schedule such as ``{ kind = "inverse", mu = 0.1, gamma = 8.0 }``.
        momentum: Of SGD.
        weight_decay: Of SGD.
        remainder: "keep" or "drop" a pass's last, smaller batch.
    """

    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Count = 32
    lr: Annotated[Schedule, SCHEDULES] = Constant(0.01)
    momentum: Momentum = 0.9
    weight_decay: NonNegative = 1e-4
    remainder: Remainder = "keep"

    def __post_init__(self) -> None:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("takes epochs or steps, not both")
        if self.epochs is None and self.steps is None:
            object.__setattr__(self, "epochs", 5)

    def overridden(self, by: LocalOverride) -> LocalTraining:
        """These settings with a task's own; its `steps` replace `epochs` and the reverse."""
        own = {f.name: getattr(by, f.name) for f in dataclasses.fields(by)}
        changes = {key: value for key, value in own.items() if value is not None}
        if by.epochs is not None or by.steps is not None:
            changes.update(epochs=by.epochs, steps=by.steps)
        return dataclasses.replace(self, **changes)

    def work(self, t: int) -> LocalWork:
        """The turn's work in the round before which the task trained in t rounds."""
        return LocalWork(
            batch_size=self.batch_size,
            lr=self.lr.rate(t),
            epochs=self.epochs,
            steps=self.steps,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            remainder=self.remainder,
        )


@component
class Task:
    """One of the S models that train at the same time.

    Every key of ``[local]`` may stand in a task, as ``lr = 0.1`` or inside ``local``.
    """

    name: Annotated[str, Strict(), Field(pattern=r"^\w[\w.+-]*$", max_length=64)]
    dataset: Annotated[Dataset, DATASETS]
    model: Annotated[Model, MODELS] = Mlp()
    partition: Annotated[Partition, PARTITIONS] = Iid()
    kernel: Kernel | None = None
    local: LocalOverride = LocalOverride()

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        values = data.kwargs if isinstance(data, ArgsKwargs) else data
        if not isinstance(values, Mapping):
            return data
        keys = {field.name for field in dataclasses.fields(LocalOverride)}
        inline = {key: value for key, value in values.items() if key in keys}
        if inline:
            inner = values.get("local", {})
            inner = dict(inner) if isinstance(inner, Mapping) else dump(inner)
            twice = sorted(set(inner) & set(inline))
            if twice:
                raise ValueError(f"{twice[0]} is given both in the task and in its local")
            values = {key: value for key, value in values.items() if key not in keys}
            values["local"] = {**inner, **inline}
        return ArgsKwargs((), dict(values)) if isinstance(data, ArgsKwargs) else values


@component
class Evaluate:
    """Measuring.

    Attributes:
        every: The test split is measured every so many rounds, and after the last one. (The
            difficulty is measured after every round: allocation needs it.)
        batch_size: Examples in a batch of an evaluation.
    """

    every: Count = 1
    batch_size: Count = 250


@component
class Experiment:
    """Everything that decides a run's result, and the engine that computes it.

    Attributes:
        rounds: T.
        clients: The pool.
        tasks: The S tasks.
        seed: Of all randomness.
        precision: "float32", or "bf16" for forward and backward passes with float32 weights.
        kernel: How training is computed; "auto" is resolved when a run starts.
        score: What the difficulty f_s is: "error" (default) or "loss".
        score_split: The server's split it is measured on: "validation", or "test" as in the paper.
        score_source: "server", or "clients": the mean over clients' own evaluations (equation 1).
        score_clients: How many clients each task asks for its score; by default all that hold data.
        validation: Share of each task's training data that the server keeps to measure f_s.
        local: Local training.
        allocator: Who trains what.
        aggregator: How updates become weights.
        checks: What an update must not exceed.
        evaluate: Measuring.
        engine: Where training happens; it has no influence on the result.
    """

    rounds: Count
    clients: Clients
    tasks: Annotated[tuple[Task, ...], Field(min_length=1)]
    seed: Natural = 0
    precision: Literal["float32", "bf16"] = "float32"
    kernel: Kernel = "auto"
    score: Annotated[Score, SCORES] = Error()
    score_split: Literal["validation", "test"] = "validation"
    score_source: Literal["server", "clients"] = "server"
    score_clients: Count | None = None
    validation: Annotated[float, Strict(), Field(gt=0, lt=1)] = 0.1
    local: LocalTraining = LocalTraining()
    allocator: Annotated[Allocator, ALLOCATORS] = FedFair()
    aggregator: Annotated[Aggregator, AGGREGATORS] = Mean()
    checks: Checks = Checks()
    evaluate: Evaluate = Evaluate()
    engine: Annotated[EngineConfig, ENGINES] = Local()

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tasks are called {twice[0]!r}; names must differ")

    @property
    def holds_validation(self) -> bool:
        """Whether the server keeps validation data: only if it measures difficulty on it."""
        return self.score_source == "server" and self.score_split == "validation"

    @property
    def digest(self) -> str:
        """SHA-256 over all that decides the result (the engine does not)."""
        table = {key: value for key, value in dump(self).items() if key != "engine"}
        return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()

    def task(self, name: str) -> Task:
        """The task of that name."""
        return next(task for task in self.tasks if task.name == name)

    def training(self, task: str) -> LocalTraining:
        """``[local]`` with the task's own settings."""
        return self.local.overridden(self.task(task).local)

    def resolved(self) -> Experiment:
        """With every "auto" that decides the result replaced by what it means here."""
        kernel = "reference" if self.kernel == "auto" else self.kernel
        own = {None: None, "auto": kernel}
        tasks = tuple(
            dataclasses.replace(task, kernel=own.get(task.kernel, task.kernel))
            for task in self.tasks
        )
        return dataclasses.replace(self, kernel=kernel, tasks=tasks)

    def to_toml(self) -> str:
        """The experiment as TOML; `from_toml` gives an equal one back."""
        return tomli_w.dumps(dump(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, allow_imports: bool = False) -> Experiment:
        """An experiment from plain tables, as a TOML file holds them."""
        with imports_allowed(allow_imports):
            return parse(cls, data)

    @classmethod
    def from_toml(
        cls, text: str, *, sets: Iterable[str] = (), allow_imports: bool = False
    ) -> Experiment:
        """An experiment from TOML text.

        Args:
            text: The file's content.
            sets: Changes like "allocator.alpha=5", applied in order.
            allow_imports: Whether ``package.module:Name`` may be imported.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"not valid TOML: {error}") from None
        for assignment in sets:
            apply_set(data, assignment)
        return cls.from_dict(data, allow_imports=allow_imports)

    @classmethod
    def load(
        cls, path: str | Path, *, sets: Iterable[str] = (), allow_imports: bool = False
    ) -> Experiment:
        """An experiment from a TOML file; see `from_toml`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise ConfigError(f"cannot read {str(path)!r}: {reason}") from None
        try:
            return cls.from_toml(text, sets=sets, allow_imports=allow_imports)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """JSON Schema of an experiment file, for editors."""
        return TypeAdapter(Experiment).json_schema()
