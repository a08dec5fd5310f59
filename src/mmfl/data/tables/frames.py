"""A pandas DataFrame as a table; pandas itself is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmfl.config import short
from mmfl.data.tables.columns import Column, Table
from mmfl.errors import DataError

__all__ = ["read_frame"]


def read_frame(frame: Any, where: str) -> Table:
    """A table with the frame's columns; their names become text."""
    if not hasattr(frame, "columns") or not hasattr(frame, "iloc"):
        hint = "; pass its to_pandas()" if hasattr(frame, "to_pandas") else ""
        raise DataError(f"{where} must be a pandas DataFrame, got {short(frame)}{hint}")
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: two columns are called {twice!r}; names must differ")
    if not len(frame):
        raise DataError(f"{where} has no rows")
    columns = {name: _column(frame.iloc[:, place]) for place, name in enumerate(names)}
    return Table(where, columns, len(frame))


def _column(values: Any) -> Column:
    """A column of a frame: numbers and truth values as they are, anything else as text."""
    missing = np.asarray(values.isna(), bool)
    kind, categories = getattr(values.dtype, "kind", "O"), hasattr(values, "cat")
    if kind in "mM":
        return Column(np.zeros(len(values)), missing, kind="dates")
    if kind in "biuf" and not categories:
        nothing = False if kind == "b" else 0
        filled = values.fillna(nothing) if missing.any() and kind != "f" else values
        return Column(np.asarray(filled, _numpy_kind(kind)), missing)
    cells = np.asarray(values, object)
    types = {type(cell) for cell, empty in zip(cells, missing, strict=True) if not empty}
    if categories or any(issubclass(one, str) for one in types) or not types:
        words: dict[str, int] = {}
        places = [
            -1 if empty else words.setdefault(str(cell), len(words))
            for cell, empty in zip(cells, missing, strict=True)
        ]
        return Column(np.array(places, np.int64), missing, tuple(words))
    filled = [0 if empty else cell for cell, empty in zip(cells, missing, strict=True)]
    if types <= {bool, np.bool_}:
        return Column(np.array(filled, bool), missing)
    try:
        numbers = np.array(filled, np.int64 if types <= {int, np.int64} else np.float64)
        if numbers.ndim > 1:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        kind = f"values of type {sorted(one.__name__ for one in types)[0]}"
        return Column(np.zeros(len(cells)), missing, kind=kind)
    return Column(numbers, missing)


def _numpy_kind(kind: str) -> type[np.generic]:
    """What a column of this kind is kept as: pandas has kinds of its own for missing values."""
    kinds: dict[str, type[np.generic]] = {"b": np.bool_, "i": np.int64, "u": np.uint64}
    return kinds.get(kind, np.float64)
