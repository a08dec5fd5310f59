"""``mmfl verify`` and the mark that ``mmfl status`` gives to a damaged run."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import verify
from mmfl.system.calls import intercept


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


MODEL = "models/image.safetensors"
DAMAGED = {
    "changed": "does not match its hash",
    "longer": "does not match its hash",
    "gone": "is missing",
    "pipe": "cannot be read: it is a pipe, not a file",
    "folder": "cannot be read: Is a directory",
}


def replace_model(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how != "gone":
        path.write_bytes(content + b"x" if how == "longer" else content[:-1] + b"X")


def test_the_status_names_a_damaged_model(call, run):
    shutil.copytree(run, "sound")
    for how, said in DAMAGED.items():
        replace_model(run / MODEL, how)
        damage = f"{MODEL} {said}"
        code, out, err = call("status", run)
        assert (code, out.partition("\n")[0]) == (1, "run: finished, 3 of 3 rounds, DAMAGED")
        assert err == f"mmfl: the run in 'run' is damaged and should not be trusted: {damage}\n"
        code, out, _ = call("status", run, "--json")
        assert (code, json.loads(out)["damage"]) == (1, damage)
        shutil.rmtree(run)
        shutil.copytree("sound", run)
    shutil.rmtree(run / "models")
    spoil(run)
    names = ("models/dense.safetensors is missing", f"{MODEL} is missing")
    damage = "; ".join(["round 2 does not match its hash", *names])
    assert json.loads(call("status", run, "--json")[1])["damage"] == damage


def test_a_model_that_is_about_to_be_written_is_not_missing(call, small):
    """The hashes of models are noted before they are written: a live run is not damaged."""
    seen = []

    def look(name, function, args, options):
        if name == "rename" and str(args[1]).endswith(".safetensors") and "models" in str(args[1]):
            seen.append((call("status", "run")[0], verify("run").damaged))
        return function(*args, **options)

    with intercept(look):
        mmfl.run(small, "run")
    assert seen == [(0, False)] * 2
    assert call("status", "run")[0] == 0


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
