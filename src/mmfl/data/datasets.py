"""Data sets: what a task learns from. `DATASETS` is the family's table.

An npz file holds `x_train, y_train, x_test, y_test` (and no pickles) under the rules of
`Arrays.check`; so does what a function of yours returns. A bare name in a configuration,
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
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, Strict

from mmfl.config import Count, Family, Natural, OwnFunction, Text, component, short
from mmfl.data import embedded
from mmfl.data.arrays import PARTS, Arrays
from mmfl.data.in_memory import InMemory
from mmfl.data.npy import Header, members, read_header, read_member
from mmfl.data.reduced import Reduced
from mmfl.data.sources import CATALOGUE
from mmfl.errors import DataError, MmflError, did_you_mean
from mmfl.rng import stream
from mmfl.system.files import is_file, is_folder, list_folder, open_file
from mmfl.system.memory import Need, refuse
from mmfl.system.user_code import pass_on

__all__ = [
    "DATASETS",
    "Dataset",
    "FromFunction",
    "Named",
    "Npz",
    "Reduced",
    "Synthetic",
    "data_folder",
    "default_folder",
    "fetch_command",
    "wanted_folder",
]

Labels = npt.NDArray[np.int64]

_READ = (*PARTS, "classes", "groups")
"""The arrays of an npz file that are read."""

_OTHER_FILES = (
    'your own function ("module:function") can read any file (docs/how-to/use-your-own-data.md)'
)


class Dataset(Protocol):
    """Knows where a task's data comes from."""

    def load(self, data_dir: Path | None) -> Arrays:
        """The data, checked; `DataError` if it is missing or malformed."""
        ...


def data_folder(data_dir: str | Path | None) -> Path | None:
    """The folder of npz files: as given, or else what MMFL_DATA says."""
    path = wanted_folder(data_dir)
    if path is not None and not _is_folder(path):
        given = "data_dir" if data_dir is not None else "MMFL_DATA"
        raise DataError(
            f"the data folder {str(path)!r} {_what_is_wrong(path)} (it was set by {given}); name "
            "another with data_dir or MMFL_DATA"
        )
    return path


def wanted_folder(data_dir: str | Path | None) -> Path | None:
    """The folder that is given, or that MMFL_DATA names, whether it exists or not."""
    folder = data_dir if data_dir is not None else os.environ.get("MMFL_DATA") or None
    return None if folder is None else _expand_home(folder)


def default_folder() -> Path:
    """Where names are looked up, and fetched to, if no data folder is set: mmfl's own cache."""
    return _expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mmfl"


def _cache() -> Path | None:
    """`default_folder`, or None where the user has no home."""
    try:
        return default_folder()
    except DataError:
        return None


def _expand_home(folder: str | Path) -> Path:
    """With the user's home in place of ``~``; an empty HOME counts as not set."""
    path = Path(folder)
    try:
        if path.parts[:1] == ("~",) and os.environ.get("HOME") == "" and os.name == "posix":
            import pwd  # Python would take an empty HOME for the root of the file system

            return Path(pwd.getpwuid(os.getuid()).pw_dir, *path.parts[1:])
        return path.expanduser()
    except (RuntimeError, KeyError):  # HOME is not set, and the system does not know this user
        raise DataError(
            f"the data folder {str(folder)!r} is in a home folder, but none is known; set HOME, or "
            "name another data folder with data_dir or MMFL_DATA"
        ) from None


def npz_files(folder: Path) -> dict[str, Path]:
    """The npz files in a folder, by name; none if it cannot be listed."""
    try:
        paths = list_folder(folder)
    except OSError:
        return {}
    return {path.stem: path for path in paths if path.suffix == ".npz" and _is_file(path)}


def fetch_command(name: str, folder: Path) -> str:
    """What a user types to fetch a data set into a folder."""
    usual = wanted_folder(None) or _cache()
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
        folder = data_folder(data_dir) or _cache()
        return 0 if folder is None else _read_size(folder / f"{self.name}.npz")

    def load(self, data_dir: Path | None) -> Arrays:
        """Find it and read it."""
        given = data_folder(data_dir)
        entry = CATALOGUE.get(self.name)
        comes_with_us = entry is not None and entry.published is None
        folder = given or (_cache() if comes_with_us else default_folder())
        if folder is None:
            return embedded.load(self.name)
        path = folder / f"{self.name}.npz"
        if _is_file(path):
            return _read_npz(path)
        if entry is None:
            known = {*npz_files(folder), *CATALOGUE}
            hint = did_you_mean(self.name, known)
            if given is None:
                hint += " (set data_dir or MMFL_DATA if it is elsewhere)"
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
        if not _is_file(path):
            raise DataError(
                f"data set {str(path)!r} {_what_is_wrong(path)}{_looked_in(path)}{_hint(path)}"
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
    """What a user's function returns: `Arrays`, a table of arrays, or four arrays.

    See `Arrays.check` for the table's keys: x_train, y_train, x_test, y_test, or `clients`.
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
                f"{where} must return x_train, y_train, x_test, y_test, or a dictionary of them, "
                f"got {short(found)}"
            )
        return Arrays.check(where, found)


DATASETS = Family(
    name="data set",
    table={
        "in_memory": InMemory,
        "named": Named,
        "npz": Npz,
        "reduced": Reduced,
        "synthetic": Synthetic,
    },
    needs=("load",),
    scalar=("named", "name"),
    function=FromFunction,
    own=_OTHER_FILES,
)


def _is_file(path: Path) -> bool:
    try:
        return is_file(path)
    except OSError:  # a name too long
        return False


def _is_folder(path: Path) -> bool:
    try:
        return is_folder(path)
    except OSError:
        return False


def _what_is_wrong(path: Path) -> str:
    if _is_file(path):
        return "is a file"
    return "is a folder" if _is_folder(path) else "does not exist"


def _looked_in(path: Path) -> str:
    return "" if path.is_absolute() else f" in {str(Path.cwd())!r}"


def _hint(path: Path) -> str:
    """What helps with a file that is not called npz."""
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
    return Arrays.check(where, parts)
