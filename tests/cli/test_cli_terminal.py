"""The terminal, or what stands for it: it may be closed before the start, or in the middle."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mmfl

MMFL = [sys.executable, "-m", "mmfl"]
LONG = ("--out", "run", "--set", "rounds=100000")


@pytest.fixture
def config(small_toml) -> Path:
    path = Path("fair.toml")
    path.write_text(small_toml)
    return path


def without(closed: str, *arguments: str | Path) -> int:
    """The exit code of a command that a shell starts with some of its standard files closed."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *MMFL, *map(str, arguments)]
    return subprocess.run(command).returncode


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_it_trains_and_stores_without_standard_files(config, closed):
    engine = ("--engine", "local", "--set", "engine.workers=1")
    assert without(closed, "run", config, *engine, "--out", "run") == 0
    run = mmfl.Run.load("run")
    assert run.status == "finished"
    assert run.fingerprint == mmfl.run(mmfl.Experiment.load(config), "same").fingerprint


@pytest.mark.slow
def test_so_does_a_comparison(config):
    sets = ("--set", "rounds=1", "--jobs", "2", "--seeds", "0-1")
    assert without("<&- >&- 2>&-", "compare", config, *sets, "--out", "out") == 0
    assert Path("out/comparison.json").read_text().startswith("{")


def test_a_mistake_is_exit_code_2_there_too(config):
    assert without(">&- 2>&-", "run", config, "--set", "local.rl=1") == 2


def test_what_is_opened_first_is_not_in_the_place_of_a_standard_file():
    script = (
        "import os\n"
        "from mmfl.system.child import temporary_file\n"
        "file = temporary_file()\n"
        "print('for a person', flush=True)\n"
        "os.write(2, b'for a person')\n"
        "assert file.fileno() > 2\n"
        "assert os.fstat(file.fileno()).st_size == 0\n"
        "assert all(os.get_inheritable(number) for number in (0, 1, 2))\n"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script]
    assert subprocess.run(command).returncode == 0


@pytest.mark.slow
def test_a_terminal_that_is_closed_saves_the_run(config):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MMFL, "run", str(config), *LONG],
        preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509
        pass_fds=[theirs],
    )
    os.close(theirs)
    shown = b""
    while not re.search(rb"round [1-9]\d* of", shown):  # any: timing decides
        shown += os.read(ours, 65536)
    os.close(ours)
    assert process.wait() == 129
    run = mmfl.Run.load("run")
    assert run.status == "stopped"
    assert run.saved == run.rounds >= 1


def test_where_a_hangup_is_ignored_it_goes_on(config):
    Path("script.py").write_text(
        "import signal\nfrom mmfl.__main__ import main\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nmain()\n"
    )
    words = ("script.py", "run", str(config), "--out", "run", "--set", "rounds=30")
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"round ")
    process.send_signal(signal.SIGHUP)
    process.communicate()
    assert process.returncode == 0
    assert mmfl.Run.load("run").status == "finished"
