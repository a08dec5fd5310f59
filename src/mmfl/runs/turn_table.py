"""All turns of a run as columns: who was to train what in which round, and whether it was accepted.

`mmfl.runs.records` has them as records, which take a hundred times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.errors import StoreError
from mmfl.runs.assignments import unpack_assignments, unpack_turns
from mmfl.runs.store import RunStore

__all__ = ["TurnTable", "read_turn_table"]

Ints = npt.NDArray[np.int64]


class TurnTable(NamedTuple):
    """One entry per turn, in the order of the rounds.

    Attributes:
        rounds: From 1.
        clients: The clients' ids.
        tasks: The tasks' numbers.
        accepted: Whether the update was accepted.
    """

    rounds: Ints
    clients: Ints
    tasks: Ints
    accepted: npt.NDArray[np.bool_]


def read_turn_table(store: RunStore) -> TurnTable:
    """All turns of a run."""
    stored = store.has("round", "turns")
    count = len(store.tasks())
    parts: list[TurnTable] = []
    for (t,) in store.rows("SELECT round FROM round ORDER BY round"):
        column = "turns" if stored else "NULL"
        ((blob, ends),) = store.rows(f"SELECT assignment, {column} FROM round WHERE round = ?", t)
        turns = unpack_assignments(blob)
        if turns.tasks.max(initial=0) >= count:
            raise StoreError(f"round {t} of the run assigns clients to a task that does not exist")
        if stored:
            accepted = unpack_turns(ends, turns).accepted
        else:
            accepted = ~_find_failed(store, t, turns.clients, turns.tasks)
        parts.append(TurnTable(np.full(len(turns), t), turns.clients, turns.tasks, accepted))
    if not parts:
        none = np.zeros(0, np.int64)
        return TurnTable(none, none, none, np.zeros(0, np.bool_))
    return TurnTable(*map(np.concatenate, zip(*parts, strict=True)))


def _find_failed(store: RunStore, t: int, clients: Ints, tasks: Ints) -> npt.NDArray[np.bool_]:
    """Which turns of a round failed, in a run of an older format."""
    where = "AND turn" if store.has("failure", "turn") else ""
    failed = set(store.rows(f"SELECT client, task FROM failure WHERE round = ? {where}", t))
    pairs = zip(clients.tolist(), tasks.tolist(), strict=True)
    return np.array([pair in failed for pair in pairs], np.bool_)
