"""Nobody reads the output any more: short commands end in silence, training goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mmfl


@pytest.fixture
def config(small_toml) -> Path:
    path = Path("fair.toml")
    path.write_text(small_toml)
    Path("bids.csv").write_text("client,a,b\nanna,0.25,0.4\nbert,,0.3\n")
    return path


@pytest.fixture
def into_closed_pipe():
    """From a command's arguments to its exit code and standard error."""
    read, write = os.pipe()
    os.close(read)

    def start(*arguments: str | Path, **surroundings: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "mmfl", *map(str, arguments)],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | surroundings,
        )
        return done.returncode, done.stderr

    yield start
    os.close(write)


@pytest.mark.parametrize("surroundings", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_run_goes_on_without_a_reader(into_closed_pipe, config, surroundings):
    code, err = into_closed_pipe("run", config, "--out", "run", **surroundings)
    assert (code, err) == (0, "mmfl: standard output was closed; the run continues without it\n")
    assert mmfl.Run.load("run").status == "finished"


def test_so_does_a_run_whose_result_nobody_reads(into_closed_pipe, config):
    code, err = into_closed_pipe("run", config, "--out", "run", "--json", "-q")
    assert (code, err) == (0, "mmfl: standard output was closed; the run continues without it\n")


@pytest.mark.slow
def test_so_does_a_comparison(into_closed_pipe, config):
    command = ("compare", config, "--set", "rounds=1", "--seeds", "0", "--jobs", "1")
    code, err = into_closed_pipe(*command, "--out", "out")
    assert code == 0
    assert err == "mmfl: standard output was closed; the comparison continues without it\n"
    assert Path("out/comparison.json").read_text().startswith("{")


def test_a_run_goes_on_if_no_stream_is_read(config):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "mmfl", "run", str(config), "--out", "run"]
    done = subprocess.run(command, stdout=write, stderr=write)
    os.close(write)
    assert done.returncode == 0
    assert mmfl.Run.load("run").status == "finished"


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "schema",
        "check fair.toml",
        "auction run bids.csv -b 1",
        "auction run bids.csv -b 1 --json",
        "plan fair.toml --draws 1",
        "data list",
    ],
)
def test_a_short_command_ends_in_silence(into_closed_pipe, config, command):
    assert into_closed_pipe(*command.split()) == (141, "")


def test_so_does_status(into_closed_pipe, small):
    mmfl.run(small, "run")
    assert into_closed_pipe("status", "run") == (141, "")
