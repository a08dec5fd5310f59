"""Workers that die while a fork of them lives, that are stopped, or that a fork of ours finds."""

from __future__ import annotations

import os
import signal
import textwrap
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import mmfl
from mmfl.errors import EngineError
from mmfl.experiment import Clients, Inline, Local
from mmfl.system import calls
from support.warm import children

FORKING = """
import os, signal
from dataclasses import dataclass
from pathlib import Path
from torch import nn

@dataclass(frozen=True)
class Forking:
    path: str
    how: str

    def build(self, shape, outputs):
        return Net(Path(self.path), self.how, shape[0], outputs)

class Net(nn.Linear):
    def __init__(self, path, how, *sizes):
        super().__init__(*sizes)
        self.path, self.how = path, how

    def forward(self, x):
        if self.training and self.how == "forks and dies" and not self.path.exists():
            fork = os.fork()
            if not fork:
                signal.pause()
            self.path.write_text(str(fork))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)
"""


def test_a_worker_that_dies_while_a_fork_of_it_lives_is_replaced(odd, tmp_path: Path):
    (tmp_path / "forking.py").write_text(textwrap.dedent(FORKING))
    experiments = {}
    for how in ("forks and dies", "works"):
        text = odd(how).to_toml().replace("oddities:Odd", "forking:Forking")
        experiments[how] = mmfl.Experiment.from_toml(text, sets=["rounds=1"], allow_imports=True)
    *_, (straight, _) = mmfl.rounds(replace(experiments["works"], engine=Inline()))
    forking = replace(experiments["forks and dies"], engine=Local(workers=1))
    try:
        *_, (state, record) = mmfl.rounds(forking)
    finally:
        os.kill(int((tmp_path / "flag").read_text()), signal.SIGKILL)
    assert record.failures == ()
    assert state.fingerprint == straight.fingerprint


def test_a_worker_that_is_stopped_while_it_starts_is_replaced_after_the_timeout(odd):
    """The clock jumps while the first worker is the only one, and is stopped."""
    started: list[int] = []
    ahead = 0.0

    def stop_first(name, function, args, options):
        nonlocal ahead
        if name == "wait" and len(started) == 1 and not ahead:
            ahead = 1000.0
            return []
        result = function(*args, **options)
        if name == "spawn":
            started.append(result.pid)
            if len(started) == 1:
                os.kill(result.pid, signal.SIGSTOP)
        return result + ahead if name == "monotonic" else result

    engine = Local(workers=1, timeout=900.0)
    experiment = replace(odd("works"), rounds=1, clients=Clients(1), engine=engine)
    with calls.intercept(stop_first):
        [(_, record)] = list(mmfl.rounds(experiment))
    assert len(started) == 2
    assert record.failures == ()


def test_a_fork_of_the_coordinator_can_neither_use_nor_end_its_workers(odd):
    experiment = replace(odd("works"), engine=Local(workers=1))
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        params = engine.initial()
        (before,) = engine.evaluate(params, "test")
        workers = children()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
            fork = os.fork()
        if not fork:
            code = 1
            try:
                list(engine.evaluate(params, "test"))
            except EngineError:
                code = 0
            finally:
                engine.close()
                os._exit(code)
        _, status = os.waitpid(fork, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        (after,) = engine.evaluate(params, "test")
        assert after == before
        assert children() == workers
