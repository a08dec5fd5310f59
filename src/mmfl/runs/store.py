"""A run directory: everything about one run, readable while it goes on, without pickles.

    experiment.toml       the resolved experiment
    environment.json      versions, machine, command, time of the start, SHA-256 of the data; the
                          same of each time that the run was resumed
    run.sqlite            tables meta, task, round, round_task, failure (below); auction, award
                          (see `mmfl.runs.awards`); fault (see `mmfl.runs.faults`)
    checkpoints/          see `mmfl.checkpoints`
    models/<task>.safetensors     the final weights

`run.sqlite` is in WAL mode while the run goes on, and only the coordinator writes. The column
`round.assignment` is a zlib-compressed blob: a little-endian uint32 n, then n int64 client ids, n
uint16 task numbers (table `task`) and n float64 probabilities. What was never measured is NULL.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.allocate import Assignments
from mmfl.checkpoints import model_file, sync_folder, write_whole
from mmfl.errors import StoreError
from mmfl.experiment import Experiment
from mmfl.objectives import METRICS
from mmfl.params import Params
from mmfl.runs.claim import Claim
from mmfl.runs.environment import as_json, environment_now
from mmfl.state import RoundRecord, State

__all__ = [
    "BEGINNING",
    "FORMAT",
    "RunStore",
    "free_folder",
    "last_folder",
    "pack_assignments",
    "unpack_assignments",
]

FORMAT = "2"
"""Of the tables below; a run is continued only by an mmfl that writes the same."""

BEGINNING = (
    *("experiment.toml", "environment.json", "environment.json.part"),
    *(f"run.sqlite{part}" for part in ("", "-journal", "-shm", "-wal")),
)
"""The files of a run that has only just begun."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE task (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    metric TEXT NOT NULL, better TEXT NOT NULL, target REAL);
CREATE TABLE round (
    round INTEGER PRIMARY KEY, active INTEGER NOT NULL, samples INTEGER NOT NULL,
    fresh INTEGER NOT NULL, seconds REAL NOT NULL, seconds_train REAL NOT NULL,
    seconds_evaluate REAL NOT NULL, chain TEXT NOT NULL, assignment BLOB NOT NULL,
    virtual REAL, quarantined INTEGER NOT NULL);
CREATE TABLE round_task (
    round INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES task(number),
    clients INTEGER NOT NULL, version INTEGER NOT NULL,
    difficulty REAL, metric REAL, loss REAL, PRIMARY KEY (round, task));
CREATE TABLE failure (
    round INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES task(number),
    client INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, turn INTEGER NOT NULL);
CREATE TABLE fault (
    round INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES task(number),
    client INTEGER NOT NULL, kind TEXT NOT NULL, outcome TEXT NOT NULL);
CREATE TABLE auction (
    task INTEGER PRIMARY KEY REFERENCES task(number), willing INTEGER NOT NULL,
    winners INTEGER NOT NULL, take_up REAL NOT NULL, price REAL, spend REAL NOT NULL,
    bids BLOB NOT NULL);
CREATE TABLE award (
    task INTEGER NOT NULL REFERENCES task(number), client INTEGER NOT NULL, bid REAL NOT NULL,
    participation REAL NOT NULL, payment REAL NOT NULL, paid REAL, PRIMARY KEY (task, client));
"""


def pack_assignments(assignments: Assignments) -> bytes:
    """The blob of `round.assignment`."""
    head = struct.pack("<I", len(assignments))
    columns = (
        assignments.clients.astype("<i8").tobytes(),
        assignments.tasks.astype("<u2").tobytes(),
        assignments.probabilities.astype("<f8").tobytes(),
    )
    return zlib.compress(head + b"".join(columns), 1)


def unpack_assignments(blob: bytes) -> Assignments:
    """The inverse of `pack_assignments`."""
    data = zlib.decompress(blob)
    (n,) = struct.unpack_from("<I", data)
    return Assignments(
        np.frombuffer(data, "<i8", n, 4).astype(np.int64),
        np.frombuffer(data, "<u2", n, 4 + 8 * n).astype(np.int64),
        np.frombuffer(data, "<f8", n, 4 + 10 * n).astype(np.float64),
    )


def free_folder(wanted: Path) -> Path:
    """`wanted`, or `wanted`-2, -3, ...: the first that does not exist."""
    number, folder = 1, wanted
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def last_folder(wanted: Path) -> Path:
    """`wanted`, or `wanted`-2, -3, ...: the last that exists; `wanted` if none does."""
    numbered = re.compile(rf"{re.escape(wanted.name)}-([1-9]\d*)")
    beside = wanted.parent.iterdir() if wanted.parent.is_dir() else ()
    found = {int(m[1]): path for path in beside if (m := numbered.fullmatch(path.name))}
    return found[max(found)] if found else wanted


class RunStore:
    """One run's directory, opened for writing (`create`, `reopen`) or for reading (`open`)."""

    def __init__(
        self, folder: Path, database: sqlite3.Connection, claim: Claim | None = None
    ) -> None:
        self.folder = folder
        self._database = database
        self._claim = claim

    @staticmethod
    def refuse_taken(folder: Path) -> None:
        """A directory that holds anything is never written into."""
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{str(folder)!r} is a file; choose a folder (--out) for the run")
        if folder.exists() and any(folder.iterdir()):
            raise StoreError(f"{str(folder)!r} exists already; choose another folder (--out)")

    @classmethod
    def create(
        cls, folder: Path, experiment: Experiment, data: Mapping[str, str] | None = None
    ) -> RunStore:
        """Begin a run's directory; of several processes that want the same one, one gets it.

        Args:
            folder: The directory.
            experiment: The experiment, resolved.
            data: From task name to the SHA-256 of its data.
        """
        cls.refuse_taken(folder)
        with _trouble("create", folder), ExitStack() as undo:
            folder.mkdir(parents=True, exist_ok=True)
            undo.callback(_remove_if_empty, folder)
            claim = Claim(folder)
            undo.callback(claim.close)
            with (folder / "experiment.toml").open("x", encoding="utf-8") as file:
                undo.callback(_remove_beginning, folder)  # from here on it is ours
                file.write(experiment.to_toml())
                file.flush()
                os.fsync(file.fileno())
            sync_folder(folder.parent)
            environment = environment_now() | {"data": dict(data or {})}
            write_whole(folder / "environment.json", as_json(environment))
            database = _connect(folder / "run.sqlite")
            undo.callback(database.close)
            database.executescript(_SCHEMA)
            database.executemany("INSERT INTO task VALUES (?, ?, ?, ?, ?)", _tasks(experiment))
            database.commit()
            store = cls(folder, database, claim)
            store.sign(experiment.rounds)
            undo.pop_all()
        return store

    @classmethod
    def reopen(cls, folder: Path, claim: Claim) -> RunStore:
        """An existing run, for writing: `claim` is on its folder, and closed with it."""
        cls.open(folder).close()  # says what is wrong with it
        with _trouble("open", folder):
            return cls(folder, _connect(folder / "run.sqlite"), claim)

    def sign(self, rounds: int) -> None:
        """Say which process is about to run it."""
        owner = {"host": platform.node(), "pid": str(os.getpid())}
        self.note(format=FORMAT, status="running", rounds=str(rounds), **owner)

    def rewind(self, round: int) -> None:  # noqa: A002
        """Go back to the end of a round: nothing later is remembered; 0 is before the auction."""
        tables = [
            name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        with _trouble("write", self.folder), self._database as database:
            for table in tables:
                columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
                if "round" in columns:
                    database.execute(f"DELETE FROM {table} WHERE round > ?", (round,))
            keys = ["fingerprint", "reason", *(("auction", "mechanism") if not round else ())]
            database.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in keys])
            if round:
                database.execute("UPDATE award SET paid = NULL")
            else:
                database.execute("DELETE FROM auction")
                database.execute("DELETE FROM award")

    @classmethod
    def open(cls, folder: Path) -> RunStore:
        """An existing run, for reading."""
        path = folder / "run.sqlite"
        if not path.is_file():
            raise StoreError(f"{str(folder)!r} holds no run (it has no run.sqlite)")
        with _trouble("read", folder):
            database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            store = cls(folder, database)
            store.meta()
        return store

    def note(self, **values: str) -> None:
        """Set entries of the table `meta`."""
        with _trouble("write", self.folder), self._database:
            self._database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def note_durably(self, **values: str) -> None:
        """Set entries of `meta`; these, and all that was written before, outlast a power cut."""
        with _trouble("write", self.folder):
            self._database.execute("PRAGMA synchronous = FULL")
        self.note(**values)
        with _trouble("write", self.folder):
            self._database.execute("PRAGMA synchronous = NORMAL")

    def add(self, state: State, record: RoundRecord) -> None:
        """Write one round, all of it or nothing."""
        number = {task: n for n, task in enumerate(record.tasks)}
        rows = [
            (
                record.round,
                number[task],
                record.clients[task],
                state.versions[task],
                *map(_null, (record.difficulty[task], record.metric[task], record.loss[task])),
            )
            for task in record.tasks
        ]
        times = (record.seconds, record.seconds_train, record.seconds_evaluate)
        blob = pack_assignments(record.assignments)
        whole = (record.round, record.active, record.samples, record.fresh, *times)
        failures = [
            (at.round, number[at.task], at.client, f.reason, f.detail[:500], f.turn)
            for at, f in ((f.address, f) for f in record.failures)
        ]
        faults = [
            (at.round, number[at.task], at.client, f.kind, f.outcome)
            for at, f in ((f.address, f) for f in record.faults)
        ]
        quarantined = sum(until > record.round for _, until in state.offenders.values())
        rest = (state.chain, blob, _null(record.virtual), quarantined)
        with _trouble("write", self.folder), self._database:
            self._database.execute(
                "INSERT INTO round VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*whole, *rest)
            )
            self._database.executemany("INSERT INTO round_task VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._database.executemany("INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?)", failures)
            self._database.executemany("INSERT INTO fault VALUES (?, ?, ?, ?, ?)", faults)

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write many rows with one statement, all of them or none."""
        with _trouble("write", self.folder), self._database:
            self._database.executemany(statement, rows)

    def save_models(self, params: Mapping[str, Params]) -> None:
        """Write the weights of all tasks, each file whole or not at all."""
        with _trouble("write", self.folder):
            (self.folder / "models").mkdir(exist_ok=True)
            for task, weights in params.items():
                path = self.folder / "models" / f"{task}.safetensors"
                write_whole(path, model_file(task, weights))

    def seal(self) -> None:
        """Make the database one plain file again, unless somebody is reading it just now."""
        with suppress(sqlite3.OperationalError):
            self._database.execute("PRAGMA journal_mode = DELETE")

    def meta(self) -> dict[str, str]:
        """The table `meta`."""
        with _trouble("read", self.folder):
            return dict(self._database.execute("SELECT key, value FROM meta").fetchall())

    def environment(self) -> dict[str, Any]:
        """The file environment.json; nothing if it is gone or damaged."""
        try:
            found = json.loads((self.folder / "environment.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data, as far as the run knew it."""
        found = self.environment().get("data")
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def tasks(self) -> list[tuple[int, str, str, str]]:
        """Number, name, kind of metric and which of its values is better, for each task."""
        found = self.rows("SELECT number, name, metric, better FROM task ORDER BY number")
        return [(row[0], row[1], row[2], row[3]) for row in found]

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a query."""
        with _trouble("read", self.folder):
            return self._database.execute(query, values).fetchall()

    def has(self, table: str, column: str = "round") -> bool:
        """Whether there is such a table with such a column: older versions had fewer."""
        return bool(self.rows("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", table, column))

    def close(self) -> None:
        """Close the database, and let others have the folder."""
        self._database.close()
        if self._claim is not None:
            self._claim.close()


def _remove_beginning(folder: Path) -> None:
    """Remove what `RunStore.create` has put into a folder."""
    for name in BEGINNING:
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _connect(path: Path) -> sqlite3.Connection:
    """A database for writing."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _tasks(experiment: Experiment) -> Iterator[tuple[Any, ...]]:
    """The rows of table `task`."""
    for number, task in enumerate(experiment.tasks):
        assert task.metric is not None  # the experiment is resolved
        kind = METRICS.kind_of(task.metric)
        yield number, task.name, kind, task.metric.better, task.target


def _null(value: float) -> float | None:
    return None if math.isnan(value) else value


@contextmanager
def _trouble(doing: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"cannot {doing} the run in {str(folder)!r}: {reason}") from None
