"""What happened in one run, read as it goes on: only what is new is read again."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.dashboard.library import refuse_outside
from mmfl.errors import MmflError, StoreError
from mmfl.objectives import find_merit
from mmfl.runs import (
    DATABASE,
    RunStore,
    StoredRecruitment,
    read_events,
    read_records,
    read_recruitment,
    unpack_assignments,
)
from mmfl.system.files import exists

__all__ = ["ClientRecord", "History", "read_history"]

Floats = npt.NDArray[np.float64]

_NAMED = 12
"""How many clients of a task are named."""


@dataclass
class ClientRecord:
    """What a client has done.

    Attributes:
        turns: By task: how many turns it had.
        failed: How many of them failed.
        last: The last round in which it had one.
    """

    turns: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    last: int = 0


@dataclass
class History:
    """A run, round by round.

    Attributes:
        folder: Its directory.
        tasks: (S) names.
        kinds: (S) of the metrics.
        better: (S) whether a "higher" or a "lower" metric is better.
        metric: By round: (S) as last measured; NaN before.
        clients: By round: (S) accepted turns.
        difficulty: After the last round: (S), None if unknown.
        seconds: By round.
        failures: By round: how many turns failed.
        reasons: By reason: how often turns failed, with an example.
        turns: In the last round, by task: how many clients, and the first of them.
        by_client: By client's id: what it has done.
        names: By client's id: its name, if it has one.
        auction: What the auction did; None if there was none.
        reason: Why the run failed, if it did.
    """

    folder: Path
    tasks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    better: tuple[str, ...] = ()
    metric: list[list[float]] = field(default_factory=list)
    clients: list[list[int]] = field(default_factory=list)
    difficulty: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict)
    turns: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    by_client: dict[int, ClientRecord] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    auction: StoredRecruitment | None = None
    reason: str = ""
    _last: str = ""

    @property
    def rounds(self) -> int:
        """How many are done."""
        return len(self.metric)

    @property
    def merit(self) -> Floats:
        """(T, S) the metrics as numbers where higher is better."""
        table = np.array(self.metric, np.float64).reshape(self.rounds, len(self.tasks))
        rules = [find_merit(*of) for of in zip(self.kinds, self.better, strict=True)]
        columns = [rule(table[:, s]) for s, rule in enumerate(rules)]
        return np.stack(columns, axis=1) if columns else table

    def read(self) -> None:
        """Read what is new; everything, if the run went back to an earlier round.

        The first time, all rows are checked against their hashes.
        """
        with closing(RunStore.open(self.folder, checked=not self.tasks)) as store:
            if self._went_back(store):
                self.forget()
            if not self.tasks:
                known = store.tasks()
                self.tasks = tuple(name for _, name, *_ in known)
                self.kinds = tuple(kind for _, _, kind, _ in known)
                self.better = tuple(better for *_, better in known)
                self.names = {row.client: row.name for row in read_records(store, "clients")}
            if self.auction is None:
                self.auction = read_recruitment(store)
            self.reason = store.meta().get("reason", "")
            before = self.rounds
            for event in read_events(store, before) if before else read_events(store):
                if event.kind == "round":
                    self._add(event.about)
            if self.rounds:
                self._read_turns(store, before)

    def _went_back(self, store: RunStore) -> bool:
        if not self.rounds:
            return False
        rows = store.rows("SELECT chain FROM round WHERE round = ?", self.rounds)
        return [row[0] for row in rows] != [self._last]

    def forget(self) -> None:
        """Begin anew."""
        fresh = History(self.folder)
        for name in vars(fresh):
            setattr(self, name, getattr(fresh, name))

    def _add(self, about: dict[str, Any]) -> None:
        """Add a round."""
        tasks = [about["tasks"].get(name, {}) for name in self.tasks]
        if any(not task for task in tasks):
            raise StoreError("a round lacks a task")
        values = [task["metric"] for task in tasks]
        self.metric.append([math.nan if value is None else value for value in values])
        self.clients.append([task["clients"] for task in tasks])
        self.difficulty = [task["difficulty"] for task in tasks]
        self.seconds.append(about["seconds"])
        failed = [one for one in about["failures"] if one["reason"] != "duplicate"]
        self.failures.append(len(failed))
        for one in failed:
            if one["turn"]:
                self.by_client.setdefault(one["client"], ClientRecord()).failed += 1
            count, example = self.reasons.get(one["reason"], (0, one["detail"]))
            self.reasons[one["reason"]] = (count + 1, example)

    def _read_turns(self, store: RunStore, before: int) -> None:
        """Who trained what after a round, and what identifies the last one."""
        query = "SELECT chain, assignment FROM round WHERE round = ?"
        for t in range(before + 1, self.rounds + 1):
            ((self._last, blob),) = store.rows(query, t)
            turns = unpack_assignments(blob)
            if turns.tasks.max(initial=0) >= len(self.tasks):
                raise StoreError(f"round {t} assigns clients to a task that does not exist")
            for client, task in zip(turns.clients.tolist(), turns.tasks.tolist(), strict=True):
                record = self.by_client.setdefault(client, ClientRecord())
                name = self.tasks[task]
                record.turns[name] = record.turns.get(name, 0) + 1
                record.last = t
            if t == self.rounds:
                self.turns = {
                    name: self._name_clients(turns.clients[turns.tasks == s])
                    for s, name in enumerate(self.tasks)
                }

    def _name_clients(self, clients: npt.NDArray[np.int64]) -> tuple[int, list[str]]:
        """How many there are, and the first of them."""
        return len(clients), [self.name(c) for c in np.sort(clients)[:_NAMED].tolist()]

    def name(self, client: int) -> str:
        """What a client is called."""
        return self.names.get(client, str(client))


def read_history(root: Path, history: History) -> None:
    """Read what is new of a run; `StoreError` for whatever is wrong with it.

    Args:
        root: The listed folder: runs outside it are not read.
        history: What was read of it before.
    """
    try:
        refuse_outside(root, history.folder)
        if exists(history.folder / DATABASE):  # else it has only just begun
            history.read()
    except MmflError:
        raise
    except Exception as error:  # a foreign run must not end a page, or the streams of all others
        raise StoreError(f"it cannot be read: {type(error).__name__}") from None
