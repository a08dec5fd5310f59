"""The parts of an experiment: the pool of clients, tasks, measuring."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    Strict,
    model_validator,
)
from pydantic_core import ArgsKwargs

from mmfl.config import (
    WRITE_IF_SET,
    Count,
    Finite,
    PartLike,
    Positive,
    Text,
    component,
    dump,
    short,
)
from mmfl.data import (
    DATASETS,
    NORMALIZATIONS,
    PARTITIONS,
    Augment,
    AutoNormalize,
    AutoPartition,
    Dataset,
    Normalize,
    Partition,
    keep_data,
)
from mmfl.errors import DataError
from mmfl.experiment.availability import Active, Availability
from mmfl.experiment.learning_rate import Schedule
from mmfl.experiment.local_training import LOCAL_KEYS, LocalOverride, LocalTraining
from mmfl.models import MODELS, Logistic, Mlp, Model
from mmfl.objectives import LOSSES, METRICS, CrossEntropy, Loss, Metric
from mmfl.optimizers import Optimizer, Sgd
from mmfl.system.files import hash_input
from mmfl.system.user_code import guard_part

__all__ = [
    "Clients",
    "Evaluate",
    "KernelName",
    "Task",
    "count_clients",
    "fits_batched",
    "gather_local_keys",
]

NAME_BYTES = 200
"""How long a task's name may be, as file names count: 255 less what a run puts around it."""

RESERVED_NAMES = ("worst", "mean", "variance", "jain")
"""Names of columns in tables of results; no task may have one of them."""

KernelName = Literal["auto", "reference", "fast", "batched"]


@component
class Clients:
    """The pool of clients.

    Attributes:
        count: K, the number of clients.
        active: C: in each round exactly round(C K') clients are active, where K' of the K clients
            may train something. Or a list of K rates: each client is active independently, at its
            own rate. Or a table of such rates over the rounds.
    """

    count: Count
    active: Active = 1.0

    if TYPE_CHECKING:

        def __init__(
            self,
            count: int,
            active: float | Sequence[float] | Availability | Mapping[str, Any] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        cycle = self.active.rates if isinstance(self.active, Availability) else (self.active,)
        for rates in cycle:
            if isinstance(rates, tuple) and len(rates) != self.count:
                raise ValueError(
                    f"active must have one rate per client ({self.count}), got {len(rates)}"
                )


def count_clients(value: Any) -> Any:
    """A pool in which all clients are active, where only a number is given."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, float | np.floating):
        raise ValueError(f"must be a whole number, or a table, got {short(value)}")
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


_NAME = (  # whatever is not ASCII may be a letter
    "^[^\\u0000-/:-@\\[-^`{-\\u007f][^\\u0000-*,/:-@\\[-^`{-\\u007f]*$"
)


_RESERVED = "|".join(f"^{''.join(f'[{c}{c.upper()}]' for c in name)}$" for name in RESERVED_NAMES)


def _task_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w.+-]{0,63}", name):
        raise ValueError(
            "must be a letter, digit or _, then at most 63 of those or . + - (it is used in file "
            f"names), got {short(name)}"
        )
    if len(name.encode()) > NAME_BYTES:
        raise ValueError(
            f"must have at most {NAME_BYTES} bytes in UTF-8 (it is used in file names), "
            f"got {len(name.encode())}: {short(name)}"
        )
    if name.casefold() in RESERVED_NAMES:
        *others, last = RESERVED_NAMES
        raise ValueError(
            f"must not be {', '.join(others)} or {last} (tables have columns with these names), "
            f"got {short(name)}"
        )
    return name


@component
class Task:
    """One of the S models that train at the same time.

    Every key of ``[local]`` can also be set in a task, as ``lr = 0.1`` or inside ``local``.

    Attributes:
        name: The name of the task, which is also used in file names.
        dataset: The data set to learn from. From Python, `data` takes what a program has: (x, y),
            four arrays, a DataFrame, a torch or Hugging Face Dataset, `mmfl.from_frame(...)`.
        model: The model to train.
        partition: Which client has which examples.
        loss: What local training minimises.
        metric: What the task is judged by; the default depends on the loss.
        target: The metric to reach, for the score "distance" and for plans.
        normalize: How examples are scaled.
        augment: Random crops and flips of training images.
        warm_start: A safetensors file with the initial weights.
        kernel: How training is computed; by default as in the experiment.
        local: Keys of ``[local]`` that this task sets differently.
        weight: How much the task counts in the fairness objective, the sum of weight_s f_s^alpha.
            Only `fed_fair` uses it: a task with weight 2 is twice as likely as an equally hard one
            with weight 1.
    """

    name: Annotated[
        str,
        Strict(),
        AfterValidator(_task_name),
        Field(json_schema_extra={"pattern": _NAME, "maxLength": 64, "not": {"pattern": _RESERVED}}),
    ]
    dataset: Annotated[Dataset, DATASETS]
    model: Annotated[Model, MODELS] = Mlp()
    partition: Annotated[Partition, PARTITIONS] = AutoPartition()
    loss: Annotated[Loss, LOSSES] = CrossEntropy()
    metric: Annotated[Metric | None, dataclasses.replace(METRICS, optional=True)] = None
    target: Finite | None = None
    normalize: Annotated[Normalize, NORMALIZATIONS] = AutoNormalize()
    augment: Augment = Augment()
    warm_start: Text | None = None
    kernel: KernelName | None = None
    local: LocalOverride = LocalOverride()
    weight: Annotated[Positive, WRITE_IF_SET] = 1.0

    if TYPE_CHECKING:  # what the arguments may be, for type checkers

        def __init__(
            self,
            name: str,
            dataset: Dataset | PartLike = ...,
            model: Model | PartLike = ...,
            partition: Partition | PartLike = ...,
            loss: Loss | PartLike = ...,
            metric: Metric | PartLike | None = ...,
            target: float | None = ...,
            normalize: Normalize | PartLike = ...,
            augment: Augment | Mapping[str, Any] = ...,
            warm_start: str | None = ...,
            kernel: KernelName | None = ...,
            local: LocalOverride | Mapping[str, Any] = ...,
            weight: float = ...,
            *,
            data: Any = ...,
            epochs: int | None = ...,
            steps: int | None = ...,
            batch_size: int | None = ...,
            lr: float | Schedule | PartLike | None = ...,
            momentum: float | None = ...,
            weight_decay: float | None = ...,
            remainder: Literal["keep", "drop"] | None = ...,
            optimizer: Optimizer | PartLike | None = ...,
            clip_norm: float | None = ...,
            prox: float | None = ...,
        ) -> None: ...

    also_known: ClassVar[tuple[str, ...]] = LOCAL_KEYS

    def named_files(self, *only: str) -> dict[str, str]:
        """The paths of the files that this task names besides its data, by their keys.

        Args:
            only: Of these fields; by default of all.
        """
        named = {"warm_start": {"": self.warm_start} if self.warm_start else {}}
        with guard_part("partition", self.partition, task=self.name, kind=DataError):
            own = getattr(self.partition, "named_files", None)
            named["partition"] = own() if callable(own) else {}
        return {
            ".".join(["tasks", self.name, field, *filter(None, [key])]): path
            for field, paths in named.items()
            for key, path in paths.items()
            if not only or field in only
        }

    def files(self, *only: str) -> dict[str, str]:
        """SHA-256 of the files of `named_files`; "" where a file cannot be read."""
        return {key: _hash(path) for key, path in self.named_files(*only).items()}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if isinstance(data, ArgsKwargs):
            return ArgsKwargs((), _take_data(gather_local_keys(data.kwargs or {})))
        return gather_local_keys(data) if isinstance(data, Mapping) else data


def _take_data(task: Mapping[str, Any]) -> dict[str, Any]:
    """A task's arguments with the data of `data` kept in memory, as its `dataset`."""
    rest = {key: value for key, value in task.items() if key != "data"}
    if "data" not in task:
        return rest
    if "dataset" in task:
        raise ValueError("takes data or dataset, not both")
    name = task.get("name")
    try:
        return rest | {"dataset": keep_data(task["data"], f"the data of task {name!r}")}
    except DataError as error:
        raise ValueError(str(error)) from error.__cause__


def _hash(path: str) -> str:
    for _ in range(2):  # what fails may succeed again
        with suppress(OSError):
            return hash_input(path)
    return ""  # reading it for use will say what is wrong


def fits_batched(task: Task, local: LocalTraining, precision: str) -> bool:
    """Whether the kernel "batched" can train a task: layers and loss are what it was made for."""
    model = task.model
    dense = isinstance(model, Logistic) or (isinstance(model, Mlp) and not model.dropout)
    plain = dense and not task.augment and precision == "float32"
    return plain and isinstance(local.optimizer, Sgd) and isinstance(task.loss, CrossEntropy)


def gather_local_keys(task: Mapping[str, Any]) -> dict[str, Any]:
    """A task's table with the keys of ``[local]`` that stand in it moved into its `local`."""
    inline = {key: value for key, value in task.items() if key in LOCAL_KEYS}
    rest = {key: value for key, value in task.items() if key not in LOCAL_KEYS}
    if not inline:
        return rest
    inner = rest.get("local", {})
    inner = dump(inner) if isinstance(inner, LocalOverride) else inner
    if not isinstance(inner, Mapping):
        raise ValueError(f"local must be a table, got {short(inner)}")
    twice = sorted(inner.keys() & inline.keys())
    if twice:
        raise ValueError(f"{twice[0]} is set both in the task and in its local table")
    return {**rest, "local": {**inner, **inline}}


@component
class Evaluate:
    """When and how the models are evaluated.

    Attributes:
        every: Rounds between evaluations on the test split; the last round is always evaluated.
            (The difficulty is evaluated after every round, because allocation needs it.)
        batch_size: Examples per batch in an evaluation.
    """

    every: Count = 1
    batch_size: Count = 250
