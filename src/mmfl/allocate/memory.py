"""What a rule remembers of each client: tables of arrays, which a checkpoint holds as they are.

A memory is a dictionary in the rule's state: `tasks` (S), the names of the columns; `ids` (r), the
clients that were ever active, ascending; and arrays with a row for each of them, (r) or (r, S).
It grows with the clients that were active, not with the population. It is a value: a round makes a
new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Ints

__all__ = ["recall", "remember"]

Array = npt.NDArray[Any]
Memory = dict[str, Any]


def recall(
    memory: Memory | None, tasks: Sequence[str], clients: Ints, unknown: Mapping[str, float | int]
) -> dict[str, Array]:
    """What is remembered of these clients, in new arrays.

    Args:
        memory: None = nothing yet.
        tasks: (S) the order of the columns.
        clients: (n) ids.
        unknown: From an array's name to its value for clients (and tasks) that are not known. An
            int makes it one number for each client, a float one for each client and task.
    """
    n, S = len(clients), len(tasks)
    found: dict[str, Array] = {}
    for name, value in unknown.items():
        shape = (n, S) if isinstance(value, float) else (n,)
        found[name] = np.full(shape, value, np.float64 if isinstance(value, float) else np.int64)
    if memory is None:
        return found
    ids = memory["ids"]
    rows = np.searchsorted(ids, clients)
    known = np.flatnonzero(rows < len(ids))
    known = known[ids[rows[known]] == clients[known]]
    columns = _find_columns(memory["tasks"], tasks)
    for name, array in found.items():
        some = memory[name][rows[known]]
        if array.ndim == 1 or columns is None:
            array[known] = some
        else:
            old, new = columns
            array[np.ix_(known, new)] = some[:, old]
    return found


def remember(
    memory: Memory | None, tasks: Sequence[str], clients: Ints, values: Mapping[str, Array]
) -> Memory:
    """A new memory, in which these clients have these values.

    Args:
        memory: The one before.
        tasks: (S) what the columns of the values are.
        clients: (n) ids, ascending.
        values: From an array's name to its rows; the memory may keep these arrays.
    """
    if memory is None or np.array_equal(memory["ids"], clients):
        return {"tasks": list(tasks), "ids": clients.copy(), **values}
    if list(tasks) != memory["tasks"]:  # columns that are gone are forgotten
        unknown = {n: 0.0 if a.ndim == 2 else 0 for n, a in values.items()}
        memory = {"ids": memory["ids"], **recall(memory, tasks, memory["ids"], unknown)}
    ids = np.union1d(memory["ids"], clients)
    before, now = np.searchsorted(ids, memory["ids"]), np.searchsorted(ids, clients)
    after: Memory = {"tasks": list(tasks), "ids": ids}
    for name, array in values.items():
        table = np.empty((len(ids), *array.shape[1:]), array.dtype)
        table[before] = memory[name]
        table[now] = array
        after[name] = table
    return after


def _find_columns(old: Sequence[str], new: Sequence[str]) -> tuple[list[int], list[int]] | None:
    """Which old columns are which new ones; None = they are the same."""
    if list(old) == list(new):
        return None
    pairs = [(old.index(name), column) for column, name in enumerate(new) if name in old]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
