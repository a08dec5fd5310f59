"""The data sets that are here, or can be fetched: what ``mmfl data list`` shows."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from mmfl.data.arrays import PARTS
from mmfl.data.datasets import fetch_command, npz_files
from mmfl.data.npy import Header, members, read_header, read_member
from mmfl.data.sources.catalogue import CATALOGUE
from mmfl.errors import DataError, did_you_mean
from mmfl.system.files import open_file
from mmfl.system.memory import Need, refuse

__all__ = ["DatasetRow", "files", "find_dataset", "list_datasets"]


@dataclass(frozen=True)
class DatasetRow:
    """What is known of a data set without reading its examples.

    Attributes:
        name: As in ``dataset = "mnist"``.
        train: Training examples; None = cannot be read.
        test: Test examples.
        shape: Of one example.
        classes: How many; None = not known, or real targets.
        where: "embedded", "folder", or the command that fetches it.
        path: Of its file in the data folder.
        licence: As its publisher states it; None = the user's file.
    """

    name: str
    train: int | None
    test: int | None
    shape: tuple[int, ...] | None
    classes: int | None
    where: str
    path: str | None
    licence: str | None


def files(folder: Path) -> dict[str, Path]:
    """The npz files in a folder, by name."""
    return npz_files(folder)


def find_dataset(name: str, folder: Path) -> Path | None:
    """Where a name's data lies: its file, or None if it is embedded; `DataError` if not here."""
    here, entry = files(folder), CATALOGUE.get(name)
    if name in here:
        return here[name]
    if entry is None:
        hint = did_you_mean(name, {*here, *CATALOGUE})
        raise DataError(f"unknown data set {name!r}; {hint}")
    if entry.published is not None:
        raise DataError(
            f"data set {name!r}: {str(folder)!r} has no {name}.npz; "
            f"get it with `{fetch_command(name, folder)}`"
        )
    return None


def list_datasets(folder: Path) -> list[DatasetRow]:
    """Everything in the catalogue and in the folder, the catalogue first."""
    here, rows = files(folder), []
    for name, entry in CATALOGUE.items():
        path = here.pop(name, None)
        where = "embedded" if entry.published is None else fetch_command(name, folder)
        if path is not None:
            rows.append(_row_of_file(name, path, entry.licence))
        else:
            facts = (entry.train, entry.test, entry.shape, entry.classes)
            rows.append(DatasetRow(name, *facts, where, None, entry.licence))
    return rows + [_row_of_file(name, path, None) for name, path in here.items()]


def _row_of_file(name: str, path: Path, licence: str | None) -> DatasetRow:
    """Shapes from the arrays' headers, classes from the labels; the examples are not read."""
    place = ("folder", str(path), licence)
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            found = members(archive, PARTS)
            heads = {name: _read_header(archive, member) for name, member in found.items()}
            train, test = heads["x_train"].shape, heads["x_test"].shape
            refuse([Need("its labels", heads["y_train"].bytes + heads["y_test"].bytes)])
            y = [read_member(archive, found[part]) for part in ("y_train", "y_test")]
        labels = all(part.dtype.kind in "iu" and part.size for part in y)
        classes = max(int(part.max()) for part in y) + 1 if labels else None
        return DatasetRow(name, train[0], test[0], train[1:], classes, *place)
    except Exception:  # a damaged file can raise nearly anything from inside NumPy
        return DatasetRow(name, None, None, None, None, *place)


def _read_header(archive: zipfile.ZipFile, member: str) -> Header:
    with archive.open(member) as file:
        return read_header(file)
