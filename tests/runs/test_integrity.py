"""Every row of a run is covered by a digest; what is not ours is not even queried."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.comparison import compare
from mmfl.errors import MmflError, MmflWarning, StoreError
from mmfl.planning.histories import fit_runs
from mmfl.report import Curves
from mmfl.runs import RunStore, stored_rounds
from mmfl.runs.schema import TABLES
from support.helpers import one_line
from support.rewriting import edited, make_older

RICH = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 6.0 }
[faults]
dropout = 0.3
"""


@pytest.fixture(scope="module")
def rich(small_toml) -> Experiment:
    """A run that has rows in every table."""
    return Experiment.from_toml(small_toml + RICH)


@pytest.fixture(scope="module")
def made(rich, tmp_path_factory) -> Path:
    return mmfl.run(rich, tmp_path_factory.mktemp("made") / "run").folder


@pytest.fixture
def run(made) -> Path:
    shutil.copytree(made, "run")
    return Path("run")


@contextmanager
def sql(folder: Path | str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(Path(folder) / "run.sqlite")) as database, database:
        yield database


def refused(folder: Path | str) -> str:
    return one_line(StoreError, lambda: Run.load(folder))


def columns(table: str) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE {table} {TABLES[table]}")
        return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


CELLS = [(table, column) for table in TABLES for column in columns(table)]


@pytest.mark.parametrize(("table", "column"), CELLS)
def test_no_value_can_be_changed_unnoticed(run, table, column):
    with sql(run) as database:
        query = f"SELECT rowid, {column} FROM {table} ORDER BY rowid DESC LIMIT 1"
        at, was = database.execute(query).fetchone()
        now = {int: was, float: was, str: "f" * 64, bytes: b"x", type(None): 0.5}[type(was)]
        now = now + 1 if type(was) in (int, float) else now
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (now, at))
    assert refused(run).startswith("the run in 'run' is damaged: ")


@pytest.mark.parametrize("table", list(TABLES))
def test_no_row_can_be_added_taken_or_moved_unnoticed(made, table):
    for number, statement in enumerate(
        (
            f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})",
            f"DELETE FROM {table}",
            f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} ORDER BY rowid LIMIT 1",
            f"UPDATE {table} SET rowid = -rowid",
        )
    ):
        folder = Path(f"run-{number}")
        shutil.copytree(made, folder)
        before = Run.load(folder)
        with sql(folder) as database:
            database.execute(statement)
        try:
            assert Run.load(folder) == before
            assert "REPLACE" in statement or table == "meta"  # the same row, or another order
        except StoreError as error:
            assert "is damaged" in str(error)  # noqa: PT017


def test_every_reader_refuses_and_the_status_is_marked(run, rich):
    compare({"x": rich}, [1], "out")
    with sql(run) as database, sql("out/x/seed-1") as other:
        for one in (database, other):
            one.execute("UPDATE round_task SET metric = 0.99 WHERE round = 2 AND task = 0")
    damage = "round 2 does not match its hash"
    for act in (
        lambda: Run.load(run),
        lambda: RunStore.open(run),
        lambda: Curves.load(run),
        lambda: fit_runs(rich, [run]),
        lambda: compare({"x": rich}, [1], "out"),
        lambda: mmfl.run(rich, run, resume=True),
    ):
        assert damage in one_line(MmflError, act)
    shown = Run.load(run, damaged=True)
    assert (shown.damage, shown.status) == (damage, "finished")
    assert shown.history["dense"][1] == 0.99


def test_an_edited_experiment_is_refused_too_and_the_status_is_marked(run, rich):
    compare({"x": rich}, [1], "out")
    for folder in (run, "out/x/seed-1"):
        path = Path(folder, "experiment.toml")
        path.write_text(path.read_text().replace("batch_size = 16", "batch_size = 17"))
    damage = "experiment.toml does not match its hash"
    for act in (
        lambda: Run.load(run),
        lambda: Curves.load(run),
        lambda: fit_runs(rich, [run]),
        lambda: compare({"x": rich}, [1], "out"),
        lambda: mmfl.run(rich, run, resume=True),
    ):
        assert damage in one_line(MmflError, act)
    assert Run.load(run, damaged=True).damage == damage
    make_older(run)
    assert Run.load(run).status == "finished"


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"


@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE {0}", f"CREATE VIEW {{0}} AS {ENDLESS} {{1}} FROM c"],
        ["CREATE TRIGGER t AFTER INSERT ON {0} BEGIN DELETE FROM meta; END"],
        ["ALTER TABLE {0} ADD COLUMN more AS (hex(zeroblob(100000000)))"],
        ["ALTER TABLE {0} RENAME TO kept", "CREATE VIEW {0} AS SELECT * FROM kept"],
    ],
)
def test_what_is_not_one_of_our_tables_is_not_queried(run, table, statements):
    listed = ", ".join(f"x AS {name}" for name in columns(table))
    with sql(run) as database:
        for statement in statements:
            database.execute(statement.format(table, listed))
    said = refused(run)
    assert "is not one of a run's tables" in said or "does not have the columns" in said


def test_reading_ends_even_if_the_database_does_not(run, monkeypatch):
    monkeypatch.setattr("mmfl.runs.database._STEPS", 0)
    monkeypatch.setattr("mmfl.runs.database._STEPS_A_BYTE", 0)
    monkeypatch.setattr("mmfl.runs.database._EVERY", 10)
    assert "run.sqlite is damaged: reading it does not finish" in refused(run)


def test_a_format_without_digests_cannot_be_pretended(run):
    with edited(run) as database:
        database.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
    assert "its format is '2', but its tables are of '4'" in refused(run)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE round_task SET metric = 'nan'", "table round_task: metric must be REAL"),
        ("UPDATE round SET seconds = 9e999", "table round: seconds must be finite, got inf"),
        ("UPDATE round SET samples = -1", "table round: samples must be from 0"),
        (
            "UPDATE round SET round = 7 WHERE round = 2",
            "round 2 is missing, but there are later ones",
        ),
        ("UPDATE round_task SET task = 9 WHERE round = 1 AND task = 1", "must be from 0 to 1"),
        (
            "UPDATE task SET name = char(27) || '[31m' WHERE number = 0",
            "name must be a word, got '\\x1b[31m'",
        ),
        ("UPDATE task SET better = 'more'", "better must be 'higher' or 'lower'"),
        ("UPDATE fault SET kind = char(13)", "table fault: kind must be a word"),
        ("UPDATE meta SET value = 'soon' WHERE key = 'rounds'", "meta.rounds must be a whole"),
        ("UPDATE meta SET value = '9e9' WHERE key = 'rounds'", "meta.rounds must be a whole"),
        ("UPDATE meta SET value = 'x' WHERE key = 'seconds_setup'", "must be a number, got 'x'"),
        ("UPDATE meta SET value = 'x' WHERE key = 'fingerprint'", "must be a SHA-256, got 'x'"),
        ("UPDATE meta SET value = '[' WHERE key = 'auction'", "is damaged: meta.auction"),
    ],
)
@pytest.mark.parametrize("older", [False, True])
def test_a_value_that_makes_no_sense_is_one_sentence(run, statement, said, older):
    if older:
        make_older(run)
        with sql(run) as database:
            database.execute(statement)
    else:  # by somebody who computes the digests, too
        with edited(run) as database:
            database.execute(statement)
    assert said in refused(run)
    assert said in one_line(StoreError, lambda: Run.load(run, damaged=True))


def test_a_run_of_an_older_format_is_read_and_said_to_be_unverifiable(run):
    before = Run.load(run)
    assert before.verifiable
    make_older(run)
    older = Run.load(run)
    assert not older.verifiable
    assert (older.tasks, older.fingerprint) == (before.tasks, before.fingerprint)
    assert (older.recruitment, older.faults) == (before.recruitment, before.faults)


def test_a_live_run_can_be_verified_at_any_time(rich):
    with stored_rounds(rich, "live") as rounds:
        rounds.start()
        assert Run.load("live").rounds == 0
        for _, record in rounds:
            run = Run.load("live")
            assert (run.rounds, run.status, run.damage) == (record.round, "running", "")


def test_a_reader_sees_one_moment(rich):
    with stored_rounds(rich, "live") as rounds:
        next(rounds)
        with closing(RunStore.open(Path("live"))) as store:
            next(rounds)
            assert store.rows("SELECT count(*) FROM round") == [(1,)]
        assert Run.load("live").rounds == 2


def test_a_write_that_was_cut_short_is_undone_for_the_reader_alone(run):
    before = Run.load(run)
    child = os.fork()
    if child == 0:
        database = sqlite3.connect(run / "run.sqlite")
        database.execute("PRAGMA cache_size = 1")  # so that it is written before it is committed
        database.execute("BEGIN")
        for table in TABLES:
            database.execute(f"DELETE FROM {table}")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    left = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert left[run / "run.sqlite-journal"]
    assert Run.load(run) == before
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == left


def test_a_complaint_with_escape_sequences_is_shown_and_not_obeyed(rich):
    from mmfl.cli.views.progress import troubles

    mmfl.run(rich, "run")
    with edited("run") as database:
        database.execute("UPDATE failure SET detail = ?", ("\x1b]0;title\x07\x1b[2J\r",))
        database.execute("INSERT INTO meta VALUES ('reason', ?)", ("\x1b[31mred\x1b[0m",))
    said = "\n".join(troubles(Run.load("run")))
    assert "\\x1b]0;title\\x07" in said
    assert "\\x1b[31mred" in said
    assert said.replace("\n", "").isprintable()


def test_what_clients_say_can_be_stored_whatever_it_is(small, monkeypatch):
    from mmfl.exchange import ClientFailure

    real = ClientFailure.__init__

    def broken(self, address, reason, detail="", *args, **kwargs):
        real(self, address, reason, "\udcff\x00" + detail, *args, **kwargs)

    wild = Experiment.from_toml(small.to_toml(), sets=["tasks.dense.lr=1e30", "local.epochs=3"])
    monkeypatch.setattr(ClientFailure, "__init__", broken)
    with pytest.warns(MmflWarning, match="never trained"):
        run = mmfl.run(wild, "run")
    assert "\\udcff" in run.complaint
