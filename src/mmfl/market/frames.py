"""Tables of bids and outcomes as pandas DataFrames: clients are the index, tasks the columns.

NaN means unwilling, in both directions. pandas is imported only to make a frame.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["is_frame", "make_frame", "read_frame"]

Floats = npt.NDArray[np.float64]


def is_frame(value: object) -> bool:
    """Whether it is a pandas DataFrame; pandas is not imported for the question."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def read_frame(frame: Any) -> tuple[Floats, list[Any], list[str]]:
    """The bids of a frame (inf = unwilling), its clients and its tasks.

    The index has the clients' names, text or whole numbers, and the columns have the tasks' names.
    Cells are numbers >= 0, or missing where a client is unwilling.
    """
    clients = _read_names(frame.index, "client", "index")
    tasks = [str(name) for name in _read_names(frame.columns, "task", "columns")]
    if not tasks:
        raise InputError("a DataFrame of bids needs at least one column: one for each task")
    if not clients:
        raise InputError("a DataFrame of bids needs at least one row: one for each client")
    values = np.empty((len(clients), len(tasks)), order="F")
    for s, task in enumerate(tasks):
        values[:, s] = _read_column(frame.iloc[:, s], task)
        wrong = np.flatnonzero((values[:, s] < 0) | np.isinf(values[:, s]))
        if len(wrong):
            raise _refuse(clients[wrong[0]], task, f"{values[wrong[0], s]:g}")
    values[np.isnan(values)] = np.inf
    return values, clients, tasks


def make_frame(values: Floats, clients: Sequence[Any], tasks: Sequence[str]) -> DataFrame:
    """A frame of numbers by client and task."""
    try:
        import pandas
    except ImportError:
        raise InputError(
            "a DataFrame needs pandas, which is not installed: pip install pandas"
        ) from None
    names = {"index": pandas.Index(clients, name="client"), "columns": list(tasks)}
    return pandas.DataFrame(values, **names)


def _read_names(index: Any, what: str, where: str) -> list[Any]:
    """The names of clients or tasks: text or whole numbers, no two alike."""
    if index.nlevels > 1:
        raise InputError(
            f"a DataFrame of bids needs one name for each {what}, got {where} with "
            f"{index.nlevels} levels"
        )
    names: list[Any] = index.tolist()
    seen = set[Any]()
    for place, name in enumerate(names):
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(
                f"names of {what}s must be text or whole numbers, got {short(name)} at position "
                f"{place} of the DataFrame's {where}"
            )
        key = str(name) if what == "task" else name
        if key in seen:
            raise InputError(
                f"two {what}s are called {name!r} in the DataFrame's {where}; names must differ"
            )
        seen.add(key)
    return names


def _read_column(column: Any, task: str) -> Floats:
    """The bids for a task, NaN where there is none; text and truth values are refused."""
    if getattr(column.dtype, "kind", "O") not in "fiu" or hasattr(column, "cat"):
        for client, cell, missing in zip(column.index, column, column.isna(), strict=True):
            boolean = isinstance(cell, bool | np.bool_)
            if not missing and (boolean or not isinstance(cell, numbers.Real)):
                raise _refuse(client, task, short(cell))
    try:
        found: Floats = column.to_numpy(dtype=np.float64, na_value=math.nan)
    except OverflowError:
        raise InputError(f"a bid for task {task!r} is too large for a float") from None
    except (TypeError, ValueError):
        raise InputError(f"column {task!r} must have numbers, got {column.dtype}") from None
    return found


def _refuse(client: Any, task: str, given: str) -> InputError:
    rule = "must be a number >= 0, or NaN if the client is unwilling"
    return InputError(f"the bid of client {client!r} for task {task!r} {rule}, got {given}")
