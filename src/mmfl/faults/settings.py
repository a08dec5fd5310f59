"""``[faults]`` in an experiment: faults that are injected by addressed randomness."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator

from mmfl.config import (
    Chance,
    Family,
    Natural,
    NonNegative,
    Positive,
    Text,
    check_shares,
    component,
    one_or_several,
)
from mmfl.errors import did_you_mean
from mmfl.faults.base import Misbehaviour
from mmfl.faults.claims import AbsurdWeight, FalseLoss
from mmfl.faults.replays import Duplicate, ReplayedRound, ReplayedTask
from mmfl.faults.speeds import SPEEDS, GivenSpeeds, Speed
from mmfl.faults.tensors import ExtraTensor, MissingTensor, WrongShape
from mmfl.faults.values import Inf, Nan, Scaled, SignFlipped
from mmfl.rng import Stream

__all__ = ["MISBEHAVIOURS", "Faults", "Misbehaving"]

MISBEHAVIOURS = Family(
    name="misbehaviour",
    table={
        "nan": Nan,
        "inf": Inf,
        "wrong_shape": WrongShape,
        "missing_tensor": MissingTensor,
        "extra_tensor": ExtraTensor,
        "absurd_weight": AbsurdWeight,
        "scaled": Scaled,
        "sign_flipped": SignFlipped,
        "duplicate": Duplicate,
        "replayed_round": ReplayedRound,
        "replayed_task": ReplayedTask,
        "false_loss": FalseLoss,
    },
    needs=("send",),
)

Chances = Annotated[
    float | tuple[float, ...],
    BeforeValidator(partial(check_shares, rule="a probability in [0, 1]")),
    one_or_several(minimum=0, maximum=1),
]


@component
class Misbehaving:
    """One table of ``[[faults.clients]]``: clients that misbehave.

    Attributes:
        does: What they do, e.g. ``{ kind = "scaled", factor = 100.0 }``.
        share: The chance that a client is one of them, drawn once per client id.
        ids: The ids of these clients, instead of `share`.
        rate: The chance that one of them misbehaves in a turn.
        tasks: The tasks that they attack; by default all.
    """

    does: Annotated[Misbehaviour, MISBEHAVIOURS]
    share: Chance | None = None
    ids: tuple[Natural, ...] | None = None
    rate: Chance = 1.0
    tasks: tuple[Text, ...] | None = None

    def __post_init__(self) -> None:
        if (self.share is None) == (self.ids is None):
            raise ValueError("needs either share or ids, to say which clients misbehave")

    def select(self, clients: npt.NDArray[np.int64], *, rng: Stream) -> npt.NDArray[np.bool_]:
        """Which of these clients misbehave in this way."""
        if self.share is not None:
            return rng.at(clients) < self.share
        return np.isin(clients, np.array(self.ids, np.int64))


@component
class Faults:
    """Simulated faults of clients.

    Attributes:
        dropout: The probability that a turn is lost; or a list with one per client.
        deadline: Virtual seconds after which a round closes; clients that need longer are late.
        speed: Training examples that a client processes per virtual second: a number, a list with
            one per client, or e.g. ``{ kind = "lognormal", median = 100.0, sigma = 1.0 }``.
        jitter: Standard deviation of the logarithm of a turn's virtual time, around the time that
            follows from the work and the speed.
        clients: Clients that misbehave. If several tables apply to a turn, only the first is used.
    """

    dropout: Chances = 0.0
    deadline: Positive | None = None
    speed: Annotated[Speed | None, dataclasses.replace(SPEEDS, optional=True)] = None
    jitter: NonNegative = 0.0
    clients: tuple[Misbehaving, ...] = ()

    def __post_init__(self) -> None:
        for key in ("deadline", "jitter"):
            if getattr(self, key) and self.speed is None:
                raise ValueError(f"{key} needs a speed: virtual time is computed from it")

    def check(self, tasks: Sequence[str], count: int) -> None:
        """Refuse what does not fit an experiment with these tasks and this many clients."""
        if isinstance(self.dropout, tuple) and len(self.dropout) != count:
            raise ValueError(
                f"faults.dropout must have one probability per client ({count}), "
                f"got {len(self.dropout)}"
            )
        if isinstance(self.speed, GivenSpeeds) and len(self.speed.values) != count:
            raise ValueError(
                f"faults.speed must have one rate per client ({count}), "
                f"got {len(self.speed.values)}"
            )
        for number, some in enumerate(self.clients):
            where = f"faults.clients[{number}]"
            for name in some.tasks or ():
                if name not in tasks:
                    near = did_you_mean(name, tasks)
                    raise ValueError(f"{where}.tasks: no task is called {name!r}; {near}")
            for client in some.ids or ():
                if client >= count:
                    raise ValueError(f"{where}.ids must be below {count}, got {client}")
            if isinstance(some.does, ReplayedTask) and len(tasks) < 2:
                raise ValueError(f"{where}.does: replayed_task needs at least two tasks")
