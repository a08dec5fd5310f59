"""Bids: what each client asks for training each task, and how bids are ranked.

Rows are clients, columns are tasks. `inf` means unwilling. NaN is an error, except in a pandas
DataFrame, where it is the only way to say unwilling (`mmfl.market.frames`). Nothing is repaired
silently: whatever breaks a rule raises `InputError`, which says where, which rule, and what was
given.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.errors import InputError
from mmfl.market.frames import is_frame, make_frame, read_frame
from mmfl.market.ranking import rank_columns

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["SLACK", "Bids", "at_most", "check_positive"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SLACK = 1e-9
"""`a <= c` means `a <= c * (1 + SLACK)`: exact ties are affordable in spite of rounding."""

_RULE = "must be a number >= 0, or inf (None) if the client is unwilling"
_TOO_LARGE = f"a bid {_RULE}; one of them is too large for a float"


@dataclass(frozen=True, eq=False)
class Bids:
    """A table of bids whose rows and columns have names.

    Attributes:
        values: (N, S) what client i asks for task s: >= 0, inf = unwilling. Not to be changed. A
            DataFrame (NaN = unwilling) also gives the names of clients and tasks.
        clients: (N) what the rows are called; by default 0 to N - 1.
        tasks: (S) what the columns are called; by default "task 1" to "task S".
    """

    values: Floats
    clients: Sequence[Any] = field(default=())
    tasks: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        values, clients, tasks = self.values, self.clients, self.tasks
        if is_frame(values):
            values, rows, columns = read_frame(values)
            clients = clients if len(clients) else rows
            tasks = tasks or tuple(columns)
        values = _check_bids(values)
        N, S = values.shape
        clients = clients if len(clients) else range(N)
        clients = clients if isinstance(clients, range) else list(clients)
        tasks = tuple(tasks) or tuple(f"task {s + 1}" for s in range(S))
        if len(clients) != N:
            raise InputError(f"bids have {N} rows, but {len(clients)} clients are named")
        if len(tasks) != S:
            raise InputError(f"bids have {S} columns, but {len(tasks)} tasks are named")
        for what, names in (("task", tasks), ("client", clients)):
            if isinstance(names, range):
                continue
            try:
                differ = len(set(names)) == len(names)
            except TypeError:
                raise InputError(f"names of {what}s must be text or numbers") from None
            if not differ:
                raise InputError(f"two {what}s are called {_twice(names)!r}; names must differ")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "tasks", tasks)

    @classmethod
    def of(cls, bids: Any) -> Bids:
        """Bids from anything array-like, N x S, or a DataFrame; `Bids` are taken as they are."""
        return bids if isinstance(bids, Bids) else cls(bids)

    def read_alike(self, bids: Any) -> Bids:
        """Other bids of the same clients for the same tasks; a DataFrame's are found by name."""
        other = Bids.of(bids)
        if not is_frame(bids) or (other.tasks, [*other.clients]) == (self.tasks, [*self.clients]):
            return other
        for what, own, given in (
            ("client", self.clients, other.clients),
            ("task", self.tasks, other.tasks),
        ):
            odd = set(own) ^ set(given)
            if odd:
                name = min(odd, key=str)
                whose = "is not in the DataFrame" if name in own else "is not in the auction"
                raise InputError(f"{what} {name!r} {whose}")
        places = {name: row for row, name in enumerate(other.clients)}
        rows = [places[name] for name in self.clients]
        columns = [other.tasks.index(name) for name in self.tasks]
        return Bids(other.values[np.ix_(rows, columns)], self.clients, self.tasks)

    def to_frame(self) -> DataFrame:
        """The bids as a DataFrame: clients are the index, tasks the columns, NaN = unwilling."""
        values = np.where(np.isinf(self.values), np.nan, self.values)
        return make_frame(values, self.clients, self.tasks)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, S)."""
        N, S = self.values.shape
        return N, S

    @cached_property
    def _ranking(self) -> tuple[Ints, Floats]:
        order, ascending = rank_columns(self.values.T)
        order.flags.writeable = ascending.flags.writeable = False
        return order, ascending

    @property
    def order(self) -> Ints:
        """(S, N) the clients' rows by ascending bid for each task, equal bids by ascending row."""
        return self._ranking[0]

    @property
    def ascending(self) -> Floats:
        """(S, N + 1) the bids of each task in that order, and inf: b(t, s) is [s, t - 1]."""
        return self._ranking[1]

    @cached_property
    def willing(self) -> Ints:
        """(S) n_s: how many clients are willing to train each task."""
        found: Ints = np.isfinite(self.values).sum(axis=0)
        return found

    def smallest(self, t: int | Ints) -> list[float]:
        """(S) b(t, s): the t-th smallest bid of each task, inf beyond the last; t from 1."""
        N, S = self.shape
        found: list[float]
        if isinstance(t, int):
            found = self.ascending[:, min(t, N + 1) - 1].tolist()
        else:
            found = self.ascending[np.arange(S), np.minimum(t, N + 1) - 1].tolist()
        return found

    def replace_row(self, row: int, asked: Sequence[float]) -> Bids:
        """The same table with another row; `asked` (S) is taken at its word, not checked.

        Searches for lies run thousands of auctions that differ in one row.
        """
        values = self.values.copy(order="K")
        values[row] = asked
        values.flags.writeable = False
        table = object.__new__(Bids)  # not __init__: the rest was checked when self was made
        for name, value in (("values", values), ("clients", self.clients), ("tasks", self.tasks)):
            object.__setattr__(table, name, value)
        return table


def at_most(amount: float) -> float:
    """The largest number that counts as `<= amount`."""
    return min(amount * (1 + SLACK), sys.float_info.max)


def check_positive(value: object, name: str) -> float:
    """A finite number above 0, or a sentence that says what was wrong with it."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, got {short(value)}")
    try:
        amount = float(value)
    except OverflowError:  # a whole number or a fraction beyond all floats
        amount = -math.inf if value < 0 else math.inf
    if not math.isfinite(amount) or amount <= 0:
        raise InputError(f"{name} must be finite and > 0, got {amount:g}")
    return amount


def _check_bids(bids: Any) -> Floats:
    """An (N, S) table of float64 of our own, every rule checked."""
    rows = bids if isinstance(bids, list | tuple) else ()
    if any(isinstance(part, np.ma.MaskedArray) for part in (bids, *rows)):
        raise InputError("bids must not be a masked array; write inf where a client is unwilling")
    table = bids if isinstance(bids, np.ndarray) else _to_array(bids)
    if table.ndim != 2:
        raise InputError(f"bids must have rows and columns (N x S), got {table.ndim} dimensions")
    if table.shape[1] == 0:
        raise InputError("bids need at least one column: one for each task")
    if table.dtype == object:
        table = _numbers(table)
    if table.dtype.kind not in "fiu":
        raise InputError(f"bids must be numbers, got an array of {table.dtype}")
    values = np.empty(table.shape, order="F")  # tasks are read one by one
    with np.errstate(over="ignore"):
        np.add(table, 0.0, out=values)  # -0.0 becomes 0.0
    if table.dtype.itemsize > values.itemsize and (np.isinf(values) & np.isfinite(table)).any():
        raise InputError(_TOO_LARGE)
    if values.size:
        lowest = values.min()
        if np.isnan(lowest) or lowest < 0:
            row, column = np.argwhere(np.isnan(values) | (values < 0))[0]
            raise InputError(
                f"bid of row {row}, column {column} {_RULE}, got {values[row, column]:g}"
            )
    return values


def _to_array(bids: Any) -> npt.NDArray[Any]:
    """Anything array-like as an array; lists as objects, so that no cell is converted unseen."""
    if hasattr(bids, "__array__"):
        return np.asarray(bids)
    if isinstance(bids, str | bytes) or not isinstance(bids, Sequence):
        raise InputError(f"bids must be a table (N x S), got {short(bids)}")
    widths = {len(row) if isinstance(row, Sequence) else None for row in bids}
    if len(widths) > 1:
        first = len(bids[0]) if isinstance(bids[0], Sequence) else None
        place = next(
            place
            for place, row in enumerate(bids)
            if (len(row) if isinstance(row, Sequence) else None) != first
        )
        raise InputError(f"bids must have rows of the same length; row {place} differs from row 0")
    try:
        return np.array(bids, dtype=object)
    except ValueError:
        raise InputError("bids must be a table of N rows and S columns") from None


def _numbers(table: npt.NDArray[Any]) -> Floats:
    """Cells of any type as numbers: None is unwilling; text, booleans and the rest are refused."""
    plain = {int, float, type(None)}
    for (row, column), cell in np.ndenumerate(table):
        if type(cell) not in plain and (
            isinstance(cell, bool | np.bool_) or not isinstance(cell, numbers.Real)
        ):
            raise InputError(f"bid of row {row}, column {column} {_RULE}, got {short(cell)}")
    try:
        return np.where(table == None, np.inf, table).astype(np.float64)  # noqa: E711
    except OverflowError:
        raise InputError(_TOO_LARGE) from None


def _twice(names: Sequence[Any]) -> Any:
    seen = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
