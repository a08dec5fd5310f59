"""Read bids from CSV files, and write awards to CSV files.

A table of bids has a line of column names and then a line for each client:

    client,mnist,fashion
    anna,0.25,0.4
    bert,,0.3

An empty cell (or inf) means unwilling. The first column names the clients if it is called client,
clients, user, id or name (or nothing); otherwise all columns are tasks and clients are numbered
from 0. A column that names clients by whole numbers gives whole numbers. Blank lines are allowed
only at the end. Nothing is repaired: a cell that breaks a rule is an `InputError` that names line,
column, value and rule. A file may be at most 1 GiB, and a line at most 16 MiB.

Large files are read in blocks by NumPy's parser; only a block that it refuses, or that holds
quotes, goes cell by cell through Python's csv module, which also finds what was wrong.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from mmfl.config import Text, component, short
from mmfl.errors import InputError, plural
from mmfl.market.bids import Bids, Floats
from mmfl.market.recruitment import Recruitment
from mmfl.system.files import TABLE, new_file, open_file

__all__ = ["Csv", "read_bids", "write_awards", "write_rows"]

_NAMES = ("client", "clients", "user", "id", "name", "")
_BLOCK = 1 << 23
_LINE = 1 << 24  # a longer line is not part of a table, and would be held in memory as a whole
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.I | re.A)
_HUGE = re.compile(r"e\+?\d{3}|\d{200}", re.I | re.A)  # whatever a float cannot hold has this
_WHOLE = re.compile(r"((0|[1-9]\d{0,17})\n)+", re.A)  # whole numbers, each on a line
_HINT = "; a first column that names clients must be called client, clients, user, id or name"
_OTHER_SEPARATOR = re.compile(r'^[^"]*\S[;\t|]')  # a name in quotes may hold anything
_RULE = "must be a number >= 0, or empty (or inf) if the client is unwilling"


@component
class Csv:
    """Bids from a CSV file; see `read_bids`.

    Attributes:
        path: The file; relative paths are relative to the current folder.
    """

    path: Text

    def read(self) -> Bids:
        """The table."""
        return read_bids(self.path, pipes=False)


def read_bids(path: str | Path, *, pipes: bool = True) -> Bids:
    """Read a table of bids from a CSV file; the error for a mistake says where it is.

    Args:
        path: The file.
        pipes: Whether it may be a pipe, which can be read only once.
    """
    try:
        with open_file(path, limit=TABLE, pipes=pipes) as file:
            return _read(file, Path(path).name)
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None


def _read(file: BinaryIO, name: str) -> Bids:
    start = file.readline(_LINE + 1)
    if len(start) > _LINE:
        raise _too_long(name, 1)
    header = _read_header(_text(start.removeprefix(b"\xef\xbb\xbf"), name, 1), name)
    named = header[0].casefold() in _NAMES
    tasks = tuple(header[named:])
    if not tasks:
        raise InputError(f"{name}, line 1: has no task columns, only {header[0]!r}")
    for place, task in enumerate(tasks):
        if not task:
            raise InputError(f"{name}, line 1: column {place + named + 1} has no name")
        if task in tasks[:place]:
            raise InputError(f"{name}, line 1: two columns are called {task!r}; names must differ")
    table = _Table(name, header, named)
    line = 2
    for block in _blocks(file, name, TABLE - len(start)):
        line += table.add(block, line)
    if line == 2:
        raise InputError(f"{name}: has no bids; after line 1 there must be a line for each client")
    return Bids(table.values(), table.clients(), tasks)


def _read_header(first: str, name: str) -> list[str]:
    """The names of the columns, from the first line."""
    try:
        header = [cell.strip() for cell in next(csv.reader([first], strict=True), [])]
    except csv.Error as error:
        raise InputError(f"{name}, line 1: {_plain(error)}") from None
    if not any(header):
        raise InputError(f"{name}, line 1: must name the columns, such as client,task a,task b")
    if all(_NUMBER.fullmatch(cell) or not cell for cell in header):
        raise InputError(
            f"{name}, line 1: must name the columns, such as client,task a,task b, "
            f"got {short(first.strip())}"
        )
    if len(header) == 1 and _OTHER_SEPARATOR.search(first):
        rule = "columns must be separated by commas"
        raise InputError(f"{name}, line 1: {rule}, got {short(first.strip())}")
    return header


class _Table:
    """What has been read so far."""

    def __init__(self, name: str, header: Sequence[str], named: bool) -> None:
        self._name, self._header, self._named = name, header, named
        self._values: list[Floats] = []
        self._ids: list[str] = []
        self._longer: list[int] = []  # rows that go on over a line break, once for each

    def add(self, block: bytes, line: int) -> int:
        """Read whole lines, of which the first is number `line`; returns how many there are."""
        text = _text(block, self._name, line)
        rows = text.split("\n")[:-1]
        ids = [row.partition(",")[0].strip() for row in rows] if self._named else []
        odd = '"' in text or "\r" in text or not all(ids)
        values = None if odd else self._fast(text, len(rows))
        if values is None:
            values = self._slowly(text, line)
        else:
            self._ids += ids
        self._values.append(values)
        return len(rows)

    def values(self) -> Floats:
        tasks = len(self._header) - self._named
        return np.concatenate(self._values) if self._values else np.empty((0, tasks))

    def clients(self) -> Sequence[Any]:
        if not self._named:
            return ()
        if len(set(self._ids)) != len(self._ids):
            seen: dict[str, int] = {}
            for row, client in enumerate(self._ids):
                line = 2 + row + bisect_left(self._longer, row)
                if client in seen:
                    raise InputError(
                        f"{self._name}, line {line}: client {client!r} already appears in "
                        f"line {seen[client]}"
                    )
                seen[client] = line
        if not self._longer and _WHOLE.fullmatch("\n".join([*self._ids, ""])):
            return list(map(int, self._ids))
        return self._ids

    def _fast(self, text: str, rows: int) -> Floats | None:
        """The block's numbers by NumPy's parser; None if it holds anything out of the ordinary."""
        filled = text if self._named else f"\n{text}".replace("\n,", "\ninf,")[1:]
        filled = filled.replace(",,", ",inf,").replace(",,", ",inf,").replace(",\n", ",inf\n")
        columns = range(int(self._named), len(self._header))
        commas = (len(self._header) - 1) * rows
        if text.count(",") != commas:
            return None
        try:
            values = np.loadtxt(
                io.StringIO(filled), delimiter=",", comments=None, usecols=columns, ndmin=2
            )
        except ValueError:
            return None
        sound = len(values) == rows and not (np.isnan(values).any() or (values < 0).any())
        inserted = (len(filled) - len(text)) // len("inf")
        if np.isinf(values).sum() > inserted and _HUGE.search(text):  # such as 1e400
            return None
        return values if sound else None

    def _slowly(self, text: str, line: int) -> Floats:
        """The block's numbers cell by cell, or the sentence about the first that is wrong."""
        reader = csv.reader(io.StringIO(text), strict=True)
        values = []
        before = 0
        try:
            for cells in reader:
                here, before = line + before, reader.line_num
                values.append(self._row(cells, here))
                self._longer += [len(self._ids) - 1] * (line + before - here - 1)
        except csv.Error as error:
            raise InputError(f"{self._name}, line {line + before}: {_plain(error)}") from None
        return np.array(values).reshape(len(values), -1)

    def _row(self, cells: Sequence[str], line: int) -> list[float]:
        where = f"{self._name}, line {line}"
        if not cells:
            raise InputError(f"{where}: is empty; every line after the first is a client")
        if len(cells) != len(self._header):
            cells_, columns = plural(len(cells), "cell"), plural(len(self._header), "column")
            raise InputError(f"{where}: has {cells_}, but line 1 names {columns}")
        if self._named:
            if not cells[0].strip():
                raise InputError(f"{where}: names no client in column {self._header[0]!r}")
            self._ids.append(cells[0].strip())
        who = f" (client {self._ids[-1]!r})" if self._named else ""
        row: list[float] = []
        for cell, column in zip(cells[self._named :], self._header[self._named :], strict=True):
            plain = cell.strip()
            number = math.inf if not plain else math.nan
            if found := _NUMBER.fullmatch(plain):
                number = float(plain)
            too_large = math.isinf(number) and found is not None and found[1] is not None
            if too_large or not number >= 0:
                hint = _HINT if math.isnan(number) and not row and not self._named else ""
                raise InputError(
                    f"{where}, column {column!r}{who}: {_RULE}, got {short(plain)}{hint}"
                )
            row.append(number)
        return row


def _too_long(name: str, line: int, rule: str = "") -> InputError:
    return InputError(f"{name}, line {line}: has more than {_LINE:,} bytes{rule}")


def _blocks(file: BinaryIO, name: str, limit: int) -> Iterator[bytes]:
    """Whole lines, many at a time, ended by line feeds; blank lines at the end are dropped.

    Args:
        file: The file, read from the second line on.
        name: The file's name, for messages.
        limit: The most bytes to read: a pipe does not say how many it has.
    """
    rest = b""
    line = 2  # the number of the first line in `rest`
    waiting = b""  # lines are held back until more follows, since blank ones may be the last
    while data := file.read(_BLOCK):
        rest += data
        limit -= len(data)
        if limit < 0:
            raise OSError(errno.EFBIG, f"it has more than {TABLE:,} bytes")
        cut = rest.rfind(b"\n") + 1
        if cut and rest.count(b'"', 0, cut) % 2 == 0:  # no quoted cell is cut in two
            if filled := waiting.rstrip(b"\r\n"):
                end = waiting.index(b"\n", len(filled)) + 1
                yield waiting[:end]
                waiting = waiting[end:]
            line += rest.count(b"\n", 0, cut)
            waiting, rest = waiting + rest[:cut].replace(b"\r\n", b"\n"), rest[cut:]
        if len(rest) > _LINE:
            raise _too_long(name, line, ", or a quote in it has no end" if b'"' in rest else "")
    last = (waiting + rest.replace(b"\r\n", b"\n")).rstrip(b"\r\n")
    if last:
        yield last + b"\n"


def _plain(error: csv.Error) -> str:
    """What the csv module says, without its advice to programmers."""
    return str(error).partition(" - ")[0]


def _text(block: bytes, name: str, line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        raise InputError(f"{name}, line {line}: is not UTF-8 text") from None


def write_awards(outcome: Recruitment, path: str | Path) -> None:
    """Write the winners: a line for each client and task with x > 0.

    Columns: client, task, bid, participation, payment, in the order of tasks and of joining. A file
    that exists is replaced.
    """
    try:
        with new_file(Path(path), replace=True) as file:
            write_rows(outcome, file)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None


def write_rows(outcome: Recruitment, file: TextIO) -> None:
    """Write what `write_awards` writes into an open file."""
    table = outcome.bids
    writer = csv.writer(file)
    writer.writerow(["client", "task", "bid", "participation", "payment"])
    for s, task in enumerate(table.tasks):
        part = outcome.fractional[s]
        rows = outcome.winners[s].tolist() + ([part.user] if part else [])
        columns = (table.values, outcome.participation, outcome.payment)
        cells = zip(*(column[rows, s].tolist() for column in columns), strict=True)
        for row, numbers in zip(rows, cells, strict=True):
            writer.writerow([table.clients[row], task, *map(repr, numbers)])
