"""Learning rates over rounds. `SCHEDULES` is the family's table."""

from __future__ import annotations

import math
from typing import Any, Protocol

from mmfl.config import Family, Positive, component, short
from mmfl.errors import EngineError
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import describe_part

__all__ = ["SCHEDULES", "Constant", "Inverse", "Schedule", "compute_rate"]


class Schedule(Protocol):
    """A learning rate for each round in which a task trains."""

    def rate(self, t: int) -> float:
        """eta_t, where t = 0, 1, ... counts the rounds in which the task trained."""
        ...


@component
class Constant:
    """The same rate in all rounds; in a file, simply ``lr = 0.01``.

    Attributes:
        value: The learning rate.
    """

    value: Positive = 0.01

    def rate(self, t: int) -> float:
        """eta_t = value."""
        return float(self.value)


@component
class Inverse:
    """eta_t = 1 / (mu (t + gamma)): the schedule of the paper's convergence theorems.

    Attributes:
        mu: Strong convexity of the local losses.
        gamma: Offset; the theorems require at least 4 L / mu.
    """

    mu: Positive
    gamma: Positive

    def rate(self, t: int) -> float:
        """eta_t."""
        return 1.0 / (self.mu * (t + self.gamma))


SCHEDULES = Family(
    name="learning rate",
    table={"constant": Constant, "inverse": Inverse},
    needs=("rate",),
    scalar=("constant", "value"),
)


def compute_rate(schedule: Schedule, t: int) -> float:
    """A schedule's rate as a plain float: every engine then trains with the same number."""
    given: Any = schedule.rate(t)
    try:
        rate = math.nan if isinstance(given, str | bytes) else float(given)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        rate = math.nan
    if not math.isfinite(rate):
        said = f"the learning rate {describe_part(schedule)} must return a finite number"
        raise EngineError(f"{said}, got {short(given)}{describe_place(schedule)}")
    return rate
