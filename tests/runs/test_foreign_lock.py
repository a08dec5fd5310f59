"""Another program locks run.sqlite for a while: the run waits for it, and says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mmfl
from mmfl import Run
from mmfl.errors import MmflWarning, StoreError
from mmfl.experiment import Checkpoints
from mmfl.runs import RunStore, database, stored_rounds
from mmfl.runs.database import wait_for_lock
from mmfl.system.calls import intercept
from support.helpers import one_line

WAITS = "run.sqlite is locked by another program; waiting up to 600 s for it"


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says at once that the database is locked."""
    monkeypatch.setattr(database, "_BUSY", 0.0)


@contextmanager
def locked(folder: Path | str, *statements: str, wal: bool = True) -> Iterator[Callable[[], int]]:
    """Another connection holds a lock, until somebody has waited three times; how often that was.

    Args:
        folder: The run directory.
        statements: What locks it; nothing does if there are none.
        wal: Whether the file system can do what SQLite needs for its write-ahead log.
    """
    waited = 0

    def step(name: str, function: Any, args: Any, options: Any) -> Any:
        nonlocal waited
        if name == "sleep":
            waited += 1
            if waited == 3:
                other.rollback()
            return None
        if name == "execute" and "journal_mode = WAL" in args[1] and not wal:
            args = (args[0], "PRAGMA journal_mode")
        return function(*args, **options)

    path = Path(folder) / "run.sqlite" if statements else ":memory:"
    with closing(sqlite3.connect(path, isolation_level=None)) as other, intercept(step):
        for statement in statements:
            other.execute(statement).fetchall()
        yield lambda: waited


READS = ("BEGIN", "SELECT * FROM meta")


def test_a_round_is_stored_when_the_lock_is_released(small):
    straight = mmfl.run(small, "straight").fingerprint
    with stored_rounds(small, "run") as rounds:
        next(rounds)
        with locked("run", "BEGIN EXCLUSIVE") as waited, pytest.warns(MmflWarning, match=WAITS):
            next(rounds)
        assert waited() == 3
        list(rounds)
    assert Run.load("run").fingerprint == straight


def test_a_lock_that_stays_is_one_sentence_and_the_run_can_go_on(small, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.0)
    experiment = replace(small, checkpoints=Checkpoints(rounds=1))
    straight = mmfl.run(experiment, "straight").fingerprint
    rounds = stored_rounds(experiment, "run")
    next(rounds)
    with closing(sqlite3.connect("run/run.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = one_line(StoreError, lambda: next(rounds))
    assert said == "cannot write the run in 'run': database is locked"
    assert Run.load("run").status == "interrupted"
    assert mmfl.run(experiment, "run", resume=True).fingerprint == straight


def test_a_reader_waits_for_a_run_that_is_sealed(small):
    run = mmfl.run(small, "run")
    with locked("run", "BEGIN EXCLUSIVE") as waited, pytest.warns(MmflWarning, match=WAITS):
        assert Run.load("run") == run
    assert waited() == 3


def test_a_resumed_run_waits_before_it_writes(small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    with locked("run", "BEGIN EXCLUSIVE") as waited, pytest.warns(MmflWarning, match=WAITS):
        assert mmfl.run(small, "run", resume=True).status == "finished"
    assert waited() == 3


@pytest.mark.parametrize(
    "act", [lambda store: store.meta(), lambda store: store.rows("SELECT * FROM task")]
)
def test_without_a_write_ahead_log_reads_wait_for_writers(small, act):
    with locked("run", wal=False):
        store = RunStore.create(Path("run"), small.resolved())
    with closing(store):
        expected = act(store)
        with locked("run", "BEGIN EXCLUSIVE") as waited, pytest.warns(MmflWarning, match=WAITS):
            assert act(store) == expected
        assert waited() == 3


def test_without_a_write_ahead_log_a_commit_waits_for_readers(small):
    with locked("run", wal=False):
        store = RunStore.create(Path("run"), small.resolved())
    with closing(store):
        with locked("run", *READS) as waited, pytest.warns(MmflWarning, match=WAITS):
            store.note(reason="stored all the same")
        assert waited() == 3
        assert store.meta()["reason"] == "stored all the same"
    assert Run.load("run").reason == "stored all the same"


def test_an_error_that_python_itself_raises_is_passed_on():
    """Such as for text that is not UTF-8: it has no code of SQLite's."""

    def fail() -> None:
        raise sqlite3.OperationalError("could not decode")

    with pytest.raises(sqlite3.OperationalError, match="could not decode"):
        wait_for_lock(fail)
