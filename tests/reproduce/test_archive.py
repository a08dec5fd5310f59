"""Archives: curves of runs in a file, the same after reading; damaged files; tables of them."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import mmfl
from mmfl.errors import StoreError
from mmfl.reproduce import Archive, ArchivedRun, make_overview
from support.helpers import one_line
from support.made_runs import curves


def archive() -> Archive:
    made = Archive("mine", "small")
    for setting, S in (("two tasks", 2), ("three tasks", 3)):
        for name, level in (("ours", 0.7), ("theirs", 0.5)):
            for seed in (10, 2):
                run = curves(np.full((4, S), level + seed / 1000))
                made.add(setting, name, seed, ArchivedRun(run, "abc", 1.5, "today", ("ab.a",)))
    return made


def test_what_is_saved_is_loaded(tmp_path):
    path, made = tmp_path / "a.json", archive()
    made.save(path)
    same = Archive.load(path, "mine", "small")
    assert [key[:3] for key in same] == [
        (setting, name, seed)
        for setting in ("two tasks", "three tasks")
        for name in ("ours", "theirs")
        for seed in (2, 10)
    ]
    for setting, name, seed, run in same:
        other = made.runs[setting][name][seed]
        np.testing.assert_allclose(run.curves.metric, other.curves.metric, atol=1e-6)
        np.testing.assert_array_equal(run.curves.clients, other.curves.clients)
        assert (run.fingerprint, run.minutes, run.map) == ("abc", 1.5, ("ab.a",))
    assert same.minutes == 12.0
    first = path.read_bytes()
    same.save(path)
    assert path.read_bytes() == first


def test_merits_are_the_same_after_reading_where_lower_is_better(tmp_path):
    made = Archive("mine", "small")
    run = curves([[4.0, 0.3], [2.0, 0.2]], better=["lower", "lower"])
    run = dataclasses.replace(run, kinds=("perplexity", "mae"))
    made.add("s", "v", 0, ArchivedRun(run, "abc", 1.5, "today"))
    made.save(tmp_path / "a.json")
    same = Archive.load(tmp_path / "a.json", "mine", "small").runs["s"]["v"][0].curves
    np.testing.assert_allclose(same.merit, [[0.25, 0.7], [0.5, 0.8]])
    np.testing.assert_allclose(same.merit, run.merit)
    assert same.has_same_metrics(run)


def test_models_that_diverged_are_kept(tmp_path):
    made, bad = Archive("mine", "small"), float("inf")
    run = curves([[bad, -bad], [4.0, 0.5]], better=["lower", "higher"])
    run = dataclasses.replace(run, kinds=("perplexity", "r2"))
    made.add("s", "v", 0, ArchivedRun(run, "abc", 1.5, "today"))
    made.save(tmp_path / "a.json")
    same = Archive.load(tmp_path / "a.json", "mine", "small")
    np.testing.assert_array_equal(same.runs["s"]["v"][0].curves.metric, run.metric)
    assert make_overview(same.variants()).draw()


def test_files_of_runs_where_higher_is_better_are_as_they_were(tmp_path):
    archive().save(tmp_path / "a.json")
    assert "kinds" not in (tmp_path / "a.json").read_text()


def test_runs_are_added_and_replaced():
    one, other = archive(), Archive("mine", "small")
    new = ArchivedRun(curves([[0.9, 0.9]]), "new", 1.0, "now")
    other.add("two tasks", "ours", 2, new)
    other.add("two tasks", "new", 0, new)
    one.update(other)
    assert one.runs["two tasks"]["ours"][2].fingerprint == "new"
    assert one.runs["two tasks"]["ours"][10].fingerprint == "abc"
    assert "new" in one.variants()["two tasks"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"study": "mine", "scale": "small", "runs": {"c": 1}}', "[" * 100_000],
    ids=["empty", "list", "table", "runs", "deep"],
)
def test_a_damaged_file_is_one_sentence(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    assert "a.json" in one_line(StoreError, lambda: Archive.load(path, "mine", "small"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("minutes", "x"),
        ("minutes", float("nan")),
        ("made", [1]),
        ("fingerprint", 3),
        ("tasks", "ab"),
        ("better", ["sideways", "higher"]),
        ("metric", [[0.5] * 4]),
        ("metric", [[10**400] * 4] * 2),
        ("metric", [[float("inf")] * 4] * 2),
        ("clients", [[10**30] * 4] * 2),
        ("clients", [[1.5] * 4] * 2),
        ("kinds", ["accuracy"]),
        ("map", ["a"]),
        ("map", ["A~!?"]),
        ("map", [1]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_run_in_a_file_is_one_sentence(tmp_path, key, value):
    path = tmp_path / "a.json"
    archive().save(path)
    table = json.loads(path.read_text())
    table["runs"]["two tasks"]["ours"]["2"][key] = value
    path.write_text(json.dumps(table))
    said = one_line(StoreError, lambda: Archive.load(path, "mine", "small"))
    assert said.startswith(f"{str(path)!r} does not hold the curves of a study: ")
    assert key in said


@pytest.mark.parametrize("names", [("other", "small"), ("mine", "paper")])
def test_results_of_another_study_or_scale_are_refused(tmp_path, names):
    path = tmp_path / "a.json"
    archive().save(path)
    said = one_line(StoreError, lambda: Archive.load(path, *names))
    assert said.endswith("got 'mine' and 'small'")


def test_no_file_is_no_archive(tmp_path):
    assert Archive.load(tmp_path / "a.json", "mine", "small") is None


def test_a_run_directory_is_archived_with_its_map(tmp_path):
    experiment = mmfl.Experiment.from_dict(
        {
            "rounds": 3,
            "clients": {"count": 4, "active": 0.5},
            "engine": {"kind": "inline"},
            "tasks": [
                {"name": name, "dataset": {"kind": "synthetic", "train": 80, "test": 20}}
                for name in ("one", "two")
            ],
        }
    )
    run = mmfl.run(experiment, out=tmp_path / "run")
    kept = ArchivedRun.of(tmp_path / "run", with_map=True)
    assert kept.fingerprint == run.fingerprint
    assert kept.curves.metric[-1].tolist() == [task["metric"] for task in run.tasks.values()]
    assert {len(row) for row in kept.map} == {3}
    letters = "".join(kept.map)
    assert [letters.count(x) for x in "ab"] == kept.curves.clients.sum(axis=0).tolist()
    assert not ArchivedRun.of(tmp_path / "run").map


def test_an_overview_spans_different_task_sets():
    table = make_overview(archive().variants())
    assert [row[:2] for row in table.rows] == [
        ["two tasks", "ours"],
        ["two tasks", "theirs"],
        ["three tasks", "ours"],
        ["three tasks", "theirs"],
    ]
    assert table.rows[0][2].startswith("*.706")
    assert r"\begin{tabular}{@{}llrrrr@{}}" in table.latex()
    assert table.latex().count(r"\\") == 5
    assert table.markdown().count("\n") >= 5
