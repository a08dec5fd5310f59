"""Is a run's database what the run wrote? All rows are read once, before anybody uses them.

First SQLite checks its own file, then every value must be of its column's type and in its range,
rounds must be complete, and everything must match its digest (`mmfl.runs.integrity.digests`).
Databases of older formats have no digests: of these only the values can be checked.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from mmfl.config import short
from mmfl.errors import StoreError
from mmfl.runs.integrity.digests import (
    DIGEST,
    Row,
    digest_auction,
    digest_meta,
    digest_round,
    digest_tasks,
)
from mmfl.runs.schema import DIGESTED
from mmfl.system import calls

__all__ = ["check_rows"]


_TYPES: dict[str, type] = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}
_FREE = {("failure", "detail"), ("meta", "value"), ("task", "description")}
"""Texts that may hold anything; all others are words."""

_WHOLE = {"rounds": 18}
"""Whole numbers, and how many digits they may have."""

_NUMBERS = ("seconds_setup", "seconds_checkpoints")
_HASHES = ("fingerprint", "digest_tasks", "digest_auction", DIGEST)
_HASH = re.compile(r"[0-9a-f]{64}")


def check_rows(database: sqlite3.Connection, format: str) -> str:  # noqa: A002
    """What does not match its digest, as a clause; "" if all does, or there are no digests.

    A database whose structure or values make no sense raises `StoreError`, with a clause.

    Args:
        database: With the tables of a run.
        format: That of its tables; see `check_tables`.
    """
    told = calls.execute(database, "PRAGMA integrity_check(1)").fetchall()
    if told != [("ok",)]:
        first = str(told[0][0]) if told else "no answer"
        raise StoreError(f"SQLite reports that it is damaged ({' '.join(first.split())})")
    reader = _Reader(database)
    meta: dict[str, str] = dict(reader.read("meta"))
    _check_meta(meta)
    tasks = list(reader.read("task"))
    if [row[0] for row in tasks] != list(range(len(tasks))):
        raise StoreError("its tasks are not numbered from 0")
    if any(row[3] not in ("higher", "lower") for row in tasks):
        raise StoreError("table task: better must be 'higher' or 'lower'")
    reader.tasks = len(tasks)
    damage = _mismatches(reader, meta, tasks)
    if format not in DIGESTED:  # there are none, but it has read everything
        return ""
    if meta.get("format") != format:
        damage.insert(0, f"its format is {meta.get('format')!r}, but its tables are of {format!r}")
    return damage[0] if damage else ""


def _mismatches(reader: _Reader, meta: dict[str, str], tasks: list[Row]) -> list[str]:
    """What does not match its digest."""
    found = []
    before, last = digest_tasks(meta.get("token", ""), tasks), None
    if meta.get("digest_tasks") != before:
        found.append("table task does not match its hash")
    if meta.get("digest_auction") != digest_auction(reader.read("auction"), reader.read("award")):
        found.append("the auction does not match its hash")
    for whole, *others in _rounds(reader):
        *row, stored = whole
        if stored != digest_round(before, row, *others):
            found.append(f"round {row[0]} does not match its hash")
        before, last = stored, [row[0], stored]
    if meta.get(DIGEST) != digest_meta(meta, last):
        found.append("table meta does not match its hash")
    return found


class _Reader:
    """Rows of tables, in the order in which they were written, each value checked.

    Attributes:
        tasks: How many tasks there are; none may have a higher number.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.tasks = 0

    def read(self, table: str) -> Iterator[Row]:
        """All rows of a table; none if an older format does not have it."""
        about = calls.execute(self._database, f"PRAGMA table_info({table})").fetchall()
        columns = [
            _Column(table, name, kind, nullable=not required and not key, tasks=self.tasks)
            for _, name, kind, required, _, key in about
        ]
        if not columns:
            return
        types = [column.type for column in columns]
        checked = [(n, column) for n, column in enumerate(columns) if column.has_rules]
        for row in calls.execute(self._database, f"SELECT * FROM {table} ORDER BY rowid"):
            if [*map(type, row)] != types:
                for column, value in zip(columns, row, strict=True):
                    column.check_type(value)
            for n, column in checked:
                value = row[n]
                if value not in column.seen:
                    column.check(value)
            yield row


class _Column:
    """What the values of a column may be.

    Attributes:
        type: Their Python type.
        has_rules: Whether not all values of this type will do.
        seen: Values that will do.
    """

    def __init__(self, table: str, name: str, kind: str, *, nullable: bool, tasks: int) -> None:
        self.type = _TYPES[kind]
        self.seen: set[Any] = set()
        self._what = f"table {table}: {name}"
        self._kind = kind
        self._nullable = nullable
        self._word = kind == "TEXT" and (table, name) not in _FREE
        self._range = (1 if name == "round" else 0, tasks - 1 if name == "task" else math.inf)
        counted = kind == "INTEGER" and name != "client"
        self._finite = kind == "REAL" and not nullable  # a loss may be infinite
        self.has_rules = self._word or counted or self._finite

    def check_type(self, value: Any) -> None:
        """Refuse a value of another type."""
        given = type(value)
        if given is not self.type and not (value is None and self._nullable):
            raise StoreError(f"{self._what} must be {self._kind}, got {short(value)}")

    def check(self, value: Any) -> None:
        """Refuse a value of the right type that will not do."""
        if self._word:
            if not (value.isprintable() and 0 < len(value) <= 300):
                raise StoreError(f"{self._what} must be a word, got {short(value)}")
        elif self._finite:
            if not math.isfinite(value):
                raise StoreError(f"{self._what} must be finite, got {value}")
            return
        elif not self._range[0] <= value <= self._range[1]:
            least, most = self._range
            raise StoreError(f"{self._what} must be from {least} to {most}, got {value}")
        if len(self.seen) < 1000:
            self.seen.add(value)


def _rounds(reader: _Reader) -> Iterator[tuple[Row, list[Row], list[Row], list[Row]]]:
    """Each round with its rows in round_task, failure and fault."""
    others = {table: _Grouped(reader.read(table)) for table in ("round_task", "failure", "fault")}
    number = 0
    for number, row in enumerate(reader.read("round"), 1):
        if row[0] != number:
            raise StoreError(f"round {number} is missing, but there are later ones")
        if not _HASH.fullmatch(row[7]):
            raise StoreError(f"round {number}: chain must be a SHA-256, got {short(row[7])}")
        found = [group.take(number) for group in others.values()]
        if [row[1] for row in found[0]] != list(range(reader.tasks)):
            raise StoreError(f"round {number} does not have one row per task in table round_task")
        yield row, found[0], found[1], found[2]
    for table, group in others.items():
        if group.left is not None:
            raise StoreError(f"table {table} has rows that are out of order, or of a missing round")


class _Grouped:
    """Rows that come round by round.

    Attributes:
        left: The next row; None at the end.
    """

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.left = next(rows, None)

    def take(self, number: int) -> list[Row]:
        """The next rows, as long as they are of this round."""
        found = []
        while self.left is not None and self.left[0] == number:
            found.append(self.left)
            self.left = next(self._rows, None)
        return found


def _check_meta(meta: dict[str, str]) -> None:
    """Refuse entries that cannot be what they are."""
    if not re.fullmatch(r"[a-z ]{1,40}", meta.get("status", "running")):
        raise StoreError(f"meta.status must be a word, got {short(meta['status'])}")
    if "host" in meta and "pid" not in meta:
        raise StoreError("meta has a host, but no pid")
    for key, most in _WHOLE.items():
        if not re.fullmatch(rf"[0-9]{{1,{most}}}", meta.get(key, "0")):
            raise StoreError(f"meta.{key} must be a whole number, got {short(meta[key])}")
    for key in _NUMBERS:
        if key in meta and not _is_number(meta[key]):
            raise StoreError(f"meta.{key} must be a number, got {short(meta[key])}")
    for key in _HASHES:
        if key in meta and not _HASH.fullmatch(meta[key]):
            raise StoreError(f"meta.{key} must be a SHA-256, got {short(meta[key])}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
