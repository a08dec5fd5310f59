"""Several signals within a moment: one clean stop, one sentence, and never a traceback."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mmfl

STORM = """
import atexit, os, signal, sys

NUMBERS = [signal.Signals[name] for name in sys.argv.pop(1).split(",")]
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # under nohup some are ignored
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

def storm():
    # Blocked until all were sent, so that all of them arrive at once.
    signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    for number in NUMBERS:
        os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)

def storm_before(owner, name):
    do = getattr(owner, name)
    def changed(*arguments, **options):
        storm()
        return do(*arguments, **options)
    setattr(owner, name, changed)
"""
RUN = (
    STORM
    + """
from mmfl.cli import main
from mmfl.cli.views.progress import ProgressView
from mmfl.runs.checkpoints import CheckpointStore
from mmfl.runs.store import RunStore

def show(self, record):
    if record.round == 2:
        storm()

ProgressView.show = show
storm_before(CheckpointStore, "save")
storm_before(RunStore, "seal")
storm_before(ProgressView, "__exit__")
atexit.register(storm)
main()
"""
)


@pytest.fixture
def config(small_toml) -> Path:
    path = Path("fair.toml")
    path.write_text(small_toml)
    return path


def run_script(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    Path("script.py").write_text(script)
    command = [sys.executable, "script.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ("SIGTERM,SIGHUP", {129, 143}),
        ("SIGINT", {130}),
        ("SIGINT,SIGTERM,SIGHUP", {129, 130, 143}),
    ],
)
def test_a_storm_of_signals_stops_a_run_once(config, numbers, codes):
    sets = ("--set", "rounds=50", "--set", "checkpoints.rounds=40", "--out", "run")
    done = run_script(RUN, numbers, "run", config, *sets)
    assert done.returncode in codes
    assert done.stderr == (
        "mmfl: stopped after round 2 of 50; resume with: mmfl run fair.toml --set rounds=50 "
        "--set checkpoints.rounds=40 --out run --resume\n"
    )
    run = mmfl.Run.load("run")
    assert (run.status, run.rounds, run.saved) == ("stopped", 2, 2)


def test_the_round_named_is_the_round_saved(config):
    """A signal may arrive when a round is stored and not yet shown."""
    script = (
        STORM
        + """
from mmfl.cli import main
from mmfl.runs.runner import _Saving

take = _Saving.take
def take_then_storm(self, state):
    take(self, state)
    if state.round == 3:
        storm()

_Saving.take = take_then_storm
main()
"""
    )
    done = run_script(script, "SIGHUP", "run", config, "--set", "rounds=50", "--out", "run")
    assert done.returncode == 129
    assert re.match("mmfl: stopped after round 3 of 50; resume with: ", done.stderr)
    assert mmfl.Run.load("run").saved == 3


def test_a_storm_stops_a_comparison_once(config):
    script = (
        STORM
        + """
from mmfl.cli import main
from mmfl.cli.views.compare import CompareView

CompareView.show = lambda *_: storm()
storm_before(CompareView, "__exit__")
atexit.register(storm)
main()
"""
    )
    words = ("compare", config, "--seeds", "0", "--jobs", "1", "--out", "out")
    done = run_script(script, "SIGINT,SIGTERM,SIGHUP", *words)
    assert done.returncode in (129, 130, 143)
    assert done.stderr == (
        "mmfl: stopped (finished runs are in out; run the same command again to resume)\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_storm_before_the_work_begins_is_silent(config, number):
    script = (
        STORM
        + """
from mmfl.cli import main
from mmfl.experiment import Experiment

storm_before(Experiment, "load")
atexit.register(storm)
main()
"""
    )
    done = run_script(script, number.name, "check", config)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


EARLY = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Signalling(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), int(sys.argv[1]))

sys.meta_path.insert(0, Signalling())
from mmfl.__main__ import main
main()
"""


@pytest.mark.cold
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_is_imported_ends_it_without_a_word(number):
    done = run_script(EARLY, str(int(number)))
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
