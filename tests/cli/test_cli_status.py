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
    assert "exit code is 1 if the run is damaged, and 2 if there is no run that can be read" in said
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


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("command", ["status", "verify"])
def test_the_folder_of_a_comparison_is_told_from_a_run(call, command):
    Path("e.toml").write_text(LEAST_INLINE)
    vary = ("--vary", "allocator.alpha=1,3", "--seeds", "0-1", "--out", "full", "-q")
    assert call("compare", "e.toml", *vary)[0] == 0
    said = "'full' is a comparison; name one of its runs, such as full/alpha=1/seed-0"
    code, out, err = call(command, "full")
    assert (code, out, err) == (2, "", f"mmfl: {said}\n")
    assert call(command, "full/alpha=1/seed-0")[0] == 0
