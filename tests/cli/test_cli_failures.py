"""What failed is marked in every table, and ends with a non-zero exit code."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import mmfl
from support.experiments import write_small
from support.rewriting import rewrite
from support.sweeping import TEXT as SWEEP

pytestmark = pytest.mark.usefixtures("no_figures")
TEXT = write_small("a", "b")
RAISES = """
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Raises:
    def build(self, shape, outputs):
        return Net(shape[0], outputs)

class Net(nn.Linear):
    def forward(self, x):
        if self.training:
            raise ValueError("not today")
        return super().forward(x)
"""
NEVER = "task 'a' never trained with seeds 0, 1: all"
WHY = "turns failed; most common reason: raised: ValueError: not today"


@pytest.fixture
def config(tmp_path) -> Path:
    (tmp_path / "raising.py").write_text(RAISES)
    path = tmp_path / "fair.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def sweep(tmp_path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def texts(out: str) -> tuple[str, str, dict]:
    folder = Path("here")
    found = json.loads((folder / "comparison.json").read_text())
    return " ".join(out.split()), (folder / "comparison.md").read_text(), found


@pytest.mark.slow
def test_a_variant_whose_task_never_trained_is_marked_in_every_table(call, config):
    vary = ("--vary", "tasks.a.model=mlp,{kind='raising:Raises'}", "--seeds", "0-1")
    code, out, err = call("compare", config, *vary, "--out", "here", "--allow-imports")
    assert code == 3
    name = "raising:Raises"
    assert err.startswith(f"mmfl: {name}: {NEVER}")
    assert err.count("\n") == 1
    shown, text, found = texts(out)
    good, bad = found["variants"]
    for table in (shown, text):
        assert f" {bad['failed_turns']['a']} of " in table
        results, differences = table.split("After the last round")
        assert f"{name} !" in results
        assert f"{name} !" in differences
        assert f"! {name}: {NEVER}" in table
        assert WHY in table
        assert "mlp !" not in table
    assert good["never_trained"] == {}
    assert good["failed_turns"] == {"a": 0, "b": 0}
    assert bad["never_trained"] == {"a": [0, 1]}
    assert bad["failed_turns"]["a"] > 0
    assert found["remarks"][0].startswith(f"! {name}: {NEVER}")
    assert found["failed_runs"] == []
    again = call("compare", config, *vary, "--out", "here", "--allow-imports")
    assert again[0] == 3
    assert again[2] == err


def test_turns_that_failed_are_counted_by_variant(call, config):
    vary = ("--vary", "faults.dropout=0.0,0.5", "--seeds", "0", "--set", "rounds=6")
    code, out, err = call("compare", config, *vary, "--out", "here")
    assert (code, err) == (0, "")
    shown, text, found = texts(out)
    failed = found["variants"][1]["failed_turns"]
    assert found["variants"][0]["failed_turns"] == {"a": 0, "b": 0}
    said = f"dropout=0.5: {sum(failed.values())} of 24 turns failed; most common reason: dropout"
    for table in (shown, text):
        assert "failed turns" in table
        assert " 0 of 24 " in table
        assert f" {sum(failed.values())} of 24 " in table.partition("After the last round")[0]
    for table in (shown, text, " ".join(found["remarks"])):
        assert said in table
        assert "!" not in table


def test_a_task_that_no_client_can_train_is_marked_too(call, config):
    Path("who.csv").write_text("1\n2\n3\n" * 20)
    given = "tasks.a.partition={kind='given', path='who.csv'}"
    sets = ("--set", given, "--set", "clients.active=[1, 0, 0, 0]")
    code, out, err = call("compare", config, *sets, "--seeds", "0", "--out", "here")
    assert code == 3
    assert "task 'a' never trained with seed 0: no client could train it" in err
    assert err.removeprefix("mmfl: ").strip() in texts(out)[0]
    assert "as is !" in texts(out)[1]
    code, out, err = call("run", config, *sets, "--out", "run")
    assert (code, err) == (3, "mmfl: task 'a' never trained: no client could train it\n")
    assert "task 'a' never trained: no client could train it" in out


def test_a_task_that_got_no_turn_by_chance_is_told_of_and_not_an_error(call, config):
    sets = ("--set", "rounds=1", "--set", "clients.active=0.25", "--set", "allocator=round_robin")
    code, out, err = call("compare", config, *sets, "--seeds", "0", "--out", "here")
    assert (code, err) == (0, "")
    shown, text, found = texts(out)
    [(task, seeds)] = found["variants"][0]["never_trained"].items()
    said = f"as is: task {task!r} never trained with seed 0: it got no turn"
    assert seeds == [0]
    for table in (shown, text, " ".join(found["remarks"])):
        assert said in table
        assert "!" not in table
    code, out, err = call("run", config, *sets, "--out", "run")
    assert (code, err) == (0, "")
    assert f"task {task!r} never trained: it got no turn" in out


def test_a_task_that_an_auction_leaves_out_is_told_of_and_not_an_error(call, config):
    Path("bids.csv").write_text("client,a,b\n0,0.1,\n1,0.1,\n")
    with config.open("a") as file:
        file.write(
            '[recruitment]\nbids = { kind = "csv", path = "bids.csv" }\nempty = "leave_out"\n'
            'mechanism = { kind = "budget_fair", budget = 2.0 }\n'
        )
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, _ = call("compare", config, "--seeds", "0", "--out", "here")
    assert code == 0
    shown, _, found = texts(out)
    assert "as is: task 'b' never trained with seed 0: the auction left it out" in shown
    assert found["variants"][0]["never_trained"] == {"b": [0]}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_that_fails_is_marked_and_the_others_are_shown(call, sweep, jobs):
    vary = ("--vary", "allocator.how=none,refuses", "--seeds", "0-1", "--jobs", jobs)
    code, out, err = call("compare", sweep, "--allow-imports", *vary, "--out", "here")
    assert code == 1
    assert err.startswith("mmfl: 2 of 4 runs failed: how=refuses, seed ")
    assert err.count("\n") == 1
    shown, text, found = texts(out)
    for seed in (0, 1):
        said = f"! how=refuses: the run with seed {seed} failed: not this one"
        assert said in shown
        assert said in text
        assert said in found["remarks"]
        assert {"variant": "how=refuses", "seed": seed} | {
            "error": f"how=refuses, seed {seed}: not this one"
        } in found["failed_runs"]
    assert f"how=refuses, seed {seed}: not this one (failed)" in out
    assert [variant["name"] for variant in found["variants"]] == ["how=none"]
    assert found["differences"] == []


def test_a_damaged_run_is_marked_and_the_others_are_run_and_shown(call, sweep):
    command = ("compare", sweep, "--allow-imports", "--vary", "local.lr=0.1,0.2", "--out", "here")
    assert call(*command, "--seeds", "0")[0] == 0
    (kept,) = Path("here").glob("lr=0.2/seed-0")
    (kept / "environment.json").write_text("{}")
    for _ in range(2):
        code, out, err = call(*command, "--seeds", "0-1")
        assert code == 1
        assert err.startswith("mmfl: 1 of 4 runs failed: lr=0.2, seed 0: the run in 'here/lr=0.2/")
        assert err.count("\n") == 1
        shown, text, found = texts(out)
        said = "! lr=0.2: the run with seed 0 failed: the run in 'here/lr=0.2/seed-0' is damaged"
        assert all(
            said in " ".join(where.split()) for where in (shown, text, *found["remarks"][:1])
        )
        assert [failed["seed"] for failed in found["failed_runs"]] == [0]
        assert [variant["seeds"] for variant in found["variants"]] == [[0, 1], [1]]
    assert (kept / "environment.json").read_text() == "{}"


@pytest.mark.slow
def test_pairs_are_of_the_seeds_that_both_have(call, sweep, monkeypatch):
    def make(self):
        if self.how == "some" and Path("fail").exists():
            raise mmfl.errors.InputError("not this one")

    monkeypatch.setattr("support.sweeping.Trouble.make", make)
    command = ("compare", sweep, "--allow-imports", "--vary", "allocator.how=none,some")
    assert call(*command, "--seeds", "0-1", "--out", "here")[0] == 0
    Path("fail").touch()
    code, out, err = call(*command, "--seeds", "0-2", "--out", "here")
    assert code == 1
    assert err == "mmfl: 1 of 6 runs failed: how=some, seed 2: not this one\n"
    shown, _, found = texts(out)
    assert "how=some !" in shown
    assert found["variants"][1]["seeds"] == [0, 1]
    assert found["differences"][0]["worst"]["seeds"] == [0, 1]
    Path("fail").unlink()
    code, out, err = call(*command, "--seeds", "0-2", "--out", "here")
    assert (code, err) == (0, "")
    assert texts(out)[2]["failed_runs"] == []


def test_if_no_run_could_be_done_there_is_one_sentence_and_no_table(call, sweep):
    vary = ("--set", "allocator.how=refuses", "--seeds", "0-4", "--out", "here")
    code, _, err = call("compare", sweep, "--allow-imports", *vary)
    assert code == 2
    first = "; ".join(f"as is, seed {seed}: not this one" for seed in range(3))
    assert err == f"mmfl: 5 of 5 runs failed: {first}; and 2 more\n"
    assert not Path("here/comparison.json").exists()


def test_a_run_in_which_every_turn_of_a_task_failed_ends_with_1_and_is_stored(call, config):
    bad = ("--set", "tasks.a.model={kind='raising:Raises'}", "--allow-imports", "--json", "-q")
    code, out, err = call("run", config, *bad, "--out", "run")
    assert code == 3
    assert err.startswith("mmfl: task 'a' never trained: all ")
    assert WHY in err
    assert err.count("\n") == 1
    found = json.loads(out)
    assert found["never_trained"]["a"] in err
    assert found["tasks"]["a"]["clients"] == 0
    assert found["failed_turns"]["a"] > 0
    assert found["failed_turns"]["b"] == 0
    assert mmfl.Run.load("run").status == "finished"


def test_runs_that_were_not_made_alike_are_told_of_in_every_table(call, config):
    command = ("compare", config, "--seeds", "0-1", "--out", "here")
    assert call(*command)[0] == 0
    path = Path("here/as-is/seed-0/environment.json")
    table = json.loads(path.read_text())
    now = table["versions"]["torch"]
    table["resumed"] = [json.loads(path.read_text()) | {"after_round": 1}]
    table["versions"]["torch"] = "1.0"
    rewrite("here/as-is/seed-0", "environment.json", json.dumps(table))
    path = Path("here/as-is/seed-1/environment.json")
    text = path.read_text().replace(f'"numpy": "{table["versions"]["numpy"]}"', '"numpy": "1.1"')
    rewrite("here/as-is/seed-1", "environment.json", text)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, err = call(*command)
    assert code == 0
    assert err.startswith("mmfl: warning: 'here': not all runs were made with the same setup")
    assert err.count("\n") == 1
    shown, text, found = texts(out)
    exact = "as is: the run with seed 0 is not bit-exact: it was started with torch 1.0, resumed "
    exact += f"after round 1 with torch {now}"
    alike = "not all runs were made with the same setup, which may change results: "
    alike += "numpy 1.1 (1 run), numpy"
    for said in (exact, alike):
        assert said in shown
        assert said in text
        assert any(said in remark for remark in found["remarks"])
    assert "0" in found["variants"][0]["inexact"]
    assert len(found["variants"][0]["made_with"]["numpy"]) == 2
