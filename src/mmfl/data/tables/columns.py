"""A table in memory, as a CSV file, a Parquet file or a DataFrame has it: columns by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Column", "Table", "is_number", "parse_number", "sort_names"]

Anything = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_ANY_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_LONG = re.compile(r"[+-]?[0-9]{19,}")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, eq=False)
class Column:
    """A column: numbers, or text as places in a list of words.

    Attributes:
        values: Numbers or truth values; or, if there are words, the place of each cell's word.
        missing: Which cells are empty; whatever `values` holds there means nothing.
        words: The different texts; None = it is a column of numbers.
        mixed: The row and the text of the first cell that is not a number, in a column that holds
            numbers as well; None = there is no such cell. If the column is so long that its cells
            were not kept, `words` is empty.
        kind: What it holds, if that is neither numbers nor text, e.g. "dates".
    """

    values: Anything
    missing: Mask
    words: tuple[str, ...] | None = None
    mixed: tuple[int, str] | None = None
    kind: str = ""

    def take(self, rows: Anything) -> Column:
        """These rows of it, in ascending order; of its words only those that are in them."""
        values, missing = self.values[rows], self.missing[rows]
        if self.words is None or not len(self.words):
            return replace(self, values=values, missing=missing)
        used, places = np.unique(values[~missing], return_inverse=True)
        values = np.full(len(rows), -1)
        values[~missing] = places
        words = tuple(self.words[place] for place in used.tolist())
        text = np.array([not is_number(word) for word in words], np.bool_)
        mixed = None
        if self.mixed is not None and text.any() and not text.all():
            row = int(np.isin(values, np.flatnonzero(text)).argmax())
            mixed = row, words[values[row]]
        return Column(values, missing, words, mixed, self.kind)

    @cached_property
    def parsed(self) -> Column:
        """Words as numbers or truth values, if all of them are; else the column as it is."""
        if not self.words:
            return self
        lower = [word.lower() for word in self.words]
        numbers: Anything
        if set(lower) <= _TRUTH.keys():
            numbers = np.array([_TRUTH[word] for word in lower])
        elif all(map(_WHOLE.fullmatch, self.words)):
            numbers = np.array([int(word) for word in self.words], np.int64)
        elif all(map(is_number, self.words)) and not any(map(_LONG.fullmatch, self.words)):
            numbers = np.array([float(word) for word in self.words])
        else:  # also if a float would not tell whole numbers apart
            return self
        return Column(numbers[self.values], self.missing)

    @cached_property
    def texts(self) -> Column:
        """Numbers as words; else the column as it is. Only words that occur, sorted."""
        if self.words is None:
            found, places = np.unique(self.values, return_inverse=True)
            whole = found.dtype.kind == "f" and bool((found == np.floor(found)).all())
            names = [str(value) for value in (found.astype(np.int64) if whole else found).tolist()]
            return replace(self, values=places, words=tuple(names))
        used, places = np.unique(self.values, return_inverse=True)
        names = [self.words[place] for place in used.tolist()]
        ordered = sort_names(names)
        rank = {name: place for place, name in enumerate(ordered)}
        ranks = np.array([rank[name] for name in names], np.int64)
        return replace(self, values=ranks[places], words=ordered)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of the same length.

    Attributes:
        where: What the table is called in messages.
        columns: From name to column.
        rows: How many rows there are.
        lines: The line of the file in which each row begins; None = it has no lines.
        ignored: The names of columns that were not read.
    """

    where: str
    columns: Mapping[str, Column]
    rows: int
    lines: npt.NDArray[np.int64] | None = None
    ignored: frozenset[str] = frozenset()

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def take(self, rows: Anything) -> Table:
        """These rows of it."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        lines = None if self.lines is None else self.lines[rows]
        return replace(self, columns=columns, rows=len(rows), lines=lines)


def parse_number(text: str) -> float | None:
    """The number that a cell holds; None if it is none. Python's 1_000 is not one."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def is_number(text: str) -> bool:
    """Whether a cell holds a number."""
    return parse_number(text) is not None


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names in order: by number if all are whole numbers, else as text."""
    known = set(names)
    if all(map(_ANY_WHOLE.fullmatch, known)):
        return tuple(sorted(known, key=lambda name: (int(name), name)))
    return tuple(sorted(known))
