"""Run the real command line on one case after another, each in its own forked process.

Starting Python and torch takes seconds; forking a process that has them takes milliseconds. The
child has its own folder (see `input_files`), limits on memory and time, and its output in files.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from chaos.child import live
from chaos.input_files import make_input_files
from chaos.mutated_inputs import Case

__all__ = [
    "MEMORY",
    "SECONDS",
    "Ended",
    "How",
    "Outcome",
    "Sandbox",
    "list_files",
    "run_forked",
    "warm_up",
]

Ended = tuple[int, str, str, float, bool]
How = Callable[[Callable[[], None], Path], Ended]

MEMORY = 6 << 30
SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: Its exit code; minus the signal that ended it.
        out: What it printed.
        err: What it wrote to standard error.
        seconds: How long it took.
        slow: Whether it was killed because it took too long.
        left: Files that it made, changed or removed.
    """

    code: int
    out: str
    err: str
    seconds: float
    slow: bool = False
    left: tuple[str, ...] = ()


def warm_up() -> None:
    """Import everything that any command imports; unpack embedded data once, not in every child."""
    import torch

    from mmfl.data import embedded

    for module in (
        "cli",
        "cli.views.auction",
        "engines.inline",
        "market.truthfulness",
        "train.trainer",
    ):
        importlib.import_module(f"mmfl.{module}")
    importlib.import_module("scipy.special")
    torch.set_num_threads(1)
    embedded.load = functools.cache(embedded.load)
    for name in ("mnist_small", "fashion_mnist_small", "letters"):
        embedded.load(name)
    gc.collect()
    gc.freeze()


class Sandbox:
    """A folder in which commands run, and which they must leave unchanged.

    Args:
        folder: It is made here, with the files of `make_input_files`.
        how: How to do a piece of work: in this process or in another.
    """

    def __init__(self, folder: Path, how: How | None = None) -> None:
        self.folder = folder
        self._how = how or run_forked
        make_input_files(folder)
        self._before = list_files(folder)

    def run(self, case: Case) -> Outcome:
        """Run the command of a case in its own process."""
        from mmfl.cli import main

        path = self.folder / case.name
        if case.content is not None:
            path.write_bytes(case.content)
        try:
            found = self._how(lambda: _command(case, self.folder, main), self.folder.parent)
        finally:
            if case.content is not None:
                path.unlink(missing_ok=True)
        after = list_files(self.folder)
        left = tuple(sorted(name for name, _ in self._before ^ after))
        self._before = after
        return Outcome(*found, left)


def _command(case: Case, folder: Path, main: Callable[[], None]) -> None:
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("MMFL_", "FLWR_", "COLUMNS"))]:
        del os.environ[name]
    os.environ |= {"MMFL_DATA": "data", "TMPDIR": "temporary", "XDG_CACHE_HOME": "cache"}
    os.environ |= {"HOME": str(folder)}
    sys.argv = ["mmfl", *case.arguments]
    main()


def run_forked(work: Callable[[], None], outside: Path) -> Ended:
    """Exit code, standard output, standard error, seconds, and whether it took too long."""
    names = [outside / f"{os.getpid()}.{end}" for end in ("out", "err")]
    files = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) for name in names]
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        live(lambda: _limited(work), *files)
    watch = os.pidfd_open(child)
    slow = not select.select([watch], [], [], SECONDS)[0]
    with suppress(ProcessLookupError):  # also everything that it started
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seconds = time.monotonic() - start
    os.close(watch)
    for file in files:
        os.close(file)
    out, err = (name.read_bytes()[:200_000].decode("utf-8", "replace") for name in names)
    return code, out, err, seconds, slow


def _limited(work: Callable[[], None]) -> None:
    """Do the work with limits on memory and files."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    work()


def list_files(folder: Path) -> set[tuple[str, tuple[int, int]]]:
    """Every file below a folder, with its size and time."""
    found = set()
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(here, name)
            about = os.lstat(path)
            time_ = 0 if name in folders else about.st_mtime_ns
            found.add((os.path.relpath(path, folder), (about.st_size, time_)))
    return found


def without_matplotlib(
    found: set[tuple[str, Any]], all_: set[tuple[str, Any]]
) -> set[tuple[str, Any]]:
    """Without the folders that matplotlib keeps its fonts and settings in, and their parents."""
    own = [name for name, _ in all_ if "matplotlib" in name]
    above = {str(parent) for name in own for parent in PurePath(name).parents}
    return {
        (name, about) for name, about in found if name not in above and "matplotlib" not in name
    }
