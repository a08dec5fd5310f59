"""A Python process of ours at the other end of a socket: no fork, no pickles, no main guard.

Messages are JSON. The other side reads its socket's file number from its first argument. It must
end when the socket is closed: so it does, however this process comes to its end.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import IO, Any

from mmfl.errors import EngineError

__all__ = ["Child", "Message", "end", "temporary_file"]

Message = dict[str, Any]

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
    ) -> Child:
        """Start ``python -m module SOCKET FILES``; it finds the modules that this process finds.

        What `environment` says holds unless this process's own says otherwise. It computes with one
        thread, as there are several of them, and has a process group of its own, so that Ctrl-C is
        this process's to handle.
        """
        log = temporary_file()
        ours, theirs = socket.socketpair()
        passed = (theirs.fileno(), *files)
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, passed)],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, **os.environ, **_ONE_THREAD, "PYTHONPATH": path},
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
        """Send a message; if the process is dead, the next `receive` finds out."""
        with suppress(OSError):
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self) -> Message | None:
        """The next message; None if there will be none, since the process is gone."""
        try:
            message: Message = json.loads(self.connection.recv_bytes())
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
    try:
        return tempfile.TemporaryFile(prefix="mmfl-")
    except OSError as error:
        raise EngineError(
            f"cannot make a temporary file: {error.strerror}; set TMPDIR to a folder that can be "
            "written to"
        ) from None


def end(children: Iterable[Child], patience: float) -> None:
    """Let processes end themselves, all at once; kill those that take longer than `patience`."""
    known = list(children)
    for child in known:
        child.connection.close()
    limit = time.monotonic() + patience
    for child in known:
        child.ended(limit - time.monotonic())
        child.log.close()
