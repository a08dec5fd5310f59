"""``mmfl plan`` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.experiments import write_small
from support.marks import slow

TEXT = write_small("a", "b", top="rounds = 4", clients="count = 8\nactive = 0.5", train=80)
RECRUITMENT = """
[recruitment]
mechanism = { kind = "max_min_fair", budget = 2.0 }
bids = { kind = "uniform" }
"""


@pytest.fixture
def config(tmp_path) -> Path:
    (tmp_path / "fair.toml").write_text(TEXT)
    (tmp_path / "paid.toml").write_text(TEXT + RECRUITMENT)
    return tmp_path / "fair.toml"


@pytest.fixture
def paid(config) -> Path:
    return config.with_name("paid.toml")


@pytest.fixture
def run(call, config) -> Path:
    assert call("run", config, "--out", "first", "-q")[0] == 0
    return Path("first")


def test_a_block_for_each_alpha_and_budget_and_a_row_for_each_task(call, paid):
    code, out, err = call("plan", paid, "--alpha", "1,3", "--budget", "0.0001,2", "--draws", "3")
    assert (code, err) == (0, "")
    head, _, second, *lines = out.splitlines()
    assert head == "4 rounds, 3 draws each; difficulty: the same for all tasks"
    assert second.split() == [
        *("recruited", "nobody", "spent", "a", "round", "of", "turns", "rounds")
    ]  # fmt: skip
    labels = ["alpha 1, budget 0.0001", "alpha 3, budget 0.0001", "alpha 1, budget 2", "alpha 3, b"]
    assert [line[: len(label)] for line, label in zip(lines[::3], labels, strict=False)] == labels
    assert [line.split()[0] for line in lines[1:3]] == ["a", "b"]
    assert any(line.startswith("All tasks are assumed equally hard, so alpha") for line in lines)
    assert "standard errors" in out
    assert max(map(len, lines[:12])) <= 100


def test_nobody_is_recruited_at_a_budget_of_nothing_and_the_plan_goes_on(call, paid):
    whole = ("--set", "recruitment.mechanism.fractional=false")
    code, out, _ = call("plan", paid, "-b", "0.0001,2", "--draws", "2", "--json", *whole)
    assert code == 0
    nothing, something = json.loads(out)["scenarios"]
    assert nothing["nobody"] == {"mean": 1.0, "error": 0.0}
    assert nothing["tasks"]["a"]["starved"]["mean"] == 1.0
    assert something["nobody"]["mean"] == 0.0
    assert 0 < something["spent"]["mean"] <= 2


def test_json_has_the_documented_keys(call, config, run):
    code, out, err = call(
        "plan",
        config,
        "--alpha",
        "1,inf",
        "--run",
        run,
        "--target",
        "0.01",
        "--draws",
        "2",
        "--json",
    )
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {
        *("scenarios", "rounds", "draws", "tasks", "source", "runs", "beta", "notes"),
    }  # fmt: skip
    assert (found["source"], found["runs"], found["draws"]) == ("runs", ["first"], 2)
    first, last = found["scenarios"]
    assert (first["alpha"], last["alpha"]) == (1.0, "inf")
    assert set(first) == {"alpha", "budget", "tasks", "active", "spent", "nobody"}
    assert (first["budget"], first["spent"]) == (None, None)
    task = first["tasks"]["a"]
    assert set(task) == {
        *("clients", "share", "starved", "take_up", "spend", "nobody"),
        *("difficulty", "metric", "extrapolated", "reach"),
    }
    assert set(task["clients"]) == {"mean", "error"}
    assert set(task["reach"]) == {"target", "median", "low", "high", "reached", "extrapolated"}


def test_with_a_run_there_are_metrics_and_rounds_to_a_target(call, config, run):
    code, out, _ = call("plan", config, "--run", run, "--target", "a=0.01,b=1", "--draws", "2")
    assert code == 0
    assert "the curves of 1 run" in out
    assert "These runs cannot show how much additional clients per round would help" in out
    (a,) = [line for line in out.splitlines() if line.startswith("  a ")]
    (b,) = [line for line in out.splitlines() if line.startswith("  b ")]
    assert a.endswith(" 1 (1-1)")
    assert b.endswith(" >4")
    assert "(a .01, b 1.00)" in out
    _, same, _ = call("plan", config, "--run", run, "--target", "1", "--draws", "2")
    assert "to 1.00" in same
    assert "not within 4 rounds" in same


def test_a_folder_of_mmfl_compare_is_all_of_its_runs(call, config):
    vary = ("--vary", "clients.active=0.25,1.0", "--seeds", "0", "--out", "both", "-q")
    assert call("compare", config, *vary)[0] == 0
    code, out, _ = call("plan", config, "--run", "both", "--draws", "1", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["runs"] == ["both/active=0.25/seed-0", "both/active=1.0/seed-0"]
    assert set(found["beta"]) == {"a", "b"}


@pytest.mark.parametrize("kind", ["png", slow("svg")])
def test_the_figure_is_written_and_is_the_same_every_time(call, paid, kind):
    asked = ("--alpha", "1,3", "-b", "1,2", "--draws", "2", "--figure")
    assert call("plan", paid, *asked, f"x/one.{kind}")[1].endswith(f"wrote x/one.{kind}\n")
    call("plan", paid, *asked, f"two.{kind}")
    assert Path(f"x/one.{kind}").read_bytes() == Path(f"two.{kind}").read_bytes()


SUCH = "must be like fashion=0.4,digits=0.1, got"
MISTAKES = [
    (("--alpha", "1,x"), "--alpha takes numbers like 1,2,3,5 or 1-5, got '1,x'"),
    (("--alpha", ""), "--alpha takes numbers like 1,2,3,5 or 1-5, got ''"),
    (("--alpha", "0.5"), "--alpha must be greater than or equal to 1, got 0.5"),
    (("--alpha", "nan"), "--alpha must be greater than or equal to 1, got nan"),
    (
        ("--alpha", "2", "--set", "allocator.kind=uniform"),
        "--alpha: the allocator 'uniform' has no",
    ),
    (("--budget", "3"), "--budget: the experiment has no [recruitment], so nothing is spent"),
    (("--budget", "x"), "--budget takes amounts like 10,20,29 or 1-60, got 'x'"),
    (("--budget", "0"), "--budget must be a finite number greater than 0, got 0"),
    (("--budget", "inf"), "--budget must be a finite number greater than 0, got inf"),
    (("--difficulty", "0.4"), f"--difficulty {SUCH} '0.4'"),
    (("--difficulty", "a=x"), f"--difficulty {SUCH} 'a=x'"),
    (("--difficulty", "a=1,a=2"), "--difficulty: task 'a' is given twice"),
    (("--difficulty", "a=1"), "--difficulty: task 'b' is missing; every task needs one"),
    (("--difficulty", "a=1,c=2"), "--difficulty: no task is called 'c'; known: a, b"),
    (("--difficulty", "a=1,b=nan"), "--difficulty of task 'b' must be finite and >= 0, got nan"),
    (("--beta", "0.5"), "--beta applies only to the curves of runs; give a run"),
    (("--beta", "nan", "--run", "x"), "--beta must be in [0, 1], got nan"),
    (("--draws", "0"), "--draws must be a whole number >= 1, got 0"),
    (("--target", "0.5"), "--target: only learning curves show when it is reached; give a run"),
    (("--target", "a"), "--target must be a number, or like fashion=0.4,digits=0.1, got 'a'"),
    (("--run", "nowhere"), "--run: 'nowhere' does not exist"),
    (
        ("--run", "."),
        "--run: '.' does not contain a run (neither it nor its folders have run.sqlite)",
    ),
    (
        ("--run", "x", "--difficulty", "a=1,b=1"),
        "--difficulty and --run cannot be used together: both say how hard the tasks are",
    ),
    (("--figure", "x.gif"), "a figure's file must end in .png, .svg or .pdf, got 'x.gif'"),
    (("--set", "rounds=0"), "--set: rounds must be greater than or equal to 1, got 0"),
    (("--set", "clients.active=0.01"), "clients.active = 0.01 of 8 clients that hold data leaves"),
]


@pytest.mark.parametrize(("options", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence_that_names_the_option(call, config, options, sentence):
    code, out, err = call("plan", config.name, *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"mmfl: {sentence}")
    assert err.count("\n") == 1


def test_a_target_that_is_no_number_and_one_of_no_task_are_refused(call, config, run):
    for target, sentence in (
        ("nan", "--target of task 'a' must be a finite number, got nan"),
        ("a=inf", "--target of task 'a' must be a finite number, got inf"),
        ("2", "--target of task 'a' must be at most 1, got 2"),
        ("z=1", "--target: no task is called 'z'; known: a, b"),
    ):
        code, out, err = call("plan", config, "--run", run, "--target", target)
        assert (code, out, err) == (2, "", f"mmfl: {sentence}\n")


def test_a_run_of_something_else_is_refused(call, config, run):
    code, _, err = call("plan", config, "--run", run, "--set", "score=loss")
    assert code == 2
    assert err == (
        "mmfl: --run 'first' scored tasks by 'error', but the experiment uses 'loss', so "
        "difficulties differ\n"
    )
