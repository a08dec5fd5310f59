"""A Python process of ours at the other end of a socket: no fork, no pickles, no main guard.

Messages are JSON. The other side reads its socket's file number from its first argument. It ends
when this process ends, however that happens and whatever it computes: see `mmfl.system.guard`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from errno import EMFILE
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import IO, Any

from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.standard import open_standard_files

__all__ = ["Child", "Message", "end", "temporary_file"]

Message = dict[str, Any]

_START = """\
import json, runpy, sys
sys.path[:] = json.loads(sys.argv[1])
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""What ``-m`` does, with this process's path: PYTHONPATH can hold no folder with a colon."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, eq=False)
class Child:
    """A process, the socket to it, and what it prints."""

    process: subprocess.Popen[bytes]
    connection: Connection
    log: IO[bytes]

    @classmethod
    def start(
        cls,
        module: str,
        *,
        files: Sequence[int] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        grace: float = 0.0,
    ) -> Child:
        """Start ``python -m module SOCKET FILES``; it looks for modules where this process does.

        When this process ends, it is killed at once or, with `grace`, interrupted and killed after
        so many seconds.

        What `environment` says holds unless this process's own says otherwise. It computes with one
        thread, as there are several of them, and has a process group of its own, so that Ctrl-C is
        this process's to handle.
        """
        log = temporary_file()
        try:
            ours, theirs = calls.socket_pair()
        except OSError as error:
            log.close()
            raise EngineError(f"a process cannot be started: {error}") from None
        passed = (theirs.fileno(), *files)
        path = json.dumps([str(entry) or os.getcwd() for entry in sys.path])
        by_main = threading.current_thread() is threading.main_thread()
        watch = ("mmfl.system.guard", module, os.getpid(), int(by_main), grace)
        try:
            process = calls.spawn(
                [sys.executable, "-P", "-c", _START, path, *map(str, (*watch, *passed))],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, **os.environ, **_ONE_THREAD},
                process_group=0,
            )
        except OSError as error:
            ours.close()
            log.close()
            raise EngineError(f"a process cannot be started: {error}") from None
        finally:
            theirs.close()
        return cls(process, Connection(ours.detach()), log)

    def send(self, message: Message) -> None:
        """Send a message; a process that cannot get it is killed: the next `receive` finds out."""
        try:
            calls.send(self.connection, json.dumps(message).encode())
        except OSError:
            self.process.kill()

    def receive(self) -> Message | None:
        """The next message; None if there will be none, since the process is gone."""
        try:
            message: Message = json.loads(calls.receive(self.connection))
        except (EOFError, OSError):
            return None
        return message

    def ended(self, patience: float) -> int:
        """The exit code; a process that takes longer than that to end is killed."""
        try:
            return self.process.wait(max(0.0, patience))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def last_words(self) -> str:
        """The last line that it printed."""
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - 2000))
        lines = self.log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """End it at once, and give everything back."""
        self.process.kill()
        self.process.wait()
        self.connection.close()
        self.log.close()

    def obituary(self, patience: float) -> str:
        """How it ended, and the last line that it printed."""
        code, words = self.ended(patience), self.last_words()
        how = f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"
        return f"{how} ({words})" if words else how


def temporary_file() -> IO[bytes]:
    """A file without a name, in the folder for temporary files."""
    open_standard_files()  # else this file could get one of their numbers, which a child replaces
    try:
        return calls.temporary_file(prefix="mmfl-")
    except OSError as error:
        advice = "; set TMPDIR to a folder that can be written to"
        raise EngineError(
            f"cannot make a temporary file: {error.strerror}{advice * (error.errno != EMFILE)}"
        ) from None


def end(children: Iterable[Child], patience: float) -> None:
    """Let processes end themselves, all at once; kill those that take longer than `patience`."""
    known = list(children)
    for child in known:
        child.connection.close()
    limit = calls.monotonic() + patience
    for child in known:
        child.ended(limit - calls.monotonic())
        child.log.close()
