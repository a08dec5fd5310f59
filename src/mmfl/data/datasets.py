"""Data sets: what a task learns from. `DATASETS` is the family's table.

An npz file holds `x_train, y_train, x_test, y_test` (and no pickles); x is N x H x W, N x H x W x C
or N x features, uint8 or floating point; y is whole numbers from 0. A bare name in a configuration,
``dataset = "mnist"``, means ``mnist.npz`` in the folder that ``--data-dir`` or MMFL_DATA names.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mmfl.config import Count, Family, Natural, NonNegative, Text, component
from mmfl.errors import DataError, did_you_mean
from mmfl.rng import stream

__all__ = ["DATASETS", "Arrays", "Dataset", "Named", "Npz", "Synthetic", "data_folder"]

Labels = npt.NDArray[np.int64]
_PARTS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, eq=False)
class Arrays:
    """A data set in memory: examples by row, labels as whole numbers below `classes`."""

    x_train: npt.NDArray[Any]
    y_train: Labels
    x_test: npt.NDArray[Any]
    y_test: Labels
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """An example's shape as a model sees it: (features,) or (channels, height, width)."""
        shape = self.x_train.shape[1:]
        if len(shape) == 1:
            return shape
        return (1, *shape) if len(shape) == 2 else (shape[2], shape[0], shape[1])


class Dataset(Protocol):
    """Knows where a task's data comes from."""

    def load(self, data_dir: Path | None) -> Arrays:
        """The data, checked; `DataError` if it is missing or malformed."""
        ...


def data_folder(data_dir: str | Path | None) -> Path | None:
    """The folder of npz files: as given, or else what MMFL_DATA says."""
    folder = data_dir if data_dir is not None else os.environ.get("MMFL_DATA") or None
    if folder is None:
        return None
    path = Path(folder)
    if not path.is_dir():
        raise DataError(f"the data folder {str(path)!r} {_what_is_wrong(path)}")
    return path


@component
class Named:
    """``<name>.npz`` in the data folder."""

    name: Text

    def load(self, data_dir: Path | None) -> Arrays:
        """Find the file and read it."""
        folder = data_folder(data_dir)
        if folder is None:
            raise DataError(
                f"data set {self.name!r}: no data folder is set; give --data-dir (or MMFL_DATA), "
                f"a folder that holds {self.name}.npz"
            )
        path = folder / f"{self.name}.npz"
        if not _is_file(path):
            hint = did_you_mean(self.name, (file.stem for file in folder.glob("*.npz")))
            raise DataError(f"data set {self.name!r}: {str(folder)!r} has no {path.name}; {hint}")
        return _read_npz(path)


@component
class Npz:
    """An npz file at a path (relative to the data folder if there is one, else to here)."""

    path: Text

    def load(self, data_dir: Path | None) -> Arrays:
        """Read the file."""
        path = (data_folder(data_dir) or Path()) / self.path
        if not _is_file(path):
            raise DataError(f"data set {str(path)!r} {_what_is_wrong(path)}")
        return _read_npz(path)


@component
class Synthetic:
    """Gaussian clouds around one random centre per class: for tests, examples and first steps.

    Attributes:
        classes: How many.
        shape: Of one example: (features,) or (height, width) or (height, width, channels).
        train: Training examples.
        test: Test examples.
        noise: Spread of the clouds; the centres have spread 1. More noise, a harder task.
        seed: Of the data, which thus stays the same over the seeds of an experiment.
    """

    classes: Annotated[Count, Field(ge=2)] = 4
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)] = (16,)
    train: Count = 2000
    test: Count = 500
    noise: NonNegative = 1.0
    seed: Natural = 0

    def load(self, data_dir: Path | None) -> Arrays:
        """Draw it."""
        rng = stream(self.seed, "synthetic")
        centres = rng.standard_normal((self.classes, *self.shape), dtype=np.float32)

        def draw(size: int) -> tuple[npt.NDArray[np.float32], Labels]:
            y = rng.integers(self.classes, size=size)
            x = rng.standard_normal((size, *self.shape), dtype=np.float32)
            return centres[y] + np.float32(self.noise) * x, y

        return Arrays(*draw(self.train), *draw(self.test), self.classes)


DATASETS = Family(
    name="data set",
    table={"named": Named, "npz": Npz, "synthetic": Synthetic},
    needs=("load",),
    scalar=("named", "name"),
)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte in it
        return False


def _what_is_wrong(path: Path) -> str:
    if _is_file(path):
        return "is a file"
    return "is a folder" if os.path.isdir(path) else "does not exist"


def _read_npz(path: Path) -> Arrays:
    parts: dict[str, npt.NDArray[Any]] = {}
    try:
        with path.open("rb") as stream_:
            if not zipfile.is_zipfile(stream_):
                raise DataError(f"data set {str(path)!r} is no npz file")
            with np.load(stream_, allow_pickle=False) as file:
                parts = {name: file[name] for name in (*_PARTS, "classes") if name in file}
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything from inside NumPy
        said = str(error) or type(error).__name__
        raise DataError(f"data set {str(path)!r} cannot be read: {said}") from None
    for name in _PARTS:
        if not isinstance(parts.get(name), np.ndarray):
            raise DataError(f"data set {str(path)!r} has no array {name!r}")
    names = parts.get("classes", np.array(""))
    if names.ndim == 0 and names.dtype.kind == "U":  # one letter per class
        names = np.array(list(str(names)))
    if names.ndim != 1:
        raise DataError(f"data set {str(path)!r}: classes must be a list of names, or a word")
    x_train, y_train, x_test, y_test = (parts[name] for name in _PARTS)
    for part, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
        _check(str(path), part, x, y)
    if x_train.shape[1:] != x_test.shape[1:]:
        raise DataError(f"data set {str(path)!r}: x_train and x_test differ in an example's shape")
    classes = max(len(names), int(y_train.max()) + 1, int(y_test.max()) + 1)
    return Arrays(x_train, y_train.astype(np.int64), x_test, y_test.astype(np.int64), classes)


def _check(path: str, part: str, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
    """The rules for one split of a data set."""
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        rule = f"x_{part} must be uint8 or floating point, got {x.dtype}"
    elif not 2 <= x.ndim <= 4 or 0 in x.shape[1:]:
        rule = f"x_{part} must be N x features or N x H x W (x C), got shape {x.shape}"
    elif y.dtype.kind not in "iu" or y.ndim != 1:
        rule = f"y_{part} must be a vector of whole numbers, got {y.dtype} of shape {y.shape}"
    elif len(x) != len(y) or len(x) == 0:
        rule = f"x_{part} and y_{part} must have one positive length, got {len(x)} and {len(y)}"
    elif y.min() < 0 or y.max() >= 2**16:
        wrong = y.min() if y.min() < 0 else y.max()
        rule = f"y_{part} must be class numbers from 0 to 65535, got {wrong}"
    elif x.dtype.kind == "f" and not np.isfinite(x).all():
        place = np.argwhere(~np.isfinite(x))[0]
        rule = f"x_{part} must be finite, got {x[tuple(place)]} in row {place[0]}"
    else:
        return
    raise DataError(f"data set {path!r}: {rule}")
