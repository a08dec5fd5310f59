"""An mmfl process at the other end of a socket: no fork, no pickles, no main guard.

Messages are JSON. The other side reads its socket's file number from its first argument. It ends
when this process ends, however that happens and whatever it computes: see `mmfl.system.guard`.

When the child ends, the socket is shut down. A process that the child forked may hold the other end
open for ever: without this, nobody would notice that the child is gone. What it sent before is
still received; after that, and in the middle of a message, the socket is at its end.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EMFILE
from functools import partial
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import IO, Any

from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.standard_streams import open_standard_files
from mmfl.system.starter import start_process

__all__ = ["ONE_THREAD", "Child", "Message", "end", "temporary_file"]

Message = dict[str, Any]

_START = """\
import json, runpy, sys
sys.path[:] = json.loads(sys.argv[1])
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""What ``-m`` does, with this process's path: PYTHONPATH can hold no folder with a colon."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


_OFTEN = 0.05
"""Seconds between two looks at a child, if the system cannot tell when it ends."""


@dataclass(frozen=True, eq=False)
class Child:
    """A process, the socket to it, and what it prints.

    It belongs to the process that started it: a fork of that process cannot end it.
    """

    process: subprocess.Popen[bytes]
    connection: Connection
    log: IO[bytes]
    line: socket.socket
    """A second handle of the connection's socket, to shut it down with."""

    watcher: threading.Thread
    owner: int = field(default_factory=os.getpid)

    @classmethod
    def start(
        cls,
        module: str,
        *,
        files: Sequence[int] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        patience: float | None = None,
    ) -> Child:
        """Start ``python -m module SOCKET FILES``; it looks for modules where this process does.

        What `environment` says holds unless this process's own says otherwise. It computes with one
        thread, as there are several of them, and has its own process group, so that this process
        handles Ctrl-C. Sending and receiving fail if for `patience` seconds no byte gets
        through.
        """
        log = temporary_file()
        try:
            ours, theirs = calls.socket_pair()
        except OSError as error:
            log.close()
            raise EngineError(f"a process cannot be started: {error}") from None
        if patience is not None:
            _limit_silence(ours, patience)
        passed = (theirs.fileno(), *files)
        path = json.dumps([str(entry) or os.getcwd() for entry in sys.path])
        arguments = (path, "mmfl.system.guard", module, os.getpid(), *passed)
        process = None
        try:
            connection = Connection(os.dup(ours.fileno()))
            process = start_process(
                [sys.executable, "-P", "-c", _START, *map(str, arguments)],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, **os.environ, **ONE_THREAD},
                process_group=0,
            )
            watcher = _watch(process, ours)
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            if process is not None:
                process.kill()
                process.wait()
            ours.close()
            log.close()
            raise EngineError(f"a process cannot be started: {error}") from None
        finally:
            theirs.close()
        return cls(process, connection, log, ours, watcher)

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

    def wait_for_end(self, patience: float) -> int:
        """The exit code; a process that takes longer than that to end is killed."""
        try:
            return self.process.wait(max(0.0, patience))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def read_last_line(self) -> str:
        """The last line that it printed."""
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - 2000))
        lines = self.log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    @property
    def ours(self) -> bool:
        """Whether this process started it."""
        return os.getpid() == self.owner

    def hang_up(self) -> None:
        """Let it know that nothing more will be sent or received."""
        if self.ours:
            with suppress(OSError):  # it is gone already
                self.line.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Kill it at once, and free everything."""
        if self.ours:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Free everything; the process has ended, or is not ours."""
        if self.ours:
            self.watcher.join()
        self.line.close()
        self.connection.close()
        self.log.close()

    def describe_end(self, patience: float) -> str:
        """How it ended, and the last line that it printed."""
        code, words = self.wait_for_end(patience), self.read_last_line()
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
        child.hang_up()
    limit = calls.monotonic() + patience
    for child in known:
        if child.ours:
            child.wait_for_end(limit - calls.monotonic())
        child.close()


def _watch(process: subprocess.Popen[bytes], line: socket.socket) -> threading.Thread:
    """Shut the socket down when the process has ended."""
    try:
        ended = calls.open_process(process.pid)
    except OSError:  # the system cannot do that
        ended = None
    try:
        # Held weakly: what nobody uses any more is closed, and that ends the process.
        act = partial(_shut_down_after, process, ended, weakref.ref(line))
        return calls.start_thread(act, "watch child")
    except RuntimeError:
        if ended is not None:
            os.close(ended)
        raise


def _shut_down_after(
    process: subprocess.Popen[bytes], ended: int | None, line: weakref.ref[socket.socket]
) -> None:
    heard = ended is not None
    if ended is not None:
        try:
            calls.wait([ended])
        except OSError:  # too little memory: look now and then
            heard = False
        os.close(ended)
    while not heard and process.poll() is None:
        calls.sleep(_OFTEN)
    known = line()
    if known is not None:
        with suppress(OSError):  # it was shut down already
            known.shutdown(socket.SHUT_RDWR)


def _limit_silence(end: socket.socket, seconds: float) -> None:
    """Have reads and writes that wait longer than that fail; unlike `settimeout`, keep its mode."""
    seconds = min(seconds, 1e9)
    whole = int(seconds)
    limit = struct.pack("@ll", whole, int(1e6 * (seconds - whole)))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
