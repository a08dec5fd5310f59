"""Write a state to a folder, resume the run in it, and compare the result.

Each state is resumed in its own forked process: starting Python and torch takes seconds, a
fork of a process that has them takes milliseconds.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import mmfl
from chaos.power.disk import Tree, write_tree
from chaos.power.scenarios import RUN
from mmfl.errors import MmflError, MmflWarning
from mmfl.runs import Run, stored_rounds
from mmfl.system import calls

__all__ = ["SECONDS", "Pool", "Reference", "look", "reference", "resume", "warm_up"]

SECONDS = 60.0
"""A state that takes longer than this to resume counts as hanging."""

MEMORY = 8 << 30
_TIMES = ("seconds", "seconds_train", "seconds_evaluate", "seconds_setup", "seconds_checkpoints")


@dataclass(frozen=True)
class Reference:
    """How an uninterrupted run ends."""

    experiment: mmfl.Experiment
    facts: dict[str, Any]


def warm_up() -> None:
    """Prepare for forking: one thread, and a heap that the children do not touch."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def reference(toml: str, folder: Path) -> Reference:
    """Run an experiment without interruption."""
    experiment = mmfl.Experiment.from_toml(toml)
    mmfl.run(experiment, folder)
    return Reference(experiment, look(folder))


def look(folder: Path) -> dict[str, Any]:
    """Everything that a run directory says about a run's result, and nothing about its duration."""
    run = Run.load(folder)
    facts = {f.name: repr(getattr(run, f.name)) for f in dataclasses.fields(run)}
    for name in ("folder", *_TIMES):
        del facts[name]
    facts["experiment.toml"] = (folder / "experiment.toml").read_text(encoding="utf-8")
    for path in sorted((folder / "models").glob("*")):
        facts[f"models/{path.name}"] = path.read_bytes().hex()
    return facts


def resume(
    tree: Tree, known: Reference, root: Path, *, finished: bool, peek: bool
) -> dict[str, Any]:
    """Resume a state; returns what happened.

    Args:
        tree: The folder after the power cut; see `RUN`.
        known: How it must end.
        root: An empty folder to put it in.
        finished: Whether the run had returned before the cut.
        peek: Whether to read it before it is resumed, as `mmfl status` does.
    """
    write_tree(tree, root)
    folder = root / RUN
    found: dict[str, Any] = {"after": -1, "wrong": []}
    with warnings.catch_warnings(record=True) as told, calls.intercept(_later):
        warnings.simplefilter("always")
        try:
            if peek:
                with suppress(MmflError):
                    Run.load(folder)
            if finished and (different := _different(known.facts, look(folder))):
                found["wrong"].append(f"it had finished, and now {different} differ")
            with stored_rounds(known.experiment, folder, resume=True) as rounds:
                rounds.start()
                found["after"] = rounds.after
                for _ in rounds:
                    pass
            if different := _different(known.facts, look(folder)):
                found["wrong"].append(f"{different} differ from the straight run's")
            if parts := sorted(p.name for p in folder.rglob("*.part")):
                found["wrong"].append(f"unfinished files are left: {parts}")
        except MmflError as error:
            found["wrong"].append(f"refused: {str(error).replace(str(root), '')}")
        except Exception as error:
            found["wrong"].append(f"traceback: {type(error).__name__}: {error}")
            found["traceback"] = traceback.format_exc()
    found["warnings"] = [str(w.message) for w in told if issubclass(w.category, MmflWarning)]
    found["wrong"] += [
        f"{w.category.__name__}: {w.message}"
        for w in told
        if not issubclass(w.category, MmflWarning)
    ]
    return found


def _later(
    name: str, real: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Set the clock an hour after the power cut, when the machine is back."""
    return real(*args, **named) + 3600.0 if name == "now" else real(*args, **named)


def _different(known: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    return sorted(k for k in known.keys() | facts.keys() if known.get(k) != facts.get(k))


class Pool:
    """Several forked processes at the same time, each with one state.

    Args:
        folder: For their folders and answers.
        size: The number of processes.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._running: dict[int, tuple[int, float, int]] = {}

    def submit(
        self, number: int, tree: Tree, known: Reference, *, finished: bool, peek: bool
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Start a process; returns the answers that have arrived."""
        while len(self._running) >= self._size:
            yield self._one()
        child = os.fork()
        if child == 0:
            self._in_child(number, tree, known, finished=finished, peek=peek)
        self._running[os.pidfd_open(child)] = (child, time.monotonic(), number)

    def finish(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Wait for the answers of all processes that are still running."""
        while self._running:
            yield self._one()

    def _one(self) -> tuple[int, dict[str, Any]]:
        oldest = min(start for _, start, _ in self._running.values())
        left = max(0.0, oldest + SECONDS - time.monotonic())
        ready, _, _ = select.select(list(self._running), [], [], left)
        slow = not ready
        watch = ready[0] if ready else min(self._running, key=lambda w: self._running[w][1])
        child, _, number = self._running.pop(watch)
        if slow:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        os.close(watch)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = self._folder / f"{number}.json"
        found: dict[str, Any] = {"after": -1, "warnings": [], "wrong": []}
        if slow:
            found["wrong"] = [f"it was not resumed within {SECONDS:.0f} s"]
        elif code or not answer.exists():
            said = (self._folder / f"{number}.txt").read_text(errors="replace")
            found["wrong"] = [f"the process ended with {code}: {said[-2000:]}"]
        else:
            found = json.loads(answer.read_text(encoding="utf-8"))
        for path in (answer, self._folder / f"{number}.txt"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._folder / f"{number}", ignore_errors=True)
        return number, found

    def _in_child(
        self, number: int, tree: Tree, known: Reference, *, finished: bool, peek: bool
    ) -> None:
        """What a child does until it exits."""
        code = 70
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            output = os.open(self._folder / f"{number}.txt", flags, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            root = self._folder / f"{number}"
            root.mkdir()
            found = resume(tree, known, root, finished=finished, peek=peek)
            (self._folder / f"{number}.json").write_text(json.dumps(found), encoding="utf-8")
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(Exception):
                sys.stderr.flush()
            os._exit(code)
