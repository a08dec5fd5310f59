"""What the harness runs: runs, resumed runs and comparisons, and the processes that they start.

A scenario is prepared once. Each case gets a copy of the prepared folder, and runs one command in a
forked process with an injector in the coordinator or in one of the processes that it starts.
Afterwards the same command, undisturbed, must succeed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chaos.calls.injector import Call, Injector, beat_often, read_log
from chaos.child import live
from mmfl.system.calls import intercept

__all__ = [
    "DATA",
    "SCENARIOS",
    "Outcome",
    "Scenario",
    "alive_in_session",
    "fingerprints",
    "prepare",
    "run_command",
]

HERE = Path(__file__).resolve().parent
SECONDS = 120.0

DATA = "data"
"""The folder of data sets, if the scenario has one."""

EXPERIMENT = """
seed = 4
rounds = 3
score = "loss"
[clients]
count = 6
active = 0.7
[local]
steps = 2
batch_size = 8
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 5.0 }
[checkpoints]
rounds = 1
keep = 2
[engine]
kind = "ENGINE"
[[tasks]]
name = "first"
dataset = { kind = "synthetic", classes = 3, train = 120, test = 40, noise = 0.5 }
model = { kind = "mlp", hidden = [4] }
[[tasks]]
name = "second"
dataset = { kind = "synthetic", classes = 4, train = 120, test = 40, noise = 0.5, seed = 2 }
model = { kind = "mlp", hidden = [4], dropout = 0.2 }
"""

_BIDS = 'bids = { kind = "uniform", low = 0.1, high = 1.0 }'
_FIRST = """dataset = { kind = "synthetic", classes = 3, train = 120, test = 40, noise = 0.5 }
model = { kind = "mlp", hidden = [4] }
"""
_SECOND = (
    'dataset = { kind = "synthetic", classes = 4, train = 120, test = 40, noise = 0.5, seed = 2 }'
)
_FROM_FILES = {
    _BIDS: 'bids = { kind = "csv", path = "bids.csv" }',
    _FIRST: """dataset = { kind = "npz", path = "images.npz" }
model = { kind = "mlp", hidden = [4] }
warm_start = "start.safetensors"
partition = { kind = "given", path = "owners.npy" }
""",
    _SECOND: """dataset = "table"
partition = { kind = "given", path = "owners.csv" }""",
}
"""Parts of the experiment, and what replaces them to read files."""


@dataclass(frozen=True)
class Scenario:
    """A command, and where in it calls are made to fail.

    Attributes:
        name: What it is called in results.
        arguments: Of ``mmfl``; OUT stands for the folder of results.
        engine: Which engine the experiment names.
        stop: The call at which the run is killed in preparation; 0 = starts from nothing.
        module: The process in which calls fail; "" is the coordinator.
        files: Whether data, partitions, bids and initial weights come from files.
        in_thread: Whether it runs in a thread of a program that uses mmfl as a library.
    """

    name: str
    arguments: tuple[str, ...]
    engine: str = "inline"
    stop: int = 0
    module: str = ""
    files: bool = False
    in_thread: bool = False

    @property
    def starts_processes(self) -> bool:
        """Whether several processes take part, so that the calls depend on time."""
        return self.engine == "local" or self.module != "" or self.arguments[-2:] == ("--jobs", "2")

    @property
    def compares(self) -> bool:
        """Whether it is a comparison of several runs."""
        return self.arguments[0] == "compare"


_RUN = ("run", "small.toml", "--out", "OUT", "--resume", "--json", "--quiet")
_COMPARE = (
    *("compare", "small.toml", "--vary", "allocator.kind=fed_fair,uniform", "--seeds", "0"),
    *("--set", "rounds=1", "--out", "OUT", "--json", "--quiet", "--jobs"),
)
_ONE = ("--set", "engine.workers=1")

SCENARIOS = (
    Scenario("run", _RUN),
    Scenario("run, from files", (*_RUN, "--data-dir", DATA), files=True),
    Scenario("resume", _RUN, stop=1),
    Scenario("comparison", (*_COMPARE, "1")),
    Scenario("run, with workers", (*_RUN, *_ONE), engine="local"),
    Scenario("resume, with workers", (*_RUN, *_ONE), engine="local", stop=1),
    Scenario("comparison, two at a time", (*_COMPARE, "2"), engine="inline"),
    Scenario("in a worker", (*_RUN, *_ONE), engine="local", module="mmfl.engines.worker"),
    Scenario("in a sweeper", (*_COMPARE, "2"), module="mmfl.comparison.worker"),
    Scenario("run in a thread, with workers", (*_RUN, *_ONE), engine="local", in_thread=True),
)


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: Its exit code; minus the signal that ended it.
        out: What it printed.
        err: What it wrote to standard error.
        hung: Whether it was killed because it took too long.
        left: Processes and temporary files that it left behind.
        reached: Whether the call that should fail came.
    """

    code: int
    out: str
    err: str
    hung: bool
    left: tuple[str, ...]
    reached: bool = False


def run_command(
    scenario: Scenario, folder: Path, call: Call | None = None, how: str = "", log: str = ""
) -> Outcome:
    """Run a scenario's command in its own process, in `folder`, whose results are in `out`."""
    temporary = folder / "temporary"
    mark = folder / "reached"
    mark.unlink(missing_ok=True)
    temporary.mkdir(exist_ok=True)
    names = [folder / "stdout", folder / "stderr"]
    files = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) for name in names]
    child = os.fork()
    if child == 0:
        live(lambda: _command(scenario, folder, _injector(scenario, call, how, log, mark)), *files)
    hung, code = False, _wait(child)
    if code is None:
        hung = True
        os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = [f"process {name}" for name in _wait_for_session(child)]
    left += [f"file {name}" for name in os.listdir(temporary)]
    for file in files:
        os.close(file)
    out, err = (name.read_bytes().decode("utf-8", "replace") for name in names)
    return Outcome(code, out, err, hung, tuple(left), mark.exists())


def _injector(scenario: Scenario, call: Call | None, how: str, log: str, mark: Path) -> Injector:
    settings: dict[str, Any] = {"number": 0, "log": log}
    if call is not None:
        settings |= {"number": call.number, "thread": call.thread, "how": how, "mark": str(mark)}
    if not scenario.module:
        return Injector(**settings)
    started: list[list[str]] = []

    def wrap(command: list[str]) -> list[str]:
        """Put an injector into the first process of the module in question."""
        if scenario.module not in command or started:
            return command
        started.append(command)
        at = command.index("-c")
        return [
            *command[:at],
            str(HERE / "injector.py"),
            json.dumps(settings),
            *command[at + 2 :],
        ]

    return Injector(0, spawned=wrap)


def _command(scenario: Scenario, folder: Path, injector: Injector) -> None:
    """Run the scenario's command in a child, with an injector."""
    sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
    os.chdir(folder)
    os.environ |= {"TMPDIR": str(folder / "temporary"), "COLUMNS": "200"}
    tempfile.tempdir = None
    warnings.resetwarnings()
    beat_often()
    from mmfl.cli import main

    sys.argv = ["mmfl", *("out" if word == "OUT" else word for word in scenario.arguments)]
    with intercept(injector):
        if scenario.in_thread:
            _run_in_thread()
        else:
            main()


def _run_in_thread() -> None:
    """Do what the first scenario with workers does, as a program with threads would."""
    import mmfl
    from mmfl.errors import MmflError

    ended: list[str] = []

    def work() -> None:
        try:
            experiment = mmfl.Experiment.load("small.toml", sets=["engine.workers=1"])
            mmfl.run(experiment, out="out", resume=True)
            ended.append("")
        except (MmflError, OSError) as error:
            ended.append(f"mmfl: {error}")
        except MemoryError:
            ended.append("mmfl: out of memory")

    thread = threading.Thread(target=work, name="program")
    thread.start()
    thread.join()
    if not ended:
        sys.exit(1)  # Python has printed the traceback
    if ended[0]:
        print(ended[0], file=sys.stderr)
        sys.exit(2)


def _wait(child: int) -> int | None:
    limit = time.monotonic() + SECONDS
    while True:
        late = time.monotonic() > limit  # before checking: this process itself may have been paused
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if late:
            return None
        time.sleep(0.005)


def alive_in_session(session: int) -> list[str]:
    """The processes of a session, as "number: command"."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with suppress(OSError, ValueError):
            text = Path(f"/proc/{name}/stat").read_text()
            state, _, _, its = text.rpartition(")")[2].split()[:4]
            if int(its) == session and state not in "ZX":
                command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"{name}: {command.decode(errors='replace')[:200]}")
    return found


def _wait_for_session(session: int) -> list[str]:
    """The processes of a session that are still alive after a moment; they are killed."""
    limit = time.monotonic() + 5.0
    while (left := alive_in_session(session)) and time.monotonic() < limit:
        time.sleep(0.01)
    for name in left:
        with suppress(ProcessLookupError):
            os.kill(int(name.partition(":")[0]), signal.SIGKILL)
    return left


def prepare(scenario: Scenario, folder: Path) -> Path:
    """Make the folder that a scenario starts from."""
    made = folder / "prepared"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    text = EXPERIMENT.replace("ENGINE", scenario.engine)
    first = Scenario("prepare", _RUN, engine=scenario.engine)
    if scenario.files:
        (made / "small.toml").write_text(text)
        run_command(first, made)
        shutil.move(made / "out/models/first.safetensors", made / "start.safetensors")
        shutil.rmtree(made / "out")
        _make_files(made)
        for before, after in _FROM_FILES.items():
            assert before in text
            text = text.replace(before, after)
    (made / "small.toml").write_text(text)
    if scenario.stop:
        log = folder / "log"
        run_command(first, made, log=str(log))
        shutil.rmtree(made / "out")
        middle = [call for call in read_log(log) if call.name == "rename" and not call.thread]
        run_command(first, made, middle[len(middle) // 2], "kill")
        assert (made / "out").is_dir()
    return made


def _make_files(folder: Path) -> None:
    """The files that the experiment from files reads, except the weights."""
    (folder / DATA).mkdir()
    draw = np.random.default_rng(0)
    for name, classes in (("images", 3), ("table", 4)):
        parts = {"x_train": (120, 16), "x_test": (40, 16)}
        arrays: dict[str, Any] = {k: draw.normal(size=v) for k, v in parts.items()}
        arrays |= {"y_train": np.arange(120) % classes, "y_test": np.arange(40) % classes}
        np.savez(folder / DATA / f"{name}.npz", **arrays)
    owners = np.arange(120) % 6
    np.save(folder / "owners.npy", owners)
    np.savetxt(folder / "owners.csv", owners[::-1], fmt="%d")
    rows = [f"{client},{0.1 * (client + 1):.1f},{0.7 - 0.1 * client:.1f}" for client in range(6)]
    (folder / "bids.csv").write_text("\n".join(["client,first,second", *rows, ""]))


def fingerprints(out: Path) -> dict[str, Any]:
    """The fingerprint and the measurements of each run below `out`, by its folder."""
    from mmfl.errors import StoreError
    from mmfl.runs import Run

    found = {}
    for database in sorted(out.glob("**/run.sqlite")):
        try:
            run = Run.load(database.parent)
            told = json.dumps([run.fingerprint, run.status, run.rounds, run.history, run.tasks])
        except StoreError as error:
            told = str(error)
        found[str(database.parent.relative_to(out))] = told
    return found
