"""Read a CSV file as a table (RFC 4180): a line of column names, then a line for each row.

The file is UTF-8, with or without a byte order mark. Cells may be in double quotes. Spaces around a
cell do not count; lines without any cell are skipped. Nothing is guessed: a line with too few cells
is refused.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.tables.columns import Column, Table, parse_number
from mmfl.errors import DataError, plural
from mmfl.system.files import TABLE, open_file

__all__ = ["MISSING", "read_csv"]

MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "NULL", "null"))
"""What a cell without a value may hold."""

_CELLS = 1 << 20
"""Cells that are held as text at a time."""

_COLUMNS = 1 << 20
_LINE = 1 << 24  # a longer line is not part of a table, and would be held in memory as a whole

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}

Floats = npt.NDArray[np.float64]


def read_csv(
    path: Path,
    where: str,
    *,
    separator: str = ",",
    text: Callable[[str], bool],
    ignore: Collection[str] = (),
) -> Table:
    """A table from a CSV file; `DataError` says what is wrong, and in which line.

    Args:
        path: The file, which has at most 1 GiB.
        where: What it is called in messages.
        separator: What stands between cells.
        text: Whether the cells of a column of this name are kept as text even if they are numbers.
        ignore: The columns that are not read.
    """
    try:
        with open_file(path, limit=TABLE) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
            return _read(file, where, separator, text, ignore)
    except UnicodeDecodeError:
        raise DataError(f"{where}, {_find_bad_line(path)}") from None
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror}") from None


def _read(
    file: TextIO,
    where: str,
    separator: str,
    text: Callable[[str], bool],
    ignore: Collection[str],
) -> Table:
    reader = csv.reader(_lines(file, where), delimiter=separator, strict=True)
    try:
        header = [cell.strip() for cell in next(filter(None, reader), [])]
        _check_header(header, where, separator, ignore)
        makers = [None if name in ignore else _ColumnMaker(words=text(name)) for name in header]
        lines: list[int] = []
        rows = _rows(reader, header, where, lines)
        while block := list(itertools.islice(rows, max(1, _CELLS // len(header)))):
            for maker, cells in zip(makers, zip(*block, strict=True), strict=True):
                if maker is not None:
                    maker.add(cells)
    except csv.Error as error:
        said = str(error).partition(" - ")[0]
        raise DataError(f"{where}, line {reader.line_num}: {said}") from None
    if not lines:
        raise DataError(f"{where} has no rows, only the names of its columns")
    pairs = zip(header, makers, strict=True)
    columns = {name: maker.column() for name, maker in pairs if maker is not None}
    ignored = frozenset(header) & frozenset(ignore)
    return Table(where, columns, len(lines), np.array(lines, np.int64), ignored)


def _lines(file: TextIO, where: str) -> Iterator[str]:
    """The file's lines, none of which is longer than a table's can be."""
    number = 0
    while line := file.readline(_LINE + 1):
        number += 1
        if len(line) > _LINE:
            raise DataError(f"{where}, line {number}: has more than {_LINE:,} characters")
        if "\0" in line:
            raise DataError(f"{where}, line {number}: holds a zero byte, so it is not text")
        yield line


def _rows(
    reader: Iterator[list[str]], header: Sequence[str], where: str, lines: list[int]
) -> Iterator[list[str]]:
    """The rows that hold anything; notes the line of each."""
    after = reader.line_num  # type: ignore[attr-defined]
    for cells in reader:
        line, after = after + 1, reader.line_num  # type: ignore[attr-defined]
        if not cells:
            continue
        if len(cells) != len(header):
            have, names = plural(len(cells), "cell"), plural(len(header), "column")
            raise DataError(f"{where}, line {line}: has {have}, but line 1 names {names}")
        lines.append(line)
        yield cells


def _check_header(
    header: Sequence[str], where: str, separator: str, ignore: Collection[str]
) -> None:
    if not header:
        raise DataError(f"{where} is empty")
    if len(header) > _COLUMNS:
        raise DataError(f"{where} has {len(header):,} columns; at most {_COLUMNS:,} are allowed")
    if all(parse_number(name) is not None for name in header):
        raise DataError(f"{where}: line 1 must name the columns, got {short(','.join(header))}")
    if len(header) == 1:
        others = [mark for mark in _SEPARATORS if mark != separator and mark in header[0]]
        if others:
            raise DataError(
                f"{where}: its cells are not separated by {_SEPARATORS[separator]}; "
                f"set separator = {short(others[0])}"
            )
    seen: set[str] = set()
    for number, name in enumerate(header, 1):
        if name in ignore:
            continue
        if not name:
            raise DataError(
                f"{where}: column {number} has no name in line 1; name it, or leave it out with "
                'ignore = [""]'
            )
        if name in seen:
            raise DataError(f"{where}: two columns are called {short(name)}; names must differ")
        seen.add(name)


def _find_bad_line(path: Path) -> str:
    """Which line is not UTF-8 text, and what it is instead, if that is known."""
    with open_file(path, limit=TABLE) as file:
        if file.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):  # type: ignore[attr-defined]
            return "line 1: is UTF-16 text; save it as UTF-8"
        number = 0
        while line := file.readline(_LINE):
            number += 1
            try:
                line.decode()
            except UnicodeDecodeError:
                break
    return f"line {number}: is not UTF-8 text; save it as UTF-8"


class _ColumnMaker:
    """A column, block by block: of numbers until a cell is none, of words from the first block."""

    def __init__(self, *, words: bool) -> None:
        self._numbers: list[Floats] = []
        self._places: list[npt.NDArray[np.int64]] = []
        self._words: dict[str, int] = {}
        self._text = words
        self._rows = 0
        self._mixed: tuple[int, str] | None = None

    def add(self, cells: Sequence[str]) -> None:
        """The cells of the next rows."""
        cells = [cell.strip() for cell in cells]
        numbers = None if self._text else _read_numbers(cells)
        if numbers is None and not self._text:
            self._begin_text(cells)
        if numbers is not None:
            self._numbers.append(numbers)
        elif self._mixed is None or not self._numbers:
            self._add_words(cells)
        self._rows += len(cells)

    def _begin_text(self, cells: Sequence[str]) -> None:
        """From here on it is text; what came before was numbers, or empty."""
        self._text = True
        known = [parse_number(cell) for cell in cells]
        had = any(not np.isnan(block).all() for block in self._numbers)
        if had or any(number is not None and number == number for number in known):  # noqa: PLR0124
            row, cell = next(
                (row, cell)
                for row, (cell, number) in enumerate(zip(cells, known, strict=True))
                if number is None and cell not in MISSING
            )
            self._mixed = self._rows + row, cell
        if not had:
            self._places = [np.full(len(block), -1) for block in self._numbers]
            self._numbers = []

    def _add_words(self, cells: Sequence[str]) -> None:
        words = self._words
        self._places.append(
            np.array(
                [-1 if cell in MISSING else words.setdefault(cell, len(words)) for cell in cells],
                np.int64,
            )
        )

    def column(self) -> Column:
        """All of it; a column of numbers and text that was longer than a block holds nothing."""
        if self._numbers and self._mixed is not None:
            nothing = np.zeros(self._rows)
            return Column(nothing, np.zeros(self._rows, bool), (), self._mixed)
        if self._numbers:
            values = np.concatenate(self._numbers)
            return Column(values, np.isnan(values))
        places = np.concatenate(self._places)
        return Column(places, places < 0, tuple(self._words), self._mixed)


def _read_numbers(cells: Sequence[str]) -> Floats | None:
    """Numbers, NaN where there is none; None if a cell holds anything else."""
    if "_" in "".join(cells):
        return None
    try:
        return np.array(list(map(float, cells)))
    except ValueError:
        pass
    try:
        return np.array([float("nan" if cell in MISSING else cell) for cell in cells])
    except ValueError:
        return None
