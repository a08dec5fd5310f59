"""From a table to a data set: features, targets and clients.

Columns of numbers and truth values are features as they are. A column of text becomes one column of
0 and 1 for each of its values. Targets that are text, truth values or whole numbers are classes;
other numbers make the task a regression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.tables.columns import Column, Table, is_number
from mmfl.errors import DataError, did_you_mean, plural
from mmfl.system.memory import Need, refuse

__all__ = ["Advice", "Encoder", "Roles", "number_clients"]

TARGETS = ("target", "label", "class", "y")
"""What a column of targets may be called if nobody names it."""

CLASSES = 100
"""How many values a column of text, or a target of whole numbers, may have unless it is named."""

_MOST = 10_000
"""How many values a column may have that is named as one of categories."""

_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")

_LARGEST = float(np.finfo(np.float32).max)

Anything = npt.NDArray[Any]


@dataclass(frozen=True)
class Roles:
    """Which column is what.

    Attributes:
        target: The columns of targets; none = the one that is called target, label, class or y.
        client: The column that says who holds a row.
        ignore: Columns that are not used.
        categories: Columns that become columns of 0 and 1 even if they hold numbers.
        targets: What the targets are.
        missing: What to do about rows with missing values.
    """

    target: tuple[str, ...] = ()
    client: str | None = None
    ignore: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    targets: Literal["auto", "classes", "numbers"] = "auto"
    missing: Literal["refuse", "drop"] = "refuse"

    def keeps_text(self, name: str) -> bool:
        """Whether a column of this name is needed as text, as a file has it."""
        if name == self.client or name in self.categories:
            return True
        return name in self.target if self.target else name.lower() in TARGETS


@dataclass(frozen=True)
class Advice:
    """What helps with a table, as clauses; it depends on where the table is from.

    Attributes:
        target: If it is not known which column is the target.
        missing: With missing values.
        text: With a column that cannot become features.
        mixed: With numbers and text in a column of features.
        targets: With targets that may be classes or numbers.
    """

    target: str
    missing: str
    text: str
    mixed: str
    targets: str


class Encoder:
    """Makes a data set of one table, or of two.

    Args:
        roles: Which column is what.
        advice: What helps with these tables.

    Attributes:
        notes: A sentence for each thing that was repaired.
    """

    def __init__(self, roles: Roles, advice: Advice) -> None:
        self._roles, self._advice = roles, advice
        self.notes: list[str] = []

    def encode(self, train: Table, test: Table | None = None) -> dict[str, Any]:
        """The parts of a data set, as `Arrays.check` takes them.

        Args:
            train: The training data, or all data.
            test: The test data, with the same columns.
        """
        targets, client = self.find_targets(train), self._roles.client
        own = {*targets, *self._roles.ignore, client}
        features = [name for name in train.columns if name not in own]
        if not features:
            raise DataError(f"{train.where} has no feature columns")
        used = [*features, *targets]
        tables = [self.drop_rows(train, [*used, *([client] if client is not None else [])])]
        if test is not None:
            for name in used:
                if name not in test.columns:
                    raise DataError(f"{test.where} has no column {short(name)}")
            tables.append(self.drop_rows(test, used))
        parts = self.encode_targets(tables, targets)
        words = self.find_words(tables, features)
        parts |= _name_parts("x", self.encode_features(tables, words))
        parts["features"] = list(words.items())
        if client is not None:
            parts |= number_clients(tables[0], client)
        return parts

    def find_targets(self, table: Table) -> tuple[str, ...]:
        """The columns of targets; all columns that were named must be there."""
        roles = self._roles
        client = [] if roles.client is None else [roles.client]
        for name in (*roles.target, *client, *roles.categories, *roles.ignore):
            if name not in table.columns and name not in table.ignored:
                known = did_you_mean(name, [*table.columns, *table.ignored])
                raise DataError(f"{table.where} has no column {short(name)}; {known}")
        for name in (*roles.target, *client):
            if name in roles.ignore:
                raise DataError(
                    f"{table.where}: column {short(name)} is the target or the client, and cannot "
                    "be in ignore"
                )
        if roles.target:
            twice = next((name for name in roles.target if roles.target.count(name) > 1), None)
            if twice is not None:
                raise DataError(f"{table.where}: target names column {short(twice)} twice")
            return roles.target
        named = tuple(name for name in table.columns if name.lower() in TARGETS)
        if len(named) != 1:
            raise DataError(f"{table.where}: {self._advice.target}")
        return named

    def drop_rows(self, table: Table, used: Iterable[str]) -> Table:
        """Without rows that have missing values, if that is wanted; else they are refused."""
        empty = np.zeros(table.rows, bool)
        for name in used:
            column = table.columns[name]
            if column.mixed is not None and not column.words:  # its cells are not known
                raise self._refuse_mixed(table, name)
            missing = column.missing
            if self._roles.missing == "refuse" and missing.any():
                count = plural(int(missing.sum()), "missing value")
                first = table.place(int(missing.argmax()))
                raise DataError(
                    f"{table.where}: column {short(name)} has {count}, the first in {first}; "
                    f"{self._advice.missing}"
                )
            empty |= missing
        if not empty.any():
            return table
        if empty.all():
            raise DataError(f"{table.where}: every row has a missing value")
        self.notes.append(
            f"{int(empty.sum()):,} of {plural(table.rows, 'row')} have missing values and are "
            "left out"
        )
        return table.take(np.flatnonzero(~empty))

    def find_words(
        self, tables: Sequence[Table], names: Sequence[str]
    ) -> dict[str, list[str] | None]:
        """From column to the values that become columns of 0 and 1; None if it stays as it is."""
        return {name: self._find_words(tables, name) for name in names}

    def encode_features(
        self, tables: Sequence[Table], words: Mapping[str, list[str] | None]
    ) -> list[Anything]:
        """The features of each table, a row per row.

        Args:
            tables: The tables.
            words: By column: the values that become columns of 0 and 1; None if it stays as it is.
        """
        width = sum(1 if known is None else len(known) for known in words.values())
        refuse([Need(tables[0].where, 4 * width * sum(table.rows for table in tables))])
        made: list[Anything] = []
        for table in tables:
            x, place = np.zeros((table.rows, width), np.float32), 0
            for name, known in words.items():
                if known is None:
                    x[:, place] = self._read_numbers(table, name)
                else:
                    x[np.arange(table.rows), place + _find_places(table.columns[name], known)] = 1
                place += 1 if known is None else len(known)
            made.append(x)
        texts = [f"{name} ({len(known)})" for name, known in words.items() if known is not None]
        if texts:
            more = f" and {len(texts) - 6} more" if len(texts) > 6 else ""
            self.notes.append(
                f"each value of these columns becomes a column of 0 and 1: "
                f"{', '.join(texts[:6])}{more}"
            )
        return made

    def _find_words(self, tables: Sequence[Table], name: str) -> list[str] | None:
        """The values of a column that becomes columns of 0 and 1; None if it stays as it is."""
        named, where = name in self._roles.categories, f"{tables[0].where}: column {short(name)}"
        columns = [table.columns[name] for table in tables]
        for table, column in zip(tables, columns, strict=True):
            if column.kind:
                raise DataError(
                    f"{table.where}: column {short(name)} holds {column.kind}, not numbers; "
                    f"{self._advice.text}"
                )
            if column.mixed is not None and not named:
                raise self._refuse_mixed(table, name)
        real = [column.parsed.words is None for column in columns]
        if all(real) and not named:
            return None
        if any(real) and not named:
            raise DataError(f"{where} holds text in one of the two tables and numbers in the other")
        known = _join_words(columns)
        if not named:
            _refuse_commas(where, known)
        most = _MOST if named else CLASSES
        if len(known) > most:
            raise DataError(
                f"{where} holds text with {len(known):,} different values, such as "
                f"{short(known[0])}; {self._advice.text}"
            )
        return known

    def _refuse_mixed(self, table: Table, name: str) -> DataError:
        """The error for a column of features that holds numbers and text."""
        mixed = table.columns[name].mixed
        assert mixed is not None
        row, cell = mixed
        return DataError(
            f"{table.where}: column {short(name)} holds numbers, but {short(cell)} in "
            f"{table.place(row)}; {self._advice.mixed}"
        )

    def _read_numbers(self, table: Table, name: str) -> Anything:
        """A column of numbers that float32 can hold."""
        column = table.columns[name].parsed
        if column.words is not None:
            wrong = np.flatnonzero([not is_number(word) for word in column.words])
            row = int(np.isin(column.values, wrong).argmax())
            raise DataError(
                f"{table.where}: column {short(name)} must hold numbers, but "
                f"{table.place(row)} has {short(column.words[column.values[row]])}"
            )
        values = column.values.astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(values) <= _LARGEST))
        if len(wrong):
            raise DataError(
                f"{table.where}: column {short(name)} must hold finite numbers up to "
                f"{_LARGEST:.1e}, but {table.place(int(wrong[0]))} has {values[wrong[0]]:g}"
            )
        return values.astype(np.float32)

    def encode_targets(self, tables: Sequence[Table], names: tuple[str, ...]) -> dict[str, Any]:
        """The targets of each table; with the names of the classes, if these are text."""
        for table in tables:
            if kind := table.columns[names[0]].kind:
                raise DataError(
                    f"{_target(table, names[0])} must hold classes or numbers, not {kind}"
                )
        columns = [table.columns[names[0]].parsed for table in tables]
        if len(names) > 1 or not self._are_classes(tables, names[0]):
            rows = [
                np.stack([self._read_numbers(table, name) for name in names], axis=1)
                for table in tables
            ]
            return _name_parts("y", [row if len(names) > 1 else row[:, 0] for row in rows])
        known = _join_words(columns)
        if self._roles.targets == "auto":
            _refuse_commas(_target(tables[0], names[0]), known)
        if len(known) == 1:
            raise DataError(
                f"{_target(tables[0], names[0])} has the same value in every row, "
                f"{short(known[0])}, so there is nothing to learn"
            )
        if all(column.words is None and column.values.dtype.kind in "iu" for column in columns):
            return _name_parts("y", [column.values for column in columns])
        if known != ["False", "True"]:
            few = ", ".join(known[:6]) + (f", ... {known[-1]}" if len(known) > 6 else "")
            self.notes.append(f"classes are numbered in this order: {few}")
        made = [_find_places(column, known) for column in columns]
        truth = known == ["False", "True"]
        return _name_parts("y", made) | {"classes": [False, True] if truth else known}

    def _are_classes(self, tables: Sequence[Table], name: str) -> bool:
        """Whether the targets of a column are classes."""
        if self._roles.targets != "auto":
            return self._roles.targets == "classes"
        columns = [table.columns[name].parsed for table in tables]
        for table, column in zip(tables, columns, strict=True):
            words = column.words or ()
            text = [not is_number(word) for word in words]
            if any(text) and not all(text):
                row = int(np.isin(column.values, np.flatnonzero(text)).argmax())
                raise DataError(
                    f"{_target(table, name)} holds numbers, but "
                    f"{short(words[column.values[row]])} in {table.place(row)}; correct it, or "
                    f"{self._advice.targets}"
                )
        real = [column.words is None and column.values.dtype.kind == "f" for column in columns]
        if any(real):
            return False
        known = _join_words(columns)
        if len(known) > CLASSES:
            raise DataError(
                f"{_target(tables[0], name)} has {len(known):,} different values, which may be "
                f"classes or numbers; {self._advice.targets}"
            )
        return True


def number_clients(table: Table, name: str) -> dict[str, Any]:
    """The client of each row by its number, and the names of the clients in their order."""
    column = table.columns[name].texts
    return {"groups": column.values.astype(np.int64), "group_names": column.words}


def _target(table: Table, name: str) -> str:
    return f"{table.where}: the target column {short(name)}"


def _refuse_commas(where: str, words: Sequence[str]) -> None:
    """Refuse texts that are numbers to people who write 0,5 or 1,000."""
    if words and all(map(_WITH_COMMA.fullmatch, words)):
        raise DataError(
            f"{where} holds numbers with a comma, such as {short(words[0])}; write them with a "
            "point, as in 0.5"
        )


def _name_parts(letter: str, values: Sequence[Anything]) -> dict[str, Any]:
    """Those of the training data, and of the test data if there is any."""
    return dict(zip((f"{letter}_train", f"{letter}_test"), values, strict=False))


def _join_words(columns: Sequence[Column]) -> list[str]:
    """The different values of columns, as text."""
    if len(columns) == 1:
        return list(columns[0].texts.words or ())
    return sorted({word for column in columns for word in column.texts.words or ()})


def _find_places(column: Column, known: Sequence[str]) -> npt.NDArray[np.int64]:
    """The place of each cell's text in a list that has all of them."""
    texts = column.texts
    places = {word: place for place, word in enumerate(known)}
    return np.array([places[word] for word in texts.words or ()], np.int64)[texts.values]
