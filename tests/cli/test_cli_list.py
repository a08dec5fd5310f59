"""``mmfl list``: every state, comparisons, broken and foreign folders, and its JSON."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import find_runs, read_overview, stored_rounds
from mmfl.system.calls import intercept
from support.experiments import LEAST_INLINE, write_small


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_toml) -> Path:
    """A folder with a finished run and a comparison of two variants and two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    run = mmfl.run(mmfl.Experiment.from_toml(small_toml), folder / "done")
    assert run.status == "finished"
    text = write_small("a", "b")
    fair, even = (
        mmfl.Experiment.from_toml(text, sets=[f"allocator.kind={kind}"])
        for kind in ("uniform", "fed_fair")
    )
    mmfl.compare({"uniform": fair, "fair!": even}, [2, 10], folder / "both", jobs=1)
    return folder


@pytest.fixture
def runs(made, tmp_path) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(made, "runs")
    return Path("runs")


def cells(out: str) -> dict[str, list[str]]:
    """The words of each line after its first."""
    return {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:]}


def test_a_run_is_a_line_and_a_comparison_has_one_for_each_variant(call, runs):
    code, out, err = call("list")
    assert (code, err) == (0, "")
    done = mmfl.Run.load("runs/done")
    lines = cells(out)
    assert list(lines) == ["both/", "fair", "uniform", "done"]
    assert lines["done"][:4] == ["finished", "3/3", f"{done.worst:.3f}"[1:], f"{done.mean:.3f}"[1:]]
    assert lines["both/"][:2] == ["finished", "8/8"]
    assert "  uniform (2 seeds)  finished     4/4" in out
    both = [mmfl.Run.load(f"runs/both/uniform/seed-{seed}").worst for seed in (2, 10)]
    assert f"{sum(both) / 2:.3f}"[1:] in lines["uniform"]


def test_all_shows_each_run_and_so_does_the_folder_of_a_comparison(call, runs):
    names = [f"both/{variant}/seed-{seed}" for variant in ("fair", "uniform") for seed in (2, 10)]
    assert list(cells(call("list", "--all")[1])) == [*names, "done"]
    assert list(cells(call("list", "runs/both")[1])) == [n.removeprefix("both/") for n in names]
    assert list(cells(call("list", "runs/done")[1])) == ["runs/done"]


def test_variants_have_the_order_and_the_names_of_the_comparison(call, runs):
    names = {"variants": [{"name": "uniform"}, {"name": "fair!"}, {"name": "gone"}, {"name": 3}]}
    Path("runs/both/comparison.json").write_text(json.dumps(names))
    assert list(cells(call("list")[1])) == ["both/", "uniform", "fair!", "done"]


def test_json_has_what_the_store_has(call, runs):
    data = json.loads(call("list", "--json")[1])
    assert (data["folder"], data["not_runs"], data["not_read"]) == ("runs", [], [])
    assert len(data["runs"]) == 5
    for one in data["runs"]:
        run = mmfl.Run.load(one["run_dir"])
        assert one["worst"] == run.worst
        assert one["mean"] == pytest.approx(run.mean, abs=1e-15)
        assert one["tasks"] == {name: task["metric"] for name, task in run.tasks.items()}
        assert one["history"] == [min(row) for row in zip(*run.history.values(), strict=True)]
        assert (one["state"], one["fingerprint"]) == (run.status, run.fingerprint)
        files = [path for path in run.folder.rglob("*") if path.is_file()]
        assert one["bytes"] == sum(path.stat().st_size for path in files)
    where = {(one["comparison"], one["variant"], one["seed"]) for one in data["runs"]}
    assert ("runs/both", "fair", 10) in where
    assert (None, None, None) in where


def test_it_tells_states_apart(call, small):
    with stored_rounds(small, "runs/live") as rounds:
        call("list")
        next(rounds)
        assert cells(call("list")[1])["live"][:2] == ["running", "1/3"]
    assert cells(call("list")[1])["live"][:2] == ["stopped", "1/3"]
    with closing(sqlite3.connect("runs/live/run.sqlite")) as database, database:
        database.execute("UPDATE meta SET value = 'running' WHERE key = 'status'")
    assert cells(call("list")[1])["live"][0] == "interrupted"
    for path in Path("runs/live").glob("run.sqlite*"):
        path.unlink()
    assert cells(call("list")[1])["live"][:4] == ["interrupted", "0/?", "-", "-"]


def change(statement: str) -> None:
    with closing(sqlite3.connect("runs/done/run.sqlite")) as database, database:
        database.execute(statement)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda: Path("runs/done/run.sqlite").write_bytes(b"no"), "file is not a database"),
        (lambda: Path("runs/done/models/dense.safetensors").unlink(), "dense.safetensors is miss"),
        (lambda: os.truncate("runs/done/experiment.toml", 10), "not have the size that was writ"),
        (lambda: change("DELETE FROM round WHERE round = 3"), "its rounds are not complete"),
        (lambda: change("UPDATE round_task SET metric = 'x'"), "values of a wrong type"),
        (lambda: change("UPDATE meta SET value = 'y' WHERE key = 'rounds'"), "is not a number"),
        (lambda: change("UPDATE meta SET value = 9 WHERE key = 'rounds'"), "has 3 of 9 rounds"),
        (lambda: change("UPDATE meta SET value = 'x' WHERE key = 'status'"), "not one of a run's"),
        (lambda: change("UPDATE meta SET value = '[]' WHERE key = 'files'"), "meta.files is malf"),
        (lambda: change("CREATE VIEW evil AS SELECT 1"), "view 'evil' is not one of a run's"),
        (lambda: change("DROP TABLE round_task"), "no such table: round_task"),
    ],
)
def test_a_broken_run_is_listed_as_damaged(call, runs, spoil, said):
    spoil()
    code, out, err = call("list")
    assert (code, err) == (0, "")
    lines = cells(out)
    assert lines["done"][0] == "damaged"
    assert lines["uniform"][2] == "finished"
    (line,) = [line for line in out.splitlines() if line.startswith("runs/done: damaged: ")]
    assert said in line
    assert "Traceback" not in out


def test_foreign_folders_are_named_and_links_are_not_followed(call, runs):
    Path("runs/notes/deep/down").mkdir(parents=True)
    Path("runs/notes/again").symlink_to(Path("runs").resolve())
    Path("runs/linked").symlink_to(Path("runs/done").resolve())
    Path("runs/.hidden").mkdir()
    Path("runs/file").touch()
    Path("runs/a\x1b[31mb").mkdir()
    code, out, err = call("list")
    assert (code, err) == (0, "")
    assert list(cells(out))[:-1] == ["both/", "fair", "uniform", "done", "linked"]
    assert out.splitlines()[-1] == "no run in a\\x1b[31mb, notes"


def test_runs_are_found_in_groups_but_not_at_any_depth(call, runs):
    shutil.copytree("runs/done", "runs/one/two/three")
    shutil.copytree("runs/done", "runs/x/y/z/too/deep")
    out = call("list")[1]
    assert "one/two/three" in cells(out)
    assert "no run in x" in out


def test_a_folder_that_cannot_be_read_is_named(call, runs):
    def fail(name, act, args, kwargs):
        if name == "listdir" and str(args[0]).endswith("both"):
            raise PermissionError(13, "Permission denied")
        return act(*args, **kwargs)

    with intercept(fail):
        code, out, err = call("list")
    assert (code, err) == (0, "")
    assert "not read: both" in out


def test_an_empty_folder_and_none_are_one_sentence(call):
    assert call("list") == (2, "", "mmfl: 'runs' does not exist\n")
    Path("runs").mkdir()
    assert call("list") == (0, "no runs in runs\n", "")
    Path("file").touch()
    assert call("list", "file") == (2, "", "mmfl: 'file' is a file, not a folder\n")


def test_a_locked_database_does_not_stop_the_list(call, runs):
    with closing(sqlite3.connect("runs/done/run.sqlite", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        code, out, err = call("list")
    assert (code, err) == (0, "")
    assert cells(out)["done"][:2] == ["locked", "0/?"]


def test_a_perplexity_counts_as_in_the_tables(small):
    run = mmfl.run(small, "run")
    with closing(sqlite3.connect("run/run.sqlite")) as database, database:
        database.execute("UPDATE task SET metric = 'perplexity', better = 'lower' WHERE number = 0")
        database.execute("UPDATE round_task SET metric = 8.0 WHERE task = 0")
    found = read_overview(Path("run"))
    merits = [1 / 8, run.tasks["image"]["metric"]]
    assert found.worst == pytest.approx(min(merits))
    assert found.mean == pytest.approx(sum(merits) / 2)


def test_a_folder_with_too_many_folders_is_not_searched_to_the_end(monkeypatch, runs):
    monkeypatch.setattr("mmfl.runs.catalog._MOST", 2)
    found = find_runs(Path("runs"))
    assert [path.name for path in found.unread] == ["seed-2"]


def test_a_run_that_has_written_only_its_mark_is_listed(call):
    Path("e.toml").write_text(LEAST_INLINE)
    assert call("run", "e.toml", "-q")[0] == 0
    for path in [*Path("runs/e").glob("run.sqlite*"), Path("runs/e/environment.json")]:
        path.unlink(missing_ok=True)
    assert cells(call("list")[1])["e"][:2] == ["interrupted", "0/?"]
