"""``mmfl status``: its JSON, its exit codes, and what it says of folders without a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import stored_rounds
from support.experiments import LEAST_INLINE


def test_json_has_the_status_and_the_planned_rounds(call, small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
        running = json.loads(call("status", "run", "--json")[1])
    stopped = json.loads(call("status", "run", "--json")[1])
    mmfl.run(small, "run", resume=True)
    finished = json.loads(call("status", "run", "--json")[1])
    keys = ("status", "rounds", "planned", "saved")
    assert [running[key] for key in keys] == ["running", 1, 3, 0]
    assert [stopped[key] for key in keys] == ["stopped", 1, 3, 1]
    assert [finished[key] for key in keys] == ["finished", 3, 3, 3]


def test_the_exit_codes_are_those_of_the_help(call, small):
    said = " ".join(call("status", "--help")[1].split())
    assert "exit code is 1 if a run is damaged, and 2 if there is no run that can be read" in said
    mmfl.run(small, "run")
    assert call("status", "run")[0] == 0
    text = Path("run/experiment.toml")
    text.write_text(text.read_text() + "# changed\n")
    assert call("status", "run")[0] == 1
    Path("run/run.sqlite").write_bytes(b"not a database" * 100)
    assert call("status", "run")[0] == 2
    assert call("status", "nowhere")[0] == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", "'nowhere' does not exist"),
        ("file", "'file' is a file, not a run directory"),
        ("empty", "'empty' is not a run directory (it has no run.sqlite)"),
    ],
)
@pytest.mark.parametrize("command", ["status", "verify"])
def test_what_is_not_a_run_is_one_sentence(call, command, name, sentence):
    Path("file").touch()
    Path("empty").mkdir()
    assert call(command, name) == (2, "", f"mmfl: {sentence}\n")


@pytest.fixture
def comparison(call, no_figures) -> str:
    """A comparison of two variants and two seeds."""
    Path("e.toml").write_text(LEAST_INLINE)
    vary = ("--vary", "allocator.alpha=1,3", "--seeds", "0-1", "--out", "full", "-q")
    assert call("compare", "e.toml", *vary)[0] == 0
    return "full"


def test_verify_wants_the_runs_of_a_comparison(call, comparison):
    said = "'full' is a comparison; name one of its runs, such as full/alpha=1/seed-0"
    assert call("verify", comparison) == (2, "", f"mmfl: {said}\n")
    assert call("verify", "full/alpha=1/seed-0")[0] == 0


def test_a_comparison_is_shown_run_by_run(call, comparison):
    code, out, err = call("status", comparison)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "full: 4 runs, finished, 4 of 4 rounds"
    names = [f"alpha={alpha}/seed-{seed}" for alpha in (1, 3) for seed in (0, 1)]
    assert [line.split()[0] for line in lines[2:]] == names
    data = json.loads(call("status", comparison, "--json")[1])
    alone = json.loads(call("status", "full/alpha=3/seed-1", "--json")[1])
    assert data["runs"][3] == {"variant": "alpha=3", "seed": 1, **alone}


def test_a_damaged_run_of_a_comparison_gives_exit_code_1(call, comparison):
    text = Path("full/alpha=3/seed-0/experiment.toml")
    text.write_text(text.read_text().replace("rounds = 1", "rounds = 2"))
    Path("full/alpha=1/seed-1/run.sqlite").write_bytes(b"not a database")
    code, out, err = call("status", comparison)
    assert code == 1
    assert out.startswith("full: 4 runs, 2 finished, 2 damaged, ")
    assert "mmfl: the run in 'full/alpha=1/seed-1' is damaged and should not be trusted: " in err
    assert "full/alpha=3/seed-0: damaged: experiment.toml does not match its hash" in out
    code, out, _ = call("status", comparison, "--json")
    assert code == 1
    assert [one["status"] for one in json.loads(out)["runs"]][1] == "damaged"
    assert json.loads(out)["runs"][2]["damage"].startswith("experiment.toml")
