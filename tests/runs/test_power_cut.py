"""What a power cut may leave of a run: the cases that were found once (see also tests/chaos)."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.errors import StoreError
from mmfl.experiment import Checkpoints
from mmfl.system import calls


@pytest.fixture
def often(small) -> Experiment:
    """Three rounds, saved after each; only the newest checkpoint is kept."""
    return replace(small, checkpoints=Checkpoints(rounds=1, keep=1))


def test_no_checkpoint_is_removed_before_the_database_has_the_next_one(often):
    """The checkpoint may be durable and its rounds not: then the one before it is needed."""
    seen = []

    def look(name, function, args, options):
        if name == "unlink" and Path(args[0]).name.startswith("round-"):
            shutil.copytree("run", f"copy-{len(seen)}")
            run = Run.load(f"copy-{len(seen)}")
            seen.append((run.rounds, run.saved))
        return function(*args, **options)

    with calls.intercept(look):
        mmfl.run(often, "run")
    assert seen == [(2, 2), (3, 3)]


def test_a_change_of_the_database_that_was_cut_off_is_undone(often):
    """Only who may write can undo it; a run is read before it is resumed."""
    straight = mmfl.run(often, "run")
    with closing(sqlite3.connect("run/run.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
        database.execute("BEGIN")
        database.execute("DELETE FROM round_task")
        for number in range(100):
            row = (f"junk-{number}", "x" * 4000)
            database.execute("INSERT INTO meta VALUES (?, ?)", row)
        shutil.copytree("run", "cut")
        database.execute("ROLLBACK")
    assert Path("cut/run.sqlite-journal").stat().st_size
    assert Path("cut/run.sqlite").read_bytes() != Path("run/run.sqlite").read_bytes()
    assert Run.load("cut").history == straight.history
    assert mmfl.run(often, "cut", resume=True).fingerprint == straight.fingerprint


def test_a_journal_that_names_another_file_is_not_followed(often):
    """SQLite would remove that file: nobody who only looks at a run may lose one."""
    mmfl.run(often, "run")
    Path("precious").write_bytes(b"precious")
    with closing(sqlite3.connect("run/run.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN")
        for number in range(100):
            row = (f"junk-{number}", "x" * 4000)
            database.execute("INSERT INTO meta VALUES (?, ?)", row)
        shutil.copytree("run", "cut")
        database.execute("ROLLBACK")
    name = str(Path("precious").resolve()).encode()
    numbers = struct.pack(">III", 1, len(name), sum(name))  # a page, the length, the sum
    with Path("cut/run.sqlite-journal").open("ab") as journal:
        journal.write(numbers[:4] + name + numbers[4:] + bytes.fromhex("d9d505f920a163d7"))
    with pytest.raises(StoreError, match="cannot read the run"):
        Run.load("cut")
    assert Path("precious").read_bytes() == b"precious"
