"""``mmfl compare --jobs``: what is printed, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import mmfl
from mmfl.cli.views.compare import CompareView
from mmfl.comparison import Comparison, Step
from support.sweeping import TEXT
from support.waiting import wait_until

HANGING = """
import os, signal
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Hanging:
    pipe: str

    def build(self, shape, outputs):
        return Net(self.pipe, shape[0], outputs)

class Net(nn.Module):
    def __init__(self, pipe, inputs, outputs):
        super().__init__()
        self.pipe, self.layer = pipe, nn.Linear(inputs, outputs)

    def forward(self, x):
        if self.training:
            os.write(os.open(self.pipe, os.O_WRONLY), b"x")
            signal.pause()
        return self.layer(x)
"""


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "fair.toml"
    path.write_text(TEXT)
    return path


def test_the_number_of_jobs_changes_no_table_and_no_picture(call, config):
    command = ("compare", config, "--allow-imports", "--seeds", "0-1", "--vary", "rounds=3,4")
    code, one, err = call(*command, "--out", "one")
    assert (code, err) == (0, "")
    assert "at a time" not in one
    code, two, err = call(*command, "--out", "two", "--jobs", "2")
    assert (code, err) == (0, "")
    lines = two.replace("two", "one").split("\n")
    assert lines[0] == "2 runs at a time"
    assert [line.split("  ")[0] for line in lines[1:5]] == [f"run {n}/4" for n in range(1, 5)]
    names = {re.search(r"rounds=\d, seed \d", line)[0] for line in lines[1:5]}
    assert len(names) == 4
    assert lines[5:] == one.split("\n")[4:]
    for name in ("comparison.md", "comparison.png"):
        assert Path("two", name).read_bytes() == Path("one", name).read_bytes()
    data = [json.loads(Path(out, "comparison.json").read_text()) for out in ("one", "two")]
    assert data[0] | {"out": ""} == data[1] | {"out": ""}


@pytest.mark.parametrize("jobs", ["0", "-1", "2.0", "many", ""])
def test_a_number_of_jobs_that_is_none_is_one_sentence(call, config, jobs):
    code, out, err = call("compare", config, "--jobs", jobs)
    assert (code, out) == (2, "")
    assert err == f"mmfl: --jobs takes auto or a whole number >= 1, got {jobs!r}\n"


def start(config: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mmfl", "compare", str(config), "--allow-imports", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*command, "--out", "here"], env=os.environ | path, **pipes)


def statuses() -> list[str]:
    return sorted(mmfl.Run.load(folder).status for folder in Path("here").glob("*/seed-*"))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
)
def test_however_it_is_ended_its_runs_end_too(config, tmp_path, number, code):
    os.mkfifo("pipe")
    sets = ("--set", "allocator.how=waits", "--set", f"allocator.path={tmp_path / 'pipe'}")
    with start(config, *sets, "--jobs", "2", "--seeds", "0-2") as process:
        with open("pipe") as pipe:
            assert pipe.read(2) == "xx"  # both are in their second round
            process.send_signal(number)
            assert pipe.read() == ""  # nobody has it open any more
        _, err = process.communicate()
    assert process.returncode == code
    kept = "(finished runs are in here; run the same command again to resume)"
    assert err == ("" if number == signal.SIGKILL else f"mmfl: stopped {kept}\n")
    status = "interrupted" if number == signal.SIGKILL else "stopped"
    wait_until(lambda: statuses() == [status, status])  # locks end just after pipes, if killed


@pytest.mark.slow
def test_workers_in_the_middle_of_a_turn_end_too(tmp_path):
    os.mkfifo("pipe")
    (tmp_path / "hanging.py").write_text(HANGING)
    config = tmp_path / "hanging.toml"
    config.write_text(
        "rounds = 2\n[clients]\ncount = 2\n[engine]\nworkers = 2\n[[tasks]]\nname = 'a'\n"
        "dataset = { kind = 'synthetic', train = 60, test = 20 }\n"
        f"model = {{ kind = 'hanging:Hanging', pipe = '{tmp_path / 'pipe'}' }}\n"
    )
    with start(config, "--seeds", "0-1") as process:
        with open("pipe") as pipe:
            assert pipe.read(2) == "xx"
            process.send_signal(signal.SIGINT)
            assert pipe.read() == ""
        assert process.wait() == 130
    assert statuses() == ["stopped", "stopped"]


def shown(steps, **options) -> str:
    """What the view shows of (number of the run, round or None)."""
    console = Console(file=StringIO(), width=100, highlight=False, **options)
    given = {name: mmfl.Experiment.from_toml(TEXT, allow_imports=True) for name in "xy"}
    comparison = Comparison(given, [0], "out")
    with CompareView(comparison, console) as view:
        for number, t in steps:
            step = None if t is None else Step(t, {"a": t / 10, "b": float("nan")})
            view.show(comparison.runs[number], step)
    return console.file.getvalue()


BOTH = [(0, 1), (1, 1), (0, 2), (1, 2), (1, 3), (1, None), (0, 3), (0, None)]


def test_in_a_file_there_is_a_line_when_a_run_is_over():
    lines = shown(BOTH).splitlines()
    assert [line.split("  (")[0] for line in lines] == [
        "run 1/2  y, seed 0: a 0.300  b nan",
        "run 2/2  x, seed 0: a 0.300  b nan",
    ]
    assert lines[1].endswith(" 0 s left)")


def test_rounds_that_are_done_again_are_not_counted_twice():
    again = [(0, 1), (0, 2), *BOTH]
    assert shown(again).endswith("(0 s, 0 s left)\n")


def test_on_a_terminal_every_run_that_goes_on_has_its_bar():
    text = shown(BOTH[:5], force_terminal=True)
    last = text[text.rindex("0 of 2 runs") :]
    assert re.search(r"0 of 2 runs .* 83%", last)
    assert re.search(r"x, seed 0 .* 67%", last)
    assert re.search(r"y, seed 0 .* 100%", last)
    text = shown(BOTH, force_terminal=True)
    assert "run 1/2  y, seed 0: a 0.300" in text
    assert "s left)" not in text
    last = text[text.rindex("2 of 2 runs") :]
    assert re.search(r"2 of 2 runs .* 100%", last)
    assert "seed 0" not in last
