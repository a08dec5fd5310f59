"""Data sets: what a task learns from. `DATASETS` is the family's table.

An npz file holds `x_train, y_train, x_test, y_test` (and no pickles) under the rules of
`Arrays.check`; so does what a function of yours returns. A bare name in a configuration,
``dataset = "mnist"``, means ``mnist.npz`` in the folder that ``--data-dir`` or MMFL_DATA names
(otherwise the one that ``mmfl data fetch`` fills), or else the embedded set of that name.
"""

from __future__ import annotations

import math
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, Strict

from mmfl.config import Count, Family, Natural, OwnFunction, Text, component
from mmfl.data import embedded
from mmfl.data.arrays import PARTS, Arrays
from mmfl.data.at_nodes import AtNodes
from mmfl.data.conversion import is_channels_first, to_arrays
from mmfl.data.folders import (
    data_folder,
    default_folder,
    find_cache,
    is_file_here,
    looked_in,
    wanted_folder,
    what_is_wrong,
)
from mmfl.data.image_folder import ImageFolder
from mmfl.data.in_memory import InMemory
from mmfl.data.npy import Header, members, read_header, read_member
from mmfl.data.reduced import Reduced
from mmfl.data.sources import CATALOGUE
from mmfl.data.synthetic_regression import SyntheticRegression
from mmfl.data.table_files import CsvFile, ParquetFile
from mmfl.errors import DataError, MmflError, did_you_mean
from mmfl.rng import stream
from mmfl.system.files import list_folder, open_file
from mmfl.system.memory import Need, refuse
from mmfl.system.user_code import pass_on, warn_user

__all__ = [
    "DATASETS",
    "Dataset",
    "FromFunction",
    "Named",
    "Npz",
    "Reduced",
    "Synthetic",
    "fetch_command",
]

Labels = npt.NDArray[np.int64]

_READ = (*PARTS, "classes", "groups", "group_names")
"""The arrays of an npz file that are read."""

_OTHER_FILES = (
    'your own function ("module:function") can read any file (docs/how-to/use-your-own-data.md)'
)


class Dataset(Protocol):
    """Knows where a task's data comes from."""

    def load(self, data_dir: Path | None) -> Arrays:
        """The data, checked; `DataError` if it is missing or malformed."""
        ...


def npz_files(folder: Path) -> dict[str, Path]:
    """The npz files in a folder, by name; none if it cannot be listed."""
    try:
        paths = list_folder(folder)
    except OSError:
        return {}
    return {path.stem: path for path in paths if path.suffix == ".npz" and is_file_here(path)}


def fetch_command(name: str, folder: Path) -> str:
    """What a user types to fetch a data set into a folder."""
    usual = wanted_folder(None) or find_cache()
    where = "" if folder == usual else f" --data-dir {shlex.quote(str(folder))}"
    return f"mmfl data fetch {name}{where}"


@component
class Named:
    """``<name>.npz`` in the data folder, or else the embedded set of that name.

    Attributes:
        name: The name of the data set.
    """

    name: Text

    def find_file(self, data_dir: str | Path | None) -> Path:
        """Where the file is, or would be."""
        return (wanted_folder(data_dir) or default_folder()) / f"{self.name}.npz"

    def bytes_needed(self, data_dir: Path | None) -> int:
        """The least memory that it needs, by the file's headers; 0 = not known."""
        folder = data_folder(data_dir) or find_cache()
        return 0 if folder is None else _read_size(folder / f"{self.name}.npz")

    def load(self, data_dir: Path | None) -> Arrays:
        """Find it and read it."""
        given = data_folder(data_dir)
        entry = CATALOGUE.get(self.name)
        comes_with_us = entry is not None and entry.published is None
        folder = given or (find_cache() if comes_with_us else default_folder())
        if folder is None:
            return embedded.load(self.name)
        path = folder / f"{self.name}.npz"
        if is_file_here(path):
            return _read_npz(path)
        if entry is None:
            known = {*npz_files(folder), *CATALOGUE}
            hint = did_you_mean(self.name, known)
            if given is None:
                hint += " (set data_dir or MMFL_DATA if it is elsewhere)"
            kind = Path(self.name).suffix.removeprefix(".").lower()
            if kind in ("csv", "parquet", "npz"):
                hint = f'name a file with dataset = {{ kind = "{kind}", path = {self.name!r} }}'
                raise DataError(f"data set {self.name!r} is not known; {hint}")
            raise DataError(f"data set {self.name!r}: {str(folder)!r} has no {path.name}; {hint}")
        if entry.published is None:
            return embedded.load(self.name)
        small = entry.published.small
        raise DataError(
            f"data set {self.name!r}: {str(folder)!r} has no {path.name}; get it with "
            f"`{fetch_command(self.name, folder)}`"
            + (f", or use {small!r}, a subset that comes with mmfl" if small else "")
        )


@component
class Npz:
    """An npz file.

    Attributes:
        path: The file. A relative path is relative to the data folder if one is set (--data-dir or
            MMFL_DATA), else to the folder you run mmfl from.
    """

    path: Text

    def find_file(self, data_dir: str | Path | None) -> Path:
        """Where the file is, or would be."""
        return (wanted_folder(data_dir) or Path()) / self.path

    def bytes_needed(self, data_dir: Path | None) -> int:
        """The least memory that it needs, by the file's headers; 0 = not known."""
        path = (data_folder(data_dir) or Path()) / self.path
        return _read_size(path)

    def load(self, data_dir: Path | None) -> Arrays:
        """Read the file."""
        path = (data_folder(data_dir) or Path()) / self.path
        if not is_file_here(path):
            raise DataError(
                f"data set {str(path)!r} {what_is_wrong(path)}{looked_in(path)}{_hint(path)}"
            )
        return _read_npz(path)


@component
class Synthetic:
    """Gaussian clouds around one random centre per class: for tests, examples and first steps.

    Attributes:
        classes: The number of classes.
        shape: The shape of one example: (features,) or (height, width) or (height, width,
            channels).
        train: Training examples.
        test: Test examples.
        noise: Spread of the clouds; the centres have spread 1. More noise makes the task harder.
        seed: Seed of the data. It does not depend on the experiment's seed.
    """

    classes: Annotated[Count, Field(ge=2)] = 4
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)] = (16,)
    train: Count = 2000
    test: Count = 500
    noise: Annotated[
        float, Strict(), Field(ge=0, le=1e30, allow_inf_nan=False), AfterValidator(abs)
    ] = 1.0
    seed: Natural = 0

    def bytes_needed(self, data_dir: Path | None) -> int:
        """The least memory that it needs, at the time when most of it is held three times."""
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
    """What a user's function returns: `Arrays`, a table of arrays, four arrays, or other data.

    See `Arrays.check` for the table's keys: x_train, y_train, x_test, y_test, or `clients`. Other
    data is what `to_arrays` takes: (x, y), a DataFrame, a torch Dataset.
    """

    function: OwnFunction

    def load(self, data_dir: Path | None) -> Arrays:
        """Call it."""
        found = self.function()
        where = f"data set {self.function.name!r}"
        if isinstance(found, Arrays):
            found = found.to_parts()
        elif isinstance(found, Sequence) and len(found) == len(PARTS):
            found = dict(zip(PARTS, found, strict=True))
        if isinstance(found, Mapping):
            return _check_layout(where, Arrays.check(where, found))
        arrays, notes = to_arrays(found, where)
        for note in notes:
            warn_user(f"{where}: {note}")
        return arrays


DATASETS = Family(
    name="data set",
    table={
        "at_nodes": AtNodes,
        "csv": CsvFile,
        "image_folder": ImageFolder,
        "in_memory": InMemory,
        "named": Named,
        "npz": Npz,
        "parquet": ParquetFile,
        "reduced": Reduced,
        "synthetic": Synthetic,
        "synthetic_regression": SyntheticRegression,
    },
    needs=("load",),
    scalar=("named", "name"),
    function=FromFunction,
    own=_OTHER_FILES,
)


def _check_layout(where: str, arrays: Arrays) -> Arrays:
    """Warn of images that look as torch has them; in files and functions they are not moved."""
    size = arrays.x_train.shape[1:]
    if arrays.x_train.dtype != np.int64 and is_channels_first(size):
        axes = (0, *range(2, len(size) + 1), 1)
        warn_user(
            f"{where}: its examples of shape {size} are taken as height x width x channels; if "
            f"channels come first, return or store x.transpose{axes}"
        )
    return arrays


def _hint(path: Path) -> str:
    """What helps with a file that is not called npz."""
    kind = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}.get(path.suffix.lower())
    if kind is not None:
        return f'; use kind = "{kind}"'
    return "" if path.suffix.lower() == ".npz" else f"; {_OTHER_FILES}"


def _read_size(path: Path) -> int:
    """The bytes of an npz file's arrays, from their headers; 0 if it is not an npz file."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            return sum(head.bytes for head in _read_headers(archive).values())
    except Exception:  # a damaged file can raise nearly anything; reading it says what
        return 0


def _read_headers(archive: zipfile.ZipFile) -> dict[str, Header]:
    """From the name of an array that is read to its head."""
    heads = {}
    for name, member in members(archive, _READ).items():
        with archive.open(member) as file:
            try:
                heads[name] = read_header(file)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return heads


def _read_npz(path: Path) -> Arrays:
    where = f"data set {str(path)!r}"
    try:
        with open_file(path) as file:
            if not zipfile.is_zipfile(file):
                raise DataError(f"{where} is not a valid npz file{_hint(path)}")
            with zipfile.ZipFile(file) as archive:
                refuse([Need(where, sum(head.bytes for head in _read_headers(archive).values()))])
                found = members(archive, _READ)
                parts = {name: read_member(archive, member) for name, member in found.items()}
    except MmflError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything from inside NumPy
        pass_on(error)
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{where} cannot be read: {said}") from None
    return _check_layout(where, Arrays.check(where, parts))
