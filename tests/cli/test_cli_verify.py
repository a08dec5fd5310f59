"""``mmfl verify`` and the mark that ``mmfl status`` gives to a damaged run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import mmfl


@pytest.fixture
def run(small) -> Path:
    return mmfl.run(small, "run").folder


def spoil(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "run.sqlite")) as database, database:
        database.execute("UPDATE round SET samples = samples + 1 WHERE round = 2")


def test_a_line_for_each_part_and_exit_code_0(call, run):
    code, out, err = call("verify", run)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "run: run.sqlite: ok"
    assert "run: models/image.safetensors: ok" in lines
    assert all(line.endswith(": ok") for line in lines)


def test_what_is_damaged_is_named_with_exit_code_1(call, small, run):
    mmfl.run(small, "other")
    spoil(run)
    (run / "models" / "dense.safetensors").unlink()
    code, out, err = call("verify", "other", run)
    assert (code, err) == (1, "")
    bad = [line for line in out.splitlines() if not line.endswith(": ok")]
    assert bad == [
        "run: run.sqlite: damaged: round 2 does not match its hash",
        "run: models/dense.safetensors: damaged: missing",
    ]
    code, out, err = call("verify", "other", run, "--json")
    assert (code, err) == (1, "")
    first, second = json.loads(out)["runs"]
    assert (first["damaged"], second["damaged"]) == (False, True)
    assert second["parts"][0] == {
        "name": "run.sqlite",
        "verdict": "damaged",
        "detail": "round 2 does not match its hash",
    }


def test_what_is_no_run_is_one_sentence(call):
    assert call("verify", "nowhere") == (
        *(2, ""),
        "mmfl: 'nowhere' does not exist\n",
    )


def test_the_status_of_a_damaged_run_is_shown_with_a_mark(call, run):
    spoil(run)
    code, out, err = call("status", run)
    assert code == 1
    assert out.startswith("run: finished, 3 of 3 rounds, DAMAGED\n")
    damage = "round 2 does not match its hash"
    assert err == f"mmfl: the run in 'run' is damaged and should not be trusted: {damage}\n"
    code, out, err = call("status", run, "--json")
    assert code == 1
    assert json.loads(out)["damage"] == damage
    assert err.count("\n") == 1


def test_a_warning_cannot_speak_to_the_terminal(capsys):
    from mmfl.cli import _show_warning

    _show_warning("a \x1b[31mred word", mmfl.errors.MmflWarning, "", 0)
    assert capsys.readouterr().err == "mmfl: warning: a \\x1b[31mred word\n"


def test_the_status_says_what_cannot_be_verified(call, run):
    from support.rewriting import make_older

    make_older(run)
    code, out, err = call("status", run)
    assert (code, err) == (0, "")
    assert "cannot be verified (written by an older version of mmfl)\n" in out
