"""Local training: what a client does with its turn, and which of it a task sets differently."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from pydantic import Field, Strict

from mmfl.config import WRITE_IF_SET, Count, NonNegative, Positive, component
from mmfl.exchange import LocalWork
from mmfl.experiment.learning_rate import SCHEDULES, Constant, Schedule, compute_rate
from mmfl.optimizers import OPTIMIZERS, Optimizer, Sgd

__all__ = ["LOCAL_KEYS", "LocalOverride", "LocalTraining"]

Remainder = Literal["keep", "drop"]
Momentum = Annotated[float, Strict(), Field(ge=0, lt=1)]

_SGD_KEYS = {"momentum": 0.9, "weight_decay": 1e-4}
"""The keys of ``[local]`` that only SGD has, and their defaults."""


def _refuse_sgd_keys(optimizer: Optimizer, *values: float | None) -> None:
    given = [key for key, value in zip(_SGD_KEYS, values, strict=True) if value is not None]
    if given and not isinstance(optimizer, Sgd):
        kind = OPTIMIZERS.kind_of(optimizer)
        raise ValueError(
            f'{given[0]} is for optimizer = "sgd", not for {kind!r}, whose settings are '
            "written with its kind"
        )


def _not_both(epochs: int | None, steps: int | None) -> None:
    if epochs is not None and steps is not None:
        raise ValueError(f"takes epochs or steps, not both, got {epochs} and {steps}")


@component
class LocalOverride:
    """Keys of ``[local]`` that a task sets differently."""

    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Count | None = None
    lr: Annotated[Schedule | None, dataclasses.replace(SCHEDULES, optional=True)] = None
    momentum: Momentum | None = None
    weight_decay: NonNegative | None = None
    remainder: Remainder | None = None
    optimizer: Annotated[Optimizer | None, dataclasses.replace(OPTIMIZERS, optional=True)] = None
    clip_norm: Positive | None = None
    prox: NonNegative | None = None

    def __post_init__(self) -> None:
        _not_both(self.epochs, self.steps)
        if self.optimizer is not None:
            _refuse_sgd_keys(self.optimizer, self.momentum, self.weight_decay)


LOCAL_KEYS = tuple(field.name for field in dataclasses.fields(LocalOverride))


@component
class LocalTraining:
    """What a client does with its turn (tau in the paper); see `mmfl.exchange.LocalWork`.

    Attributes:
        epochs: Passes over the shard (5 unless `steps` is set).
        steps: SGD steps, instead of `epochs`.
        batch_size: Examples per step.
        lr: A number, or a schedule such as ``{ kind = "inverse", mu = 0.1, gamma = 8.0 }``.
        momentum: Momentum of SGD (0.9 unless set). Other optimizers have their own settings.
        weight_decay: Weight decay of SGD (L2 penalty; 1e-4 unless set).
        remainder: Whether to "keep" or "drop" the last, smaller batch of a pass.
        optimizer: How local training uses gradients. Each turn starts with a new one: its state
            does not survive the turn.
        clip_norm: The largest Euclidean norm of a step's gradient, over all weights; a larger
            gradient is scaled down. By default gradients are not clipped.
        prox: mu of FedProx: each turn minimises its loss + mu/2 ||w - w_global||^2.
    """

    epochs: Count | None = None
    steps: Count | None = None
    batch_size: Count = 32
    lr: Annotated[Schedule, SCHEDULES] = Constant(0.01)
    momentum: Momentum | None = None
    weight_decay: NonNegative | None = None
    remainder: Remainder = "keep"
    optimizer: Annotated[Optimizer, OPTIMIZERS, WRITE_IF_SET] = Sgd()
    clip_norm: Positive | None = None
    prox: Annotated[NonNegative, WRITE_IF_SET] = 0.0

    def __post_init__(self) -> None:
        _not_both(self.epochs, self.steps)
        _refuse_sgd_keys(self.optimizer, self.momentum, self.weight_decay)
        if self.epochs is None and self.steps is None:
            object.__setattr__(self, "epochs", 5)
        if isinstance(self.optimizer, Sgd):
            for key, default in _SGD_KEYS.items():
                if getattr(self, key) is None:
                    object.__setattr__(self, key, default)

    def override(self, by: LocalOverride) -> LocalTraining:
        """These settings with a task's own; its `steps` replace `epochs` and the reverse."""
        own = {f.name: getattr(by, f.name) for f in dataclasses.fields(by)}
        changes = {key: value for key, value in own.items() if value is not None}
        if by.epochs is not None or by.steps is not None:
            changes.update(epochs=by.epochs, steps=by.steps)
        _refuse_sgd_keys(by.optimizer or self.optimizer, by.momentum, by.weight_decay)
        if by.optimizer is not None and not isinstance(by.optimizer, Sgd):
            changes = dict.fromkeys(_SGD_KEYS) | changes
        return dataclasses.replace(self, **changes)

    def work(self, t: int) -> LocalWork:
        """The turn's work in the round before which the task trained in t rounds."""
        return LocalWork(
            batch_size=self.batch_size,
            lr=compute_rate(self.lr, t),
            epochs=self.epochs,
            steps=self.steps,
            momentum=self.momentum or 0.0,
            weight_decay=self.weight_decay or 0.0,
            remainder=self.remainder,
            clip_norm=self.clip_norm,
            prox=self.prox,
        )
