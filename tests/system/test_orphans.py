"""A coordinator that is killed leaves no process behind, whatever its children compute."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment
from support.marks import slow

pytestmark = pytest.mark.cold  # the real start of processes is what is tested

DEADLINE = 60.0
"""Seconds: only a failure takes as long."""

MODULE = """
import itertools, os
from dataclasses import dataclass
import torch
from torch import nn

@dataclass(frozen=True)
class Busy:
    how: str
    pipe: str

    def build(self, shape, outputs):
        return Net(self.how, self.pipe, shape[0], outputs)

class Net(nn.Module):
    def __init__(self, how, pipe, inputs, outputs):
        super().__init__()
        self.how, self.pipe, self.layer = how, pipe, nn.Linear(inputs, outputs)

    def forward(self, x):
        if self.training:
            os.write(os.open(self.pipe, os.O_WRONLY), b"x")
            if self.how == "python":
                while True:
                    pass
            if self.how == "native with the lock":
                sum(itertools.repeat(0, 10**15))
        return self.layer(x)
"""
TEXT = """
rounds = 3
[clients]
count = 4
[local]
epochs = 1
[engine]
kind = "local"
workers = 2
[[tasks]]
name = "busy"
dataset = { kind = "synthetic", classes = 3, train = 60, test = 20 }
model = { kind = "busy_models:Busy", how = "HOW", pipe = "PIPE" }
"""
IN_MAIN = """
import mmfl, sys
list(mmfl.rounds(mmfl.Experiment.load("busy.toml", allow_imports=True)))
"""
IN_THREAD = f"""
import threading
code = {IN_MAIN!r}
thread = threading.Thread(target=exec, args=(code, {{}}))
thread.start()
thread.join()
"""
SWEEP = """
import mmfl
mmfl.compare({"x": mmfl.Experiment.load("busy.toml", allow_imports=True)}, [0, 1], "out", jobs=2)
"""


def descendants(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def wait_for_pipe(pipe: int, count: int) -> None:
    """Wait until so many processes have begun to compute."""
    heard = b""
    while len(heard) < count:
        assert select.select([pipe], [], [], DEADLINE)[0], "nobody computes"
        heard += os.read(pipe, 100)


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "busy_models.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), *sys.path)))
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)

    def start(script: str, how: str, engine: str = "local") -> list[int]:
        """Start a coordinator, kill it when two processes compute; the processes that it had."""
        text = TEXT.replace("HOW", how).replace("PIPE", str(tmp_path / "pipe"))
        if engine == "inline":
            text = text.replace('kind = "local"\nworkers = 2', 'kind = "inline"')
        (tmp_path / "busy.toml").write_text(text)
        coordinator = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
        try:
            wait_for_pipe(pipe, 2)
            found = descendants(coordinator.pid)
            return [os.pidfd_open(pid) for pid in found]
        finally:
            coordinator.kill()
            coordinator.wait()

    yield start
    os.close(pipe)


def all_end(processes: list[int]) -> bool:
    """Whether all of these end; those that do not are killed."""
    ended = [bool(select.select([process], [], [], DEADLINE)[0]) for process in processes]
    for process, gone in zip(processes, ended, strict=True):
        if not gone:
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)
    return all(ended)


@pytest.mark.parametrize(
    ("script", "how"),
    [
        slow(IN_MAIN, "python"),
        slow(IN_MAIN, "native with the lock"),
        (IN_THREAD, "native with the lock"),
    ],
    ids=lambda value: "thread" if value == IN_THREAD else "main" if value == IN_MAIN else value,
)
def test_workers_that_compute_end_with_a_coordinator_that_is_killed(busy, script, how):
    processes = busy(script, how)
    assert len(processes) == 2
    assert all_end(processes)


@pytest.mark.slow
def test_sweepers_and_their_workers_end_with_a_coordinator_that_is_killed(busy, tmp_path):
    processes = busy(SWEEP, "python")
    assert len(processes) == 4
    assert all_end(processes)
    for seed in (0, 1):
        assert mmfl.Run.load(tmp_path / f"out/x/seed-{seed}").status == "interrupted"


@pytest.mark.slow
def test_sweepers_that_hold_the_lock_end_with_a_coordinator_that_is_killed(busy):
    processes = busy(SWEEP, "native with the lock", "inline")
    assert len(processes) == 2
    assert all_end(processes)


@pytest.mark.slow
def test_workers_outlive_the_thread_that_started_them():
    text = TEXT.replace(', how = "HOW", pipe = "PIPE"', "").replace("busy_models:Busy", "mlp")
    experiment = Experiment.from_toml(text)
    opened, others = [], descendants(os.getpid())  # the others: what the tests themselves started
    thread = threading.Thread(
        target=lambda: opened.append(experiment.engine.open(experiment, data_dir=None))
    )
    thread.start()
    thread.join()
    with closing(opened[0]) as engine:
        workers = descendants(os.getpid())
        assert len(workers) - len(others) == 2
        *_, (_, record) = mmfl.rounds(experiment, engine=engine)
        assert record.failures == ()
        assert descendants(os.getpid()) == workers
