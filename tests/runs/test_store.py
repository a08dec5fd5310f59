from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

import mmfl
from mmfl import Experiment, Run
from mmfl.allocate import Assignments
from mmfl.errors import DataError, EngineError, MmflWarning, StoreError
from mmfl.runs import stored_rounds
from mmfl.runs.assignments import pack_assignments, unpack_assignments
from mmfl.runs.directory.folders import free_folder
from mmfl.system.calls import intercept
from support.helpers import one_line
from support.rewriting import set_meta

rows = st.tuples(st.integers(0, 2**62), st.integers(0, 65535), st.floats(0, 1))


@given(st.lists(rows, max_size=50))
def test_assignments_survive_the_blob(given_rows):
    clients, tasks, p = zip(*given_rows, strict=True) if given_rows else ((), (), ())
    before = Assignments(np.array(clients, np.int64), np.array(tasks, np.int64), np.array(p, float))
    assert list(unpack_assignments(pack_assignments(before))) == list(before)


def test_a_run_directory_holds_the_run_and_the_loops_fingerprint(small, tmp_path):
    records = list(mmfl.rounds(small))
    run = mmfl.run(small, out=tmp_path / "run")
    final, last = records[-1]
    assert run.fingerprint == final.fingerprint
    assert run.status == "finished"
    assert run.rounds == run.planned == 3
    assert run.worst == min(last.metric.values())
    assert run.history["dense"] == [r.metric["dense"] for _, r in records]
    assert run.samples == sum(r.samples for _, r in records)
    assert {t: v["clients"] for t, v in run.tasks.items()} == {
        t: sum(r.clients[t] for _, r in records) for t in last.tasks
    }
    assert Run.load(tmp_path / "run") == run
    stored = Experiment.load(tmp_path / "run" / "experiment.toml")
    assert stored == small.resolved()
    for task, weights in final.params.items():
        tensors = load_file(tmp_path / "run" / "models" / f"{task}.safetensors")
        assert all(np.array_equal(tensors[name], weights[name]) for name in weights)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["versions"]["mmfl"] == mmfl.__version__


def test_the_database_is_one_plain_file_with_every_assignment(small, tmp_path):
    records = [record for _, record in mmfl.rounds(small)]
    mmfl.run(small, out=tmp_path / "run")
    assert not list((tmp_path / "run").glob("run.sqlite-*"))
    database = sqlite3.connect(tmp_path / "run" / "run.sqlite")
    blobs = database.execute("SELECT assignment FROM round ORDER BY round").fetchall()
    database.close()
    for (blob,), record in zip(blobs, records, strict=True):
        assert list(unpack_assignments(blob)) == list(record.assignments)


def test_failures_are_stored(small, tmp_path):
    wild = Experiment.from_toml(small.to_toml(), sets=["tasks.dense.lr=1e30", "local.epochs=3"])
    with pytest.warns(MmflWarning, match="'dense' never trained: all 11 turns failed"):
        run = mmfl.run(wild, out=tmp_path / "run")
    assert run.failed > 0
    database = sqlite3.connect(tmp_path / "run" / "run.sqlite")
    reasons = {r for (r,) in database.execute("SELECT DISTINCT reason FROM failure")}
    database.close()
    assert reasons <= {"loss", "not finite", "norm"}


def test_a_taken_folder_is_refused_and_left_alone(small, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("precious")
    with pytest.raises(StoreError, match="already exists"):
        mmfl.run(small, out=tmp_path / "taken")
    assert [p.name for p in (tmp_path / "taken").iterdir()] == ["thesis.txt"]


def test_without_a_folder_a_new_one_is_made(small):
    one = dataclasses.replace(small, rounds=1)
    assert [mmfl.run(one).folder for _ in range(2)] == [Path("runs/run"), Path("runs/run-2")]


def test_free_folder_counts_up(tmp_path):
    assert free_folder(tmp_path / "x").name == "x"
    (tmp_path / "x").mkdir()
    (tmp_path / "x-2").mkdir()
    assert free_folder(tmp_path / "x").name == "x-3"


@pytest.mark.parametrize(
    "content", [None, b"", b"not a database, this file is just some text here"]
)
def test_what_is_no_run_is_one_sentence(tmp_path, content):
    folder = tmp_path / "odd"
    folder.mkdir()
    if content is not None:
        (folder / "run.sqlite").write_bytes(content)
    with pytest.raises(StoreError, match=r"'.*odd'") as error:
        Run.load(folder)
    assert "\n" not in str(error.value)


def test_an_engine_that_fails_leaves_no_folder(small, tmp_path):
    missing = Experiment.from_toml(small.to_toml(), sets=["tasks.dense.dataset=nowhere"])
    with pytest.raises(DataError, match="'nowhere'"):
        mmfl.run(missing, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_broken_off_says_so(small, tmp_path):
    with stored_rounds(small, tmp_path / "run") as rounds:
        next(rounds)
    run = Run.load(tmp_path / "run")
    assert (run.status, run.rounds, run.planned, run.fingerprint) == ("stopped", 1, 3, "")


def test_a_reader_does_not_hurt_the_end_of_a_run(small, tmp_path):
    with stored_rounds(small, tmp_path / "run") as rounds:
        next(rounds)
        reader = sqlite3.connect(tmp_path / "run" / "run.sqlite")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        assert len(list(rounds)) == 2
    reader.close()
    assert Run.load(tmp_path / "run").status == "finished"


def test_of_two_that_start_together_each_gets_a_folder_of_its_own(small, tmp_path):
    one = dataclasses.replace(small, rounds=1)
    both = [stored_rounds(one, tmp_path / "run", renumber=True) for _ in range(2)]
    assert both[0].folder == both[1].folder
    for rounds in both:
        list(rounds)
    assert [rounds.folder.name for rounds in both] == ["run", "run-2"]


def test_a_disk_that_refuses_is_one_sentence_and_no_other_number_is_tried(small):
    refused = []

    def refuse(name, function, args, options):
        if name in ("rename", "unlink", "rmdir"):
            refused.append(name)
            assert len(refused) < 100, "it goes on for ever"
            raise PermissionError(1, "Operation not permitted")
        return function(*args, **options)

    with intercept(refuse):
        said = one_line(StoreError, lambda: mmfl.run(small))
    assert said == "cannot create the run in 'runs/run': Operation not permitted"
    assert os.listdir("runs") == ["run"]


def test_other_processes_that_are_always_faster_are_given_way_to_in_the_end(small, monkeypatch):
    monkeypatch.setattr("mmfl.runs.runner._NUMBERS", 3)

    def always_later(name, function, args, options):
        result = function(*args, **options)
        if name == "mkdir" and Path(args[0]).parent.name == "runs":
            Path(args[0], "theirs").touch()
        return result

    with intercept(always_later):
        said = one_line(StoreError, lambda: mmfl.run(small))
    assert said == "'runs/run-3' already exists; choose another folder"
    assert sorted(os.listdir("runs")) == ["run", "run-2", "run-3"]
    assert [os.listdir(f"runs/{name}") for name in os.listdir("runs")] == [["theirs"]] * 3


def test_a_run_whose_process_is_gone_is_interrupted(small, tmp_path):
    with stored_rounds(small, tmp_path / "run") as rounds:
        next(rounds)
        assert Run.load(tmp_path / "run").status == "running"
    set_meta(tmp_path / "run", status="running")
    assert Run.load(tmp_path / "run").status == "interrupted"


def test_a_run_that_failed_says_why(small, tmp_path, monkeypatch):
    monkeypatch.setattr(
        type(small.allocator), "allocate", lambda *_, **__: (_ for _ in ()).throw(KeyError("x"))
    )
    with pytest.raises(EngineError):
        mmfl.run(small, out=tmp_path / "run")
    run = Run.load(tmp_path / "run")
    assert run.status == "failed"
    assert "KeyError: 'x' (test_store.py, line " in run.reason


@pytest.mark.parametrize("tasks", [1, 5])
def test_the_table_of_tasks_is_read_as_often_for_one_task_as_for_many(small, tasks):
    some = tuple(dataclasses.replace(small.tasks[0], name=f"task-{n}") for n in range(tasks))
    run = mmfl.run(dataclasses.replace(small, rounds=2, tasks=some), "run")
    plans = []

    def explain(name, function, args, options):
        if name == "execute" and "round_task" in args[1]:
            plan = args[0].execute(f"EXPLAIN QUERY PLAN {args[1]}", *args[2:]).fetchall()
            plans.append(" / ".join(row[-1] for row in plan))
        return function(*args, **options)

    with intercept(explain):
        again = Run.load("run")
    assert again == run
    assert list(again.history) == list(again.tasks) == [task.name for task in some]
    assert [len(history) for history in again.history.values()] == [2] * tasks
    reads = [plan for plan in plans if "SCAN round_task" in plan or "SEARCH round_task" in plan]
    assert len(reads) == 3  # one to verify it, one for results, one for turns
    assert not any("CORRELATED" in plan for plan in plans)
