"""How fast clients train, in virtual time. `SPEEDS` is the family's table."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from mmfl.config import Family, NonNegative, Positive, component
from mmfl.rng import Stream

__all__ = [
    "SPEEDS",
    "ConstantSpeed",
    "GivenSpeeds",
    "LogNormal",
    "Speed",
    "UniformSpeed",
    "normal_scores",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def normal_scores(draws: Floats) -> Floats:
    """Standard normal numbers from uniform ones in [0, 1), of which 0 counts as the next above."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(draws, 2.0**-54)), np.float64)


class Speed(Protocol):
    """Training examples per virtual second."""

    def rates(self, ids: Ints, places: Ints, *, rng: Stream) -> Floats:
        """Of these clients: always the same for the same client.

        Args:
            ids: Their ids.
            places: Their places in the federation's list.
            rng: Of all clients' speeds.
        """
        ...


@component
class ConstantSpeed:
    """The same speed for all clients; in a file, simply ``speed = 100.0``.

    Attributes:
        rate: Examples per virtual second.
    """

    rate: Positive

    def rates(self, ids: Ints, places: Ints, *, rng: Stream) -> Floats:
        """The rate."""
        return np.full(len(ids), float(self.rate))


@component
class GivenSpeeds:
    """One speed per client, in the order of the clients; or simply ``speed = [100.0, 50.0]``.

    Attributes:
        values: Examples per virtual second, one number for each client.
    """

    values: tuple[Positive, ...]

    def rates(self, ids: Ints, places: Ints, *, rng: Stream) -> Floats:
        """By place."""
        return np.array(self.values, np.float64)[places]


@component
class LogNormal:
    """Lognormal speeds: a few clients are much slower than most.

    Attributes:
        median: The median speed: half of the clients are slower.
        sigma: Standard deviation of the logarithm; 0 = all alike, 1 = one in six is slower than
            median / 2.7.
    """

    median: Positive
    sigma: NonNegative

    def rates(self, ids: Ints, places: Ints, *, rng: Stream) -> Floats:
        """Exp(ln(median) + sigma z), z standard normal."""
        with np.errstate(over="ignore"):
            return np.asarray(self.median * np.exp(self.sigma * normal_scores(rng.at(ids))))


@component
class UniformSpeed:
    """Speeds between two rates, all equally likely.

    Attributes:
        low: The slowest rate.
        high: The fastest rate.
    """

    low: Positive
    high: Positive

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must be at most high, got {self.low:g} and {self.high:g}")

    def rates(self, ids: Ints, places: Ints, *, rng: Stream) -> Floats:
        """Between low and high, by one uniform number."""
        return self.low + rng.at(ids) * (self.high - self.low)


SPEEDS = Family(
    name="speed",
    table={
        "constant": ConstantSpeed,
        "given": GivenSpeeds,
        "lognormal": LogNormal,
        "uniform": UniformSpeed,
    },
    needs=("rates",),
    scalar=("constant", "rate"),
    listed=("given", "values"),
)
