"""``mmfl compare RUN RUN ...``: finished runs, as they are; nothing is trained."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import mmfl
from mmfl.report import collect, summary
from mmfl.runs import stored_rounds
from support.experiments import write_small

TEXT = write_small("a", "b")
KINDS = ("uniform", "fed_fair")


def experiment(*sets: str) -> mmfl.Experiment:
    return mmfl.Experiment.from_toml(TEXT, sets=list(sets))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A comparison, and loose runs: x with two seeds, y with another allocator."""
    folder = tmp_path_factory.mktemp("runs")
    variants = {kind: experiment(f"allocator.kind={kind}") for kind in KINDS}
    mmfl.compare(variants, [0, 1], folder / "both", jobs=1)
    for name, sets in {
        "x": ("seed=3",),
        "x-2": ("seed=4",),
        "y": ("allocator.kind=uniform",),
    }.items():
        mmfl.run(experiment(*sets), folder / name)
    return folder


@pytest.fixture(autouse=True)
def runs(made, tmp_path) -> Path:
    shutil.copytree(made, "runs")
    return Path("runs")


def test_the_tables_are_those_of_the_comparison_itself(call):
    Path("e.toml").write_text(TEXT)
    vary = ("--vary", f"allocator.kind={','.join(KINDS)}", "--seeds", "0-1", "--jobs", "1")
    assert call("compare", "e.toml", *vary, "--out", "runs/again", "--target", "0.2", "-q")[0] == 0
    code, out, err = call("compare", "runs/again", "--json", "--target", "0.2")
    assert (code, err) == (0, "")
    was, now = json.loads(Path("runs/again/comparison.json").read_text()), json.loads(out)
    assert now["runs"]["fed_fair"]["1"] == "runs/again/fed_fair/seed-1"
    for key in ("tasks", "target", "variants", "differences", "remarks"):
        assert now[key] == was[key]
    shown = call("compare", "runs/again", "--target", "0.2")[1]
    for line in Path("runs/again/comparison.md").read_text().splitlines():
        if line.startswith("Each row minus"):
            assert line.partition(" Bold")[0] in shown
    assert call("compare", "runs/again", "--target", "0.2", "--out", "tables", "-q")[0] == 0
    written = Path("tables/comparison.md").read_text()
    assert written == Path("runs/again/comparison.md").read_text()


def test_runs_that_differ_in_their_seed_are_one_variant(call):
    data = json.loads(call("compare", "runs/x", "runs/y", "runs/x-2", "--json")[1])
    assert data["runs"] == {"x": {"3": "runs/x", "4": "runs/x-2"}, "y": {"0": "runs/y"}}
    found = {variant["name"]: variant for variant in data["variants"]}
    for name, folders in (("x", ("x", "x-2")), ("y", ("y",))):
        values = [mmfl.Run.load(Path("runs") / folder).worst for folder in folders]
        assert found[name]["worst"]["values"] == values


def test_a_folder_of_runs_has_all_of_them_and_the_same_run_counts_once():
    found = collect([Path("runs"), Path("runs/y"), Path("runs/x").resolve()])
    assert {name: list(by_seed) for name, by_seed in found.runs.items()} == {
        "fed_fair": [0, 1],
        "uniform": [0, 1],
        "x": [3, 4],
        "y": [0],
    }
    assert summary(found.variants[0]).seeds == (0, 1)


def test_equal_names_are_told_apart():
    shutil.copytree("runs/both", "runs/twin")
    shutil.copytree("runs/x", "other/x")
    names = list(collect([Path("runs"), Path("other")]).runs)
    assert names == [
        *("both/fed_fair", "both/uniform", "twin/fed_fair", "twin/uniform"),
        *("runs/x", "runs/y", "other/x"),
    ]


def test_a_run_twice_with_one_seed_is_two_variants(call):
    shutil.copytree("runs/y", "copy")
    data = json.loads(call("compare", "runs/y", "copy", "--json")[1])
    assert data["differences"][0]["worst"]["mean"] == 0


def test_what_is_not_finished_or_damaged_is_left_out_and_said(call):
    with stored_rounds(experiment("seed=9"), "runs/z") as rounds:
        next(rounds)
    with closing(sqlite3.connect("runs/y/run.sqlite")) as database, database:
        database.execute("UPDATE round SET samples = samples + 1")
    code, out, err = call("compare", "runs/x", "runs/z", "runs/y")
    assert code == 1
    left = "runs/z is left out: it is stopped after round 1 of 2"
    assert f"! {left}" in out
    assert "! runs/y is left out: it is damaged: round 1 does not match its hash" in out
    assert err == "mmfl: runs/y is left out: it is damaged: round 1 does not match its hash\n"
    code, out, err = call("compare", "runs/z")
    assert (code, out) == (2, "")
    assert err == "mmfl: no run is finished; runs/z: it is stopped after round 1 of 2\n"


def test_other_data_and_other_lengths_are_remarked(call):
    mmfl.run(experiment("rounds=3", "tasks.b.dataset.seed=7"), "runs/long")
    out = call("compare", "runs/x", "runs/long")[1]
    assert "! long: task 'b' has another data set than in x" in out
    assert "the runs have from 2 to 3 rounds; the tables have the metrics after the last" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("runs/x", "--vary", "a=1"),
            "--vary changes an experiment, but runs are compared as they",
        ),
        (("runs/x", "--jobs", "1"), "--jobs changes an experiment, but runs are compared as they"),
        (("runs/x", "e.toml"), "'e.toml': an experiment and runs cannot be compared together"),
        (("runs/x", "gone"), "'gone': there is no such file or folder"),
        (("e.toml", "e.toml"), "one experiment can be compared at a time, got 2 files"),
        (("empty",), "there is no run in 'empty'"),
        (("runs/x", "--out", "runs/x"), "--out: 'runs/x' is a run directory; choose another fold"),
        (("runs/x", "--figure", "x.gif"), "a figure's file must end in .png, .svg or .pdf"),
    ],
)
def test_mistakes_are_one_sentence(call, words, sentence):
    Path("e.toml").write_text(TEXT)
    Path("empty").mkdir()
    code, out, err = call("compare", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"mmfl: {sentence}" in err


def test_other_tasks_cannot_be_compared(call):
    mmfl.run(mmfl.Experiment.from_toml(write_small("a")), "runs/alone")
    code, _, err = call("compare", "runs/x", "runs/alone")
    assert code == 2
    assert "variants must have the same tasks and metrics to be compared: 'alone' has a (" in err


def test_a_figure_is_drawn_if_it_is_asked_for(call):
    pytest.importorskip("matplotlib")
    assert call("compare", "runs/both", "-q", "--figure", "f.svg") == (0, "", "")
    assert Path("f.svg").read_text().startswith("<?xml")
