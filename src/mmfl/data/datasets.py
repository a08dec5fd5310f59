"""Data sets: what a task learns from. `DATASETS` is the family's table.

An npz file holds `x_train, y_train, x_test, y_test` (and no pickles) under the rules of
`Arrays.checked`; so does what a function of yours returns. A bare name in a configuration,
``dataset = "mnist"``, means ``mnist.npz`` in the folder that ``--data-dir`` or MMFL_DATA names
(otherwise the one that ``mmfl data fetch`` fills), or else the embedded set of that name.
"""

from __future__ import annotations

import math
import os
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mmfl.config import Count, Family, Natural, NonNegative, OwnFunction, Text, component
from mmfl.data import embedded
from mmfl.data.arrays import PARTS, Arrays
from mmfl.data.sources.catalogue import CATALOGUE
from mmfl.errors import DataError, did_you_mean
from mmfl.rng import stream
from mmfl.sentences import short

__all__ = [
    "DATASETS",
    "Dataset",
    "FromFunction",
    "Named",
    "Npz",
    "Synthetic",
    "data_folder",
    "default_folder",
    "fetch_command",
]

Labels = npt.NDArray[np.int64]


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


def default_folder() -> Path:
    """Where names are looked up, and fetched to, if no data folder is set: mmfl's own cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(cache)) / "mmfl"


def fetch_command(name: str, folder: Path) -> str:
    """What a user types to fetch a data set into a folder."""
    usual = Path(os.environ.get("MMFL_DATA") or default_folder())
    where = "" if folder == usual else f" --data-dir {shlex.quote(str(folder))}"
    return f"mmfl data fetch {name}{where}"


@component
class Named:
    """``<name>.npz`` in the data folder, or else the embedded set of that name."""

    name: Text

    def bytes_needed(self, data_dir: Path | None) -> int:
        """What it certainly takes in memory, as the file's heads say; 0 = not known."""
        path = (data_folder(data_dir) or default_folder()) / f"{self.name}.npz"
        return _promised(path) if _is_file(path) else 0

    def load(self, data_dir: Path | None) -> Arrays:
        """Find it and read it."""
        given = data_folder(data_dir)
        folder = given or default_folder()
        path = folder / f"{self.name}.npz"
        if _is_file(path):
            return _read_npz(path)
        entry = CATALOGUE.get(self.name)
        if entry is None:
            known = {file.stem for file in folder.glob("*.npz")} | set(CATALOGUE)
            hint = did_you_mean(self.name, known)
            if given is None:
                hint += " (give --data-dir or MMFL_DATA if it lies elsewhere)"
            raise DataError(f"data set {self.name!r}: {str(folder)!r} has no {path.name}; {hint}")
        if entry.published is None:
            return embedded.load(self.name)
        small = entry.published.small
        raise DataError(
            f"data set {self.name!r}: {str(folder)!r} has no {path.name}; get it with "
            f"`{fetch_command(self.name, folder)}`"
            + (f", or use {small!r}, a part of it that comes with mmfl" if small else "")
        )


@component
class Npz:
    """An npz file at a path (relative to the data folder if there is one, else to here)."""

    path: Text

    def bytes_needed(self, data_dir: Path | None) -> int:
        """What it certainly takes in memory, as the file's heads say; 0 = not known."""
        path = (data_folder(data_dir) or Path()) / self.path
        return _promised(path) if _is_file(path) else 0

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
    noise: Annotated[NonNegative, Field(le=1e30)] = 1.0
    seed: Natural = 0

    def bytes_needed(self, data_dir: Path | None) -> int:
        """What it certainly takes in memory, at the time when most of it is held three times."""
        examples = max(3 * self.train, self.train + 3 * self.test) + self.classes
        return 4 * math.prod(self.shape) * examples + 8 * (self.train + self.test)

    def load(self, data_dir: Path | None) -> Arrays:
        """Draw it."""
        rng = stream(self.seed, "synthetic")
        centres = rng.standard_normal((self.classes, *self.shape), dtype=np.float32)

        def draw(size: int) -> tuple[npt.NDArray[np.float32], Labels]:
            y = rng.integers(self.classes, size=size)
            x = rng.standard_normal((size, *self.shape), dtype=np.float32)
            return centres[y] + np.float32(self.noise) * x, y

        return Arrays(*draw(self.train), *draw(self.test), self.classes)


@dataclass(frozen=True)
class FromFunction:
    """What a function of the user's returns: `Arrays`, a table of arrays, or four arrays.

    See `Arrays.checked` for the table's keys: x_train, y_train, x_test, y_test, or `clients`.
    """

    function: OwnFunction

    def load(self, data_dir: Path | None) -> Arrays:
        """Call it."""
        found = self.function()
        where = f"data set {self.function.path!r}"
        if isinstance(found, Arrays):
            own = {name: getattr(found, name) for name in (*PARTS, "classes", "groups")}
            found = {name: value for name, value in own.items() if value is not None}
        elif isinstance(found, Sequence) and len(found) == len(PARTS):
            found = dict(zip(PARTS, found, strict=True))
        if not isinstance(found, Mapping):
            raise DataError(
                f"{where} must return x_train, y_train, x_test, y_test, or a table of them, "
                f"got {short(found)}"
            )
        return Arrays.checked(where, found)


DATASETS = Family(
    name="data set",
    table={"named": Named, "npz": Npz, "synthetic": Synthetic},
    needs=("load",),
    scalar=("named", "name"),
    function=FromFunction,
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


def _promised(path: Path) -> int:
    """How many bytes the arrays of an npz file have, by their heads; 0 if it is no such file."""
    heads = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    total = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for name in (*PARTS, "groups"):
                if f"{name}.npy" not in archive.namelist():
                    continue
                with archive.open(f"{name}.npy") as file:
                    read = heads[np.lib.format.read_magic(file)]
                    shape, _, kind = read(file)
                    total += kind.itemsize * math.prod(shape)
    except Exception:  # a damaged file can raise nearly anything; reading it says what
        return 0
    return total


def _read_npz(path: Path) -> Arrays:
    parts: dict[str, npt.NDArray[Any]] = {}
    where = f"data set {str(path)!r}"
    try:
        with path.open("rb") as stream_:
            if not zipfile.is_zipfile(stream_):
                raise DataError(f"{where} is no npz file")
            with np.load(stream_, allow_pickle=False) as file:
                parts = {name: file[name] for name in (*PARTS, "classes", "groups") if name in file}
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything from inside NumPy
        said = str(error) or type(error).__name__
        raise DataError(f"{where} cannot be read: {said}") from None
    return Arrays.checked(where, parts)
