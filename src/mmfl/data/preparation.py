"""How examples become a model's inputs: scaling, and random crops and flips in training.

`NORMALIZATIONS` is the family's table. A member gives mean and standard deviation in the units of
the data (bytes: 0 to 255), one per channel or feature, or one for all; None leaves examples alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator

from mmfl.config import WRITE_IF_SET, Family, Flag, Natural, component, one_or_several, short
from mmfl.data.arrays import Arrays
from mmfl.errors import DataError
from mmfl.rng import Stream

__all__ = [
    "NORMALIZATIONS",
    "Augment",
    "AutoNormalize",
    "Given",
    "Half",
    "Normalize",
    "Standard",
    "Unscaled",
]

Singles = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Scaling = tuple[Singles, Singles] | None

_MOST = 1e30
"""No mean or deviation is larger, and no deviation smaller than its inverse: float32 ends there."""


class Normalize(Protocol):
    """Scales examples."""

    def scaling(self, data: Arrays) -> Scaling:
        """(mean, std), each with one number per channel or feature, or one for all."""
        ...


def _all(mean: float, std: float) -> Scaling:
    return np.array([mean], np.float32), np.array([std], np.float32)


@component
class AutoNormalize:
    """`half` for images of bytes, `none` for everything else."""

    def scaling(self, data: Arrays) -> Scaling:
        """By the data's type and shape."""
        bytes_ = data.x_train.dtype == np.uint8 and data.x_train.ndim > 2
        return Half().scaling(data) if bytes_ else None


@component
class Half:
    """To [-1, 1], as in the paper: mean .5 and standard deviation .5 of a pixel in [0, 1]."""

    def scaling(self, data: Arrays) -> Scaling:
        """The same for all data sets."""
        _refuse_tokens(data, "half")
        return _all(127.5, 127.5) if data.x_train.dtype == np.uint8 else _all(0.5, 0.5)


@component
class Unscaled:
    """No scaling."""

    def scaling(self, data: Arrays) -> Scaling:
        """None."""
        return None


@component
class Standard:
    """To mean 0 and standard deviation 1 over the training data, per channel or feature.

    Attributes:
        series: Whether examples are series, steps x features, whose features have their own mean
            and deviation; by default such examples count as images of one channel.
    """

    series: Annotated[Flag, WRITE_IF_SET] = False

    def scaling(self, data: Arrays) -> Scaling:
        """From the training data, in float64 (float32 sums over a large set are wrong)."""
        _refuse_tokens(data, "standard")
        x = data.x_train
        if self.series and x.ndim != 3:
            raise DataError(
                f"normalize.series is for examples of steps x features, got shape {x.shape[1:]}"
            )
        rows = x.reshape(-1, x.shape[-1] if self.series else data.shape[0])
        step = max(1, 2**20 // rows.shape[1])

        def mean_of(change: Callable[[Doubles], Doubles]) -> Doubles:
            total = np.zeros(rows.shape[1])
            for start in range(0, len(rows), step):
                total += change(rows[start : start + step].astype(np.float64)).sum(axis=0)
            return total / len(rows)

        mean = mean_of(lambda piece: piece)
        std = np.sqrt(mean_of(lambda piece: (piece - mean) ** 2))  # E[x^2] - mean^2 would cancel
        std[std <= 1e-7 * np.abs(mean)] = 1.0  # a feature that never changes
        return mean.astype(np.float32), std.astype(np.float32)


def _numbers(value: Any) -> Any:
    several = value if isinstance(value, list | tuple) else [value]
    if not several or not all(type(one) in (int, float) and one == one for one in several):  # noqa: PLR0124
        raise ValueError(f"must be a number or a list with one per channel, got {short(value)}")
    if not all(abs(one) <= _MOST for one in several):
        raise ValueError(f"must be between {-_MOST:g} and {_MOST:g}, got {short(value)}")
    return tuple(map(float, several))


Numbers = Annotated[
    tuple[float, ...],
    BeforeValidator(_numbers),
    one_or_several(minimum=-_MOST, maximum=_MOST),
]


@component
class Given:
    """With your own numbers: one for all channels or features, or one for each (bytes are 0 to 1).

    For series, steps x features, there may be one for each feature.

    Attributes:
        mean: The mean to subtract.
        std: The standard deviation to divide by.
    """

    mean: Numbers
    std: Annotated[Numbers, one_or_several(minimum=1 / _MOST, maximum=_MOST)]

    def __post_init__(self) -> None:
        if min(self.std) <= 0:
            raise ValueError(f"std must be above 0, got {min(self.std):g}")
        if min(self.std) < 1 / _MOST:
            raise ValueError(f"std must be at least {1 / _MOST:g}, got {min(self.std):g}")

    def scaling(self, data: Arrays) -> Scaling:
        """In the data's units."""
        _refuse_tokens(data, "given")
        depth = data.shape[0]
        series = data.x_train.ndim == 3 and data.x_train.shape[-1]
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, depth, series):
                raise DataError(
                    f"normalize.{name} must be one number or {depth}, one per channel or feature, "
                    f"got {len(numbers)}"
                )
        unit = 255.0 if data.x_train.dtype == np.uint8 else 1.0
        mean, std = np.array(self.mean), np.array(self.std)
        return (mean * unit).astype(np.float32), (std * unit).astype(np.float32)


def _refuse_tokens(data: Arrays, kind: str) -> None:
    if data.x_train.dtype == np.int64:
        raise DataError(f"examples that are whole numbers cannot be scaled (normalize = {kind!r})")


NORMALIZATIONS = Family(
    name="normalization",
    table={
        "auto": AutoNormalize,
        "given": Given,
        "half": Half,
        "none": Unscaled,
        "standard": Standard,
    },
    needs=("scaling",),
)


@component
class Augment:
    """Random changes to training images (never in evaluation).

    Attributes:
        crop: Width of a black border around an image, from which the original size is cropped at
            random.
        flip: Whether an image is mirrored with probability 1/2.
    """

    crop: Natural = 0
    flip: Flag = False

    def __bool__(self) -> bool:
        return self.crop > 0 or self.flip

    def apply(self, x: npt.NDArray[Any], *, rng: Stream) -> npt.NDArray[Any]:
        """A batch, N x H x W or N x H x W x C, before it is scaled."""
        if not self:
            return x
        if x.ndim < 3:
            raise DataError("augment is for images, not for tables")
        n, height, width = x.shape[:3]
        rows, columns = np.arange(height)[None, :], np.arange(width)[None, :]
        at = np.zeros((n, 1), np.int64)
        top = left = at
        if self.crop:
            border = ((0, 0), (self.crop, self.crop), (self.crop, self.crop))
            x = np.pad(x, border + ((0, 0),) * (x.ndim - 3))
            top, left = rng.integers(2 * self.crop + 1, size=(2, n, 1))
        columns = np.repeat(columns, n, axis=0)
        if self.flip:
            mirrored = rng.random(n) < 0.5
            columns[mirrored] = columns[mirrored, ::-1]
        every = np.arange(n)[:, None, None]
        cut: npt.NDArray[Any] = x[every, (top + rows)[:, :, None], (left + columns)[:, None, :]]
        return cut
