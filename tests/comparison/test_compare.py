"""Variants over seeds in one folder: what is finished stays, what is not is done again."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.comparison import Comparison, compare, read_vary
from mmfl.errors import ComparisonError, EngineError, InputError, MmflError, StoreError
from mmfl.experiment import ENGINES
from mmfl.runs.directory.lock import LEASE, Lease
from mmfl.runs.directory.mark import write_mark
from support.experiments import write_small
from support.helpers import one_line
from support.rewriting import set_meta

TEXT = write_small(top="rounds = 2\nseed = 77")
OWN = """
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Mine:
    build = staticmethod(lambda shape, outputs: nn.Linear(shape[0], outputs))

def data(scale=[1]):
    x = [[0.0], [1.0], [2.0], [3.0]] * 5
    return x, [0, 1, 0, 1] * 5, x, [0, 1, 0, 1] * 5

def share(outputs, targets):
    return (outputs.argmax(1) == targets).float()
"""


def made(*sets: str) -> Experiment:
    return Experiment.from_toml(TEXT, sets=sets, allow_imports=True)


def variants(*vary: str) -> dict[str, Experiment]:
    return {name: made(*sets) for name, sets in read_vary(vary).items()}


TWO = variants("allocator=uniform,round_robin")


def snapshot(folder: Path) -> dict[Path, int]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in files if not LEASE.fullmatch(path.name)}


def set_status(folder: Path, status: str, **meta: str) -> None:
    set_meta(folder, status=status, **meta)


def test_every_variant_is_run_with_every_seed_as_if_alone():
    found = compare(TWO, [0, 3], "out")
    assert list(found) == ["uniform", "round_robin"]
    for name, runs in found.items():
        assert list(runs) == [0, 3]
        for seed, run in runs.items():
            assert run.status == "finished"
            assert run.folder == Path("out") / name / f"seed-{seed}"
            *_, (state, _) = mmfl.rounds(replace(TWO[name], seed=seed))
            assert run.fingerprint == state.fingerprint


def test_one_worker_process_serves_variants_of_any_kind():
    given = variants("tasks.a.model={kind='mlp', hidden=[]},{kind='mlp', hidden=[9, 9]}")
    local = ENGINES.parse({"kind": "local", "workers": 1})
    ours = compare({n: replace(e, engine=local) for n, e in given.items()}, [0, 1], "ours")
    theirs = compare(given, [0, 1], "theirs")
    for name in given:
        for seed in (0, 1):
            assert ours[name][seed].fingerprint == theirs[name][seed].fingerprint


def test_seed_by_seed_so_that_differences_can_be_paired_early():
    plan = Comparison(TWO, [5, 1], "out")
    order = [(run.variant, run.experiment.seed) for run in plan.runs]
    assert order == [("uniform", 5), ("round_robin", 5), ("uniform", 1), ("round_robin", 1)]
    assert plan.todo == 8
    assert not Path("out").exists()
    steps = [(run.variant, record and record.round) for run, record in plan.go()]
    assert steps[:4] == [("uniform", 1), ("uniform", 2), ("uniform", None), ("round_robin", 1)]


def test_finished_runs_are_kept_to_the_byte_and_more_seeds_are_added():
    first = compare(TWO, [0], "out")
    before = snapshot(Path("out"))
    again = Comparison(TWO, [0], "out")
    assert [run.done for run in again.runs] == [True, True]
    assert again.todo == 0
    assert [record for _, record in again.go()] == [None, None]
    assert snapshot(Path("out")) == before
    more = compare({"uniform": TWO["uniform"]}, [0, 1], "out")
    assert more["uniform"][0] == first["uniform"][0]
    assert {p: t for p, t in snapshot(Path("out")).items() if p in before} == before


def test_nothing_is_opened_where_all_is_there(monkeypatch):
    compare(TWO, [0], "out")

    def fail(*_, **__):
        raise AssertionError("an engine was opened")

    monkeypatch.setattr("mmfl.experiment.Inline.open", fail)
    assert compare(TWO, [0], "out")["uniform"][0].status == "finished"


def test_the_engine_and_the_files_seed_do_not_make_another_experiment():
    first = compare(TWO, [0], "out")
    local = ENGINES.parse({"kind": "local", "workers": 1})
    same = {name: replace(e, engine=local, seed=5) for name, e in TWO.items()}
    assert compare(same, [0], "out") == first


@pytest.mark.parametrize("status", ["stopped", "failed", "interrupted"])
def test_a_run_that_came_to_no_end_goes_on(status):
    first = compare(TWO, [0], "out")
    folder = Path("out/uniform/seed-0")
    (folder / "models" / "a.safetensors").unlink()
    (folder / "left.behind").touch()  # whoever put it there
    set_status(folder, "running" if status == "interrupted" else status)
    other = snapshot(Path("out/round_robin"))
    plan = Comparison(TWO, [0], "out")
    assert [run.done for run in plan.runs] == [False, True]
    again = compare(TWO, [0], "out")
    assert again["uniform"][0].fingerprint == first["uniform"][0].fingerprint
    assert (folder / "models" / "a.safetensors").exists()
    assert (folder / "left.behind").exists()
    assert snapshot(Path("out/round_robin")) == other


def test_broken_off_it_goes_on_where_it_was():
    whole = compare(TWO, [0, 1], "whole")
    with closing(Comparison(TWO, [0, 1], "out").go()) as steps:
        for run, record in steps:
            if (run.variant, run.experiment.seed) == ("round_robin", 0) and record:
                break
    assert mmfl.Run.load("out/round_robin/seed-0").status == "stopped"
    kept = snapshot(Path("out/uniform/seed-0"))
    found = compare(TWO, [0, 1], "out")
    assert snapshot(Path("out/uniform/seed-0")) == kept
    for name, runs in whole.items():
        assert {s: r.fingerprint for s, r in found[name].items()} == {
            s: r.fingerprint for s, r in runs.items()
        }


@pytest.mark.parametrize("status", ["finished", "stopped", "failed"])
def test_another_experiments_run_is_refused_and_left_alone(status):
    compare({"x": made("rounds=1")}, [0], "out")
    set_status(Path("out/x/seed-0"), status)
    before = snapshot(Path("out"))
    for changes, said in (
        (["rounds=2"], "rounds was 1 and is now 2"),
        (["rounds=1", "local.momentum=0.5"], "local.momentum was 0.9 and is now 0.5"),
        (["tasks.a.metric=loss"], "rounds was 1 and is now 2 (and 1 more)"),
    ):
        given = {"x": made(*changes)}
        message = one_line(StoreError, lambda g=given: Comparison(g, [0], "out"))
        start = "'out/x/seed-0' holds a run of another experiment"
        assert message == f"{start}: {said}; choose another folder"
    assert snapshot(Path("out")) == before


def test_every_run_of_a_seed_that_is_not_wanted_is_compared():
    compare({"x": made("rounds=1")}, [1], "out")
    compare({"x": made("rounds=2")}, [2], "other")
    Path("other/x/seed-2").rename("out/x/seed-2")
    message = one_line(StoreError, lambda: Comparison({"x": made("rounds=1")}, [0], "out"))
    assert message.startswith("'out/x/seed-2' holds a run of another experiment: rounds was 2")


def test_a_run_of_another_process_counts_as_failed_and_the_others_are_done():
    compare({"x": made()}, [0], "out")
    folder = Path("out/x/seed-0")
    set_status(folder, "running")
    with closing(Lease(folder).take()):
        before = snapshot(folder)
        plan = Comparison({"x": made()}, [0, 1], "out")
        message = one_line(ComparisonError, lambda: list(plan.go(1)))
        assert snapshot(folder) == before
    said = "x, seed 0: 'out/x/seed-0' is in use by another process"
    assert message == f"1 of 2 runs failed: {said}"
    assert [str(error) for error in plan.failed.values()] == [said]
    assert list(plan.results()["x"]) == [1]
    assert list(compare({"x": made()}, [0, 1], "out")["x"]) == [0, 1]


@pytest.mark.parametrize("status", ["running", "finished"])
def test_what_another_process_has_done_meanwhile_is_not_deleted(status):
    plan = Comparison({"x": made()}, [0], "out")
    compare({"x": made()}, [0], "out")
    set_status(Path("out/x/seed-0"), status)
    with closing(Lease(Path("out/x/seed-0")).take()):
        before = snapshot(Path("out"))
        if status == "running":
            assert "another process" in one_line(ComparisonError, lambda: list(plan.go()))
        else:
            assert [record for _, record in plan.go()] == [None]
        assert snapshot(Path("out")) == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "out/x/seed-0").mkdir(parents=True)
    assert compare({"x": made()}, [0], "out")["x"][0].status == "finished"  # it was empty
    (tmp_path / "out/x/seed-1").mkdir()
    (tmp_path / "out/x/seed-1/thesis.txt").touch()
    message = one_line(StoreError, lambda: Comparison({"x": made()}, [1], "out"))
    assert "is not a run directory" in message
    (tmp_path / "file").touch()
    message = one_line(InputError, lambda: compare({"x": made()}, [0], "file"))
    assert message == "'file' is a file; choose a folder for the runs"
    assert "cannot hold a run" in one_line(
        StoreError, lambda: Comparison({"x": made()}, [0], "y" * 300)
    )


@pytest.mark.parametrize("status", ["finished", "stopped"])
@pytest.mark.parametrize("damage", ["rows", "cut", "experiment", "gone"])
def test_a_damaged_run_counts_as_failed_is_left_alone_and_the_others_are_run(damage, status):
    compare({"x": made()}, [0], "out")
    folder = Path("out/x/seed-0")
    set_status(folder, status)
    path = folder / ("experiment.toml" if damage == "experiment" else "run.sqlite")
    if damage == "rows":
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE round_task SET metric = 0.99")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "experiment":
        path.write_text("# mine\n")
    else:
        path.unlink()
    before = snapshot(folder)
    plan = Comparison({"x": made(), "y": made("local.lr=0.5")}, [0, 1], "out")
    assert set(plan.failed) == {("x", 0)}
    assert [run.missing for run in plan.runs] == [False, True, True, True]
    assert plan.todo == 3 * made().rounds
    message = one_line(ComparisonError, lambda: list(plan.go()))
    assert message.startswith("1 of 4 runs failed: x, seed 0: ")
    assert message.endswith("; it is left unchanged")
    assert {name: list(runs) for name, runs in plan.results().items()} == {"x": [1], "y": [0, 1]}
    assert snapshot(folder) == before
    assert one_line(ComparisonError, lambda: compare({"x": made()}, [0, 1], "out")).startswith(
        "1 of 2"
    )


@pytest.mark.parametrize("how", ["changed", "gone", "pipe", "folder"])
def test_a_finished_run_with_a_damaged_model_counts_as_failed_and_is_left_alone(how):
    compare({"x": made()}, [0], "out")
    folder = Path("out/x/seed-0")
    model = folder / "models/a.safetensors"
    content = model.read_bytes()
    model.unlink()
    if how == "changed":
        model.write_bytes(content[:-1] + b"X")
    elif how == "pipe":
        os.mkfifo(model)
    elif how == "folder":
        model.mkdir()
    before = sorted(folder.rglob("*"))
    plan = Comparison({"x": made()}, [0, 1], "out")
    assert set(plan.failed) == {("x", 0)}
    message = one_line(ComparisonError, lambda: list(plan.go()))
    start = f"1 of 2 runs failed: x, seed 0: the run in {str(folder)!r} is damaged: models/a.safe"
    assert message.startswith(start)
    assert message.endswith("; it is left unchanged")
    assert list(plan.results()["x"]) == [1]
    assert sorted(folder.rglob("*")) == before
    set_status(folder, "stopped")  # resuming such a run writes its models again
    assert not Comparison({"x": made()}, [0], "out").failed


@pytest.mark.parametrize(
    "sets",
    [
        ["tasks.a.model=compare_own:Mine"],
        ["tasks.a.dataset={kind='compare_own:data', scale=[1, 2]}"],
        ["tasks.a.metric={kind='compare_own:share', bounds=[0, 1]}"],
        ["allocator={kind='fed_fair', alpha=inf}"],
        ["clients.active=[0.5, 1, 1, 1]", "local.lr={kind='inverse', mu=0.1, gamma=8}"],
    ],
)
def test_a_run_with_anything_in_it_is_recognised(sets, tmp_path, monkeypatch):
    (tmp_path / "compare_own.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    compare({"x": made(*sets)}, [0], "out")
    assert Comparison({"x": made(*sets)}, [0], "out").runs[0].done


def test_seeds_given_twice_are_run_once():
    plan = Comparison({"x": made()}, [0, 0], "out")
    records = [record for _, record in plan.go() if record is not None]
    assert [record.round for record in records] == [1, 2]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("fed_fair alpha=2 floor=1", "fed_fair-alpha=2-floor=1"),
        ("as is", "as-is"),
        ("lr={'y': [1]}", "lr=-y-1"),
        ("../../etc", "etc"),
        ("/absolute", "absolute"),
        ("größer", "größer"),
        ("x" * 300, "x" * 90 + "-" + sha256(b"x" * 300).hexdigest()[:8]),
    ],
)
def test_names_become_folders_below_the_one_that_is_given(name, folder):
    run = Comparison({name: made()}, [4], "out").runs[0]
    assert run.variant == name
    assert run.folder == Path("out") / folder / "seed-4"


@pytest.mark.parametrize(
    ("given", "seeds", "rule"),
    [
        ({}, [0], "at least one variant and one seed"),
        ({"x": made()}, [], "at least one variant and one seed"),
        ({"...": made()}, [0], "must have a letter or a digit"),
        ({"a b": made(), "a-b": made()}, [0], "'a b' and 'a-b' would share a folder"),
        ({"x": made(), "y": made("tasks.a.name=b")}, [0], "the same tasks, in the same order"),
    ],
)
def test_comparisons_that_cannot_be_are_one_sentence(given, seeds, rule):
    assert rule in one_line(InputError, lambda: Comparison(given, seeds, "out"))


def test_a_variant_that_cannot_run_is_named_before_any_is_run():
    given = {"good": made(), "bad": made("tasks.a.loss=mse", "tasks.a.metric=accuracy")}
    message = one_line(MmflError, lambda: compare(given, [0], "out"))
    assert message.startswith("bad, seed 0: task 'a': its loss is for real numbers")
    assert not Path("out").exists()
    with pytest.raises(EngineError):
        compare({"bad": given["bad"]}, [0], "out")


def test_variants_must_be_alike_in_metrics_and_engine():
    for change, rule in (
        ("tasks.a.metric=loss", "by the same metric, got accuracy and loss"),
        ("tasks.a.metric={kind='auc', bins=9}", "got accuracy and auc, bins = 9"),
        ("engine.kind=local", "variants share one engine"),
    ):
        given = {"one": made(), "other": made(change)}
        assert rule in one_line(InputError, lambda g=given: Comparison(g, [0], "out"))


def test_a_run_on_other_data_is_refused_and_left_alone(tmp_path):
    x, y = np.eye(4, dtype=np.float32).repeat(20, axis=0), np.arange(4).repeat(20)
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    one = made("tasks.a.dataset={kind='npz',path='own.npz'}")
    compare({"x": one}, [0], "out", data_dir=tmp_path)
    assert Comparison({"x": one}, [0], "out", data_dir=tmp_path).runs[0].done
    before = snapshot(Path("out"))
    np.savez(tmp_path / "own.npz", x_train=x + 1, y_train=y, x_test=x, y_test=y)
    message = one_line(StoreError, lambda: Comparison({"x": one}, [0], "out", data_dir=tmp_path))
    assert "'out/x/seed-0' holds a run that used different data for task 'a'; choose" in message
    assert snapshot(Path("out")) == before


def test_a_run_that_is_interrupted_in_its_first_moment_leaves_nothing(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    plan = Comparison({"x": made()}, [0], "out")
    with monkeypatch.context() as patch:
        patch.setattr("mmfl.runs.integrity.rows.task_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(plan.go(1))
    assert not Path("out/x/seed-0").exists()
    assert compare({"x": made()}, [0], "out")["x"][0].status == "finished"


def test_a_folder_that_was_left_in_its_first_moment_is_used_again():
    folder = Path("out/x/seed-0")
    folder.mkdir(parents=True)
    first = {"experiment.toml": b"rounds = 1", "environment.json": b"{}"}
    write_mark(folder, first)
    (folder / "experiment.toml").write_bytes(first["experiment.toml"])
    lease = Lease(folder).take()  # as a process has that has only just begun
    busy = "'out/x/seed-0' is in use by another process"
    assert busy in one_line(ComparisonError, lambda: compare({"x": made()}, [0], "out"))
    sqlite3.connect(folder / "run.sqlite").execute("PRAGMA user_version = 1").close()
    assert busy in one_line(ComparisonError, lambda: compare({"x": made()}, [0], "out"))
    lease.close()
    assert compare({"x": made()}, [0], "out")["x"][0].status == "finished"
