"""What other processes import: an engine without training, an allocator that makes trouble."""

from __future__ import annotations

import math
import os
import signal
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from mmfl.allocate import Uniform
from mmfl.engines import MockEngine
from mmfl.errors import InputError, MmflWarning
from support.crowd import TASKS, Crowd, mock, step
from support.forking import fork_and_wait

TEXT = """
rounds = 3
[clients]
count = 12
[allocator]
kind = "support.sweeping:Trouble"
how = "none"
[engine]
kind = "support.sweeping:Quick"
""" + "".join(f'[[tasks]]\nname = "{name}"\ndataset.kind = "synthetic"\n' for name in TASKS)


@dataclass(frozen=True)
class Quick:
    """Every turn moves the weights by one; no torch, no data, no workers."""

    def open(self, experiment, *, data_dir):
        engine = QuickEngine(experiment.resolved(), mock().federation, mock().first, step)
        assert isinstance(engine.federation, Crowd)
        return engine


class QuickEngine(MockEngine):
    def prepare(self, experiment):
        object.__setattr__(self, "experiment", experiment.resolved())


@dataclass(frozen=True)
class Broken(Quick):
    """An engine that cannot train: ours is given a function that is not written in Python."""

    def open(self, experiment, *, data_dir):
        return replace(super().open(experiment, data_dir=data_dir), turn=math.sqrt)


@dataclass(frozen=True)
class Trouble:
    """`Uniform`, but in round 2 something happens."""

    how: str
    path: str = ""

    def allocate(self, view, state, *, rng):
        if view.round == 2:
            self.make()
        return Uniform().allocate(view, state, rng=rng)

    def make(self):
        flag = Path(self.path)
        match self.how:
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "dies once" if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            case "exits":
                print("that was all", flush=True)  # noqa: T201
                os._exit(5)
            case "refuses":
                raise InputError("not\nthis one")
            case "raises":
                raise ZeroDivisionError("what now")
            case "warns":
                warnings.warn("beware", MmflWarning, stacklevel=1)
            case "leaves":
                os.chdir("/")
            case "notes":
                flag.write_text(os.environ["OMP_NUM_THREADS"] + os.environ["OPENBLAS_NUM_THREADS"])
            case "forks":
                code = fork_and_wait()
                if code is not None:
                    flag.write_text(str(code))
            case "waits":
                self.wait()

    def wait(self):
        """Say so to whoever reads the pipe, which is open as long as this process lives."""
        os.write(os.open(self.path, os.O_WRONLY), b"x")
        signal.pause()
