"""Data sets in files that hold a table: a column for the target, and one for the client."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Strict

from mmfl.config import Text, component
from mmfl.data.arrays import Arrays
from mmfl.data.conversion import to_arrays
from mmfl.data.folders import find_input, wanted_folder
from mmfl.data.tables import Advice, Encoder, Roles, Table, read_csv, read_parquet
from mmfl.system.user_code import warn_user

__all__ = ["CsvFile", "ParquetFile"]


def _as_list(value: Any) -> Any:
    """One name as a list of it."""
    return [value] if isinstance(value, str) else value


Names = Annotated[
    tuple[Annotated[str, Strict()], ...],
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]
"""Names of columns, which may be empty; one of them may stand without a list."""

_ADVICE = Advice(
    target='say which column is the target, as in target = "outcome"',
    missing='fill them, or leave out such rows with missing = "drop"',
    text="leave the column out with ignore, or name it in categories",
    mixed="correct it, or leave the column out with ignore, or name it in categories",
    targets='set targets = "classes" or targets = "numbers"',
)


@component
class CsvFile:
    """A CSV file: a line of column names, then a line for each example.

    All columns but those of `target`, `client` and `ignore` are features. A column of text becomes
    one column of 0 and 1 for each of its values. With `client`, the partition is `by_group`, unless
    the task names another.

    Attributes:
        path: The file, UTF-8, at most 1 GiB. A relative path is relative to the data folder if one
            is set (--data-dir or MMFL_DATA), else to the folder you run mmfl from.
        target: The column of targets, or several columns of numbers. By default the one that is
            called target, label, class or y.
        client: The column that says who holds a row; each of its values becomes a client.
        test: A CSV file with the same columns, for the test split; by default a fifth of the rows,
            drawn at random with a fixed seed.
        targets: Whether the targets are "classes" or "numbers"; "auto" means classes for text,
            truth values and whole numbers.
        ignore: Columns that are not used; "" is one without a name.
        categories: Columns that become columns of 0 and 1 even if they hold numbers.
        missing: Whether to "refuse" missing values or to "drop" the rows that have some.
        separator: What stands between two cells.
    """

    path: Text
    target: Names = ()
    client: Text | None = None
    test: Text | None = None
    targets: Literal["auto", "classes", "numbers"] = "auto"
    ignore: Names = ()
    categories: Names = ()
    missing: Literal["refuse", "drop"] = "refuse"
    separator: Literal[",", ";", "\t"] = ","

    def find_files(self, data_dir: str | Path | None) -> list[Path]:
        """Where the files are, or would be."""
        return _find_files(self, data_dir)

    def load(self, data_dir: Path | None) -> Arrays:
        """Read the files; what is repaired is a warning."""
        roles = _roles(self)

        def read(path: Path, where: str) -> Table:
            return read_csv(
                path, where, separator=self.separator, text=roles.keeps_text, ignore=self.ignore
            )

        return _load(self, read, data_dir)


@component
class ParquetFile:
    """A Parquet file: a row for each example. It needs pyarrow: ``pip install 'mmfl[parquet]'``.

    Columns are used as those of a CSV file. The numbers of a DataFrame's rows are left out.

    Attributes:
        path: The file, at most 1 GiB. A relative path is relative to the data folder if one is set
            (--data-dir or MMFL_DATA), else to the folder you run mmfl from.
        target: The column of targets, or several columns of numbers. By default the one that is
            called target, label, class or y.
        client: The column that says who holds a row; each of its values becomes a client.
        test: A Parquet file with the same columns, for the test split; by default a fifth of the
            rows, drawn at random with a fixed seed.
        targets: Whether the targets are "classes" or "numbers"; "auto" means classes for text,
            truth values and whole numbers.
        ignore: Columns that are not used.
        categories: Columns that become columns of 0 and 1 even if they hold numbers.
        missing: Whether to "refuse" missing values or to "drop" the rows that have some.
    """

    path: Text
    target: Names = ()
    client: Text | None = None
    test: Text | None = None
    targets: Literal["auto", "classes", "numbers"] = "auto"
    ignore: Names = ()
    categories: Names = ()
    missing: Literal["refuse", "drop"] = "refuse"

    def find_files(self, data_dir: str | Path | None) -> list[Path]:
        """Where the files are, or would be."""
        return _find_files(self, data_dir)

    def load(self, data_dir: Path | None) -> Arrays:
        """Read the files; what is repaired is a warning."""
        return _load(self, partial(read_parquet, ignore=self.ignore), data_dir)


def _roles(file: CsvFile | ParquetFile) -> Roles:
    """Which column is what."""
    return Roles(
        target=file.target,
        client=file.client,
        ignore=file.ignore,
        categories=file.categories,
        targets=file.targets,
        missing=file.missing,
    )


def _find_files(file: CsvFile | ParquetFile, data_dir: str | Path | None) -> list[Path]:
    folder = wanted_folder(data_dir) or Path()
    return [folder / name for name in (file.path, file.test) if name is not None]


def _load(
    file: CsvFile | ParquetFile, read: Callable[[Path, str], Table], data_dir: Path | None
) -> Arrays:
    """The data set in one table, or in two."""
    paths = [find_input(name, data_dir) for name in (file.path, file.test) if name is not None]
    tables = [read(path, f"data set {str(path)!r}") for path in paths]
    encoder, where = Encoder(_roles(file), _ADVICE), tables[0].where
    arrays, more = to_arrays(encoder.encode(*tables), where)
    for note in [*encoder.notes, *more]:
        warn_user(f"{where}: {note}")
    return arrays
