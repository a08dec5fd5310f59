"""``mmfl benchmark``: runs, tables, ranks, expected numbers, and a user's own rule."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

SETTING = """
rounds = 2
clients = { count = 6, active = 0.5 }
engine = "inline"
checkpoints = { keep = 0 }
[[tasks]]
name = "easy"
dataset = { kind = "synthetic", train = 60, test = 20 }
[[tasks]]
name = "hard"
dataset = { kind = "synthetic", train = 60, test = 20, classes = 9, noise = 3.0 }
"""
SUITE = """
baseline = "uniform"
[rules]
uniform = { allocator = "uniform" }
fair = { allocator = "fed_fair" }
[scales.full]
[scales.long]
rounds = 3
"""
GREEDY = """
from dataclasses import dataclass
from mmfl.allocate import Uniform

@dataclass(frozen=True)
class Mine:
    def allocate(self, view, state, *, rng):
        return [(client, 0, 1.0) for client in view.clients.tolist()], state
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "suite"
    (folder / "settings").mkdir(parents=True)
    (folder / "suite.toml").write_text(SUITE)
    (folder / "settings/plain.toml").write_text(SETTING)
    (folder / "settings/all_active.toml").write_text(SETTING.replace("0.5", "1.0"))
    return folder


@pytest.fixture
def benchmark(call, suite):
    def benchmark(*options: str) -> tuple[int, str, str]:
        return call("benchmark", "--suite", suite, "--jobs", "1", "--seeds", "0-1", *options)

    return benchmark


def runs() -> set[str]:
    return {str(path.parent.relative_to("runs/benchmark")) for path in Path().rglob("run.sqlite")}


def test_tables_ranks_and_a_picture(benchmark):
    code, out, err = benchmark()
    assert (code, err) == (0, "")
    for words in ("worst", "variance", "area", "rank by mean", "price", "all active"):
        assert words in out
    assert len(runs()) == 8
    assert Path("runs/benchmark/full/benchmark.png").stat().st_size > 1000
    page = Path("runs/benchmark/full/benchmark.md").read_text()
    assert "## variance" in page
    assert "Over 2 settings" in page


def test_finished_runs_are_kept_and_other_seeds_are_not_looked_at(benchmark):
    benchmark()
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("run.sqlite")}
    code, out, _ = benchmark("--settings", "plain", "--rules", "fair", "--seeds", "1", "--json")
    assert code == 0
    assert json.loads(out)["settings"]["plain"]["fair"]["seeds"] == [1]
    assert before == {path: path.stat().st_mtime_ns for path in Path("runs").rglob("run.sqlite")}


def test_numbers_that_are_not_as_stored_are_exit_code_1(benchmark, suite):
    assert benchmark("--store")[0] == 0
    assert (suite / "results/full/benchmark.png").exists()
    code, out, _ = benchmark()
    assert code == 0
    assert "8 of 8 numbers are as stored" in out
    path = suite / "results/full/plain.json"
    table = json.loads(path.read_text())
    for run in table["runs"]["plain"]["fair"].values():
        run["metric"] = [[value + 0.9 for value in row] for row in run["metric"]]
    path.write_text(json.dumps(table))
    code, out, err = benchmark()
    assert code == 1
    assert "6 of 8 numbers are as stored" in out
    assert "by more than the tolerance: plain, fair: worst is" in err


def test_stored_results_stand_in_for_runs(benchmark):
    benchmark("--store")
    shutil.rmtree("runs")
    code, out, _ = benchmark("--figures-only", "--json")
    assert code == 0
    found = json.loads(out)
    assert {one["rule"] for one in found["rules"]} == {"uniform", "fair"}
    assert runs() == set()
    Path("mine.py").write_text(GREEDY)
    code, out, _ = benchmark("--rule", "mine:Mine", "--missing", "--json")
    assert code == 0
    assert len(json.loads(out)["rules"]) == 3
    assert {path.split("/")[2] for path in runs()} == {"mine-Mine"}


def test_a_rule_of_ones_own_joins_and_is_not_stored(benchmark, suite):
    Path("mine.py").write_text(GREEDY)
    code, out, _ = benchmark("--rules", "uniform", "--rule", "mine:Mine", "--store")
    assert code == 0
    assert "mine:Mine" in out
    assert "all_active, mine:Mine: task 'hard' never trained with seeds 0, 1" in out
    assert "mine" not in (suite / "results/full/plain.json").read_text()


def test_a_scale_has_its_own_folder(benchmark):
    code, _, _ = benchmark("--scale", "long", "--settings", "plain", "--rules", "fair")
    assert code == 0
    assert runs() == {"long/plain/fair/seed-0", "long/plain/fair/seed-1"}


def test_runs_of_a_setting_that_was_changed_are_refused(benchmark, suite):
    benchmark("--settings", "plain")
    (suite / "settings/plain.toml").write_text(SETTING.replace("rounds = 2", "rounds = 4"))
    code, _, err = benchmark("--settings", "plain", "--figures-only")
    assert code == 2
    assert "rounds was 2 and is now 4" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rules", "unifrom"), "did you mean 'uniform'"),
        (("--settings", "plan"), "did you mean 'plain'"),
        (("--scale", "tiny"), "--scale: there is no 'tiny'"),
        (("--seeds", "x"), "--seeds takes"),
        (("--rule", "a,b"), "--rule takes module:Name"),
        (("--rule", "nowhere:Rule"), "nowhere"),
        (("--rule", "fed_fare"), "did you mean 'fed_fair'"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_runs(benchmark, options, words):
    code, out, err = benchmark(*options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_without_anything_to_show_it_says_so(benchmark):
    code, out, _ = benchmark("--figures-only")
    assert code == 0
    assert "no finished runs, and no stored results" in out


@pytest.mark.parametrize("setting", ["day_and_night", "regression"])
def test_the_real_suite_runs(call, tmp_path, monkeypatch, setting):
    monkeypatch.chdir(tmp_path)
    options = ("--scale", "smoke", "--rules", "fed_fair", "--seeds", "0", "--settings", setting)
    code, _, err = call("benchmark", *options, "--quiet")
    assert (code, err) == (0, "")
    assert len(runs()) == 1
