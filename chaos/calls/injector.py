"""Make one call of a process to the operating system fail, fall short, or end the process.

An interceptor for `mmfl.system.calls`: it counts the calls of each thread, writes them to a log if
asked, and at the n-th call of one thread does what `how` says:

    ENOSPC, EIO, ...     the call fails with this error, once
    ENOSPC+, EIO+, ...   it fails, and so does every later call of the same name
    short                it does part of its work, as the system may (read, write, pwrite)
    eof                  the other end of the socket is closed
    full, disk, busy     SQLite's "disk is full", "disk I/O error", "database is locked", once
    full+, disk+         the same, from then on
    memory               MemoryError
    thread               no more threads
    ahead, back          the clock jumps by a day and stays there
    kill                 SIGKILL, in place of the call

A thread is known by its name; the main thread's is empty, and the second thread of one name is
"name #2". How many calls a thread makes may depend on time: see `Injector.mark`.

As a script it runs an mmfl module with an injector in it:
``python injector.py SETTINGS PATH MODULE ARGUMENTS`` (SETTINGS are the injector's, PATH is
`sys.path`, both as JSON).
"""

from __future__ import annotations

import errno
import json
import os
import runpy
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmfl.system import calls

__all__ = ["FAILURES", "Call", "Injector", "beat_often", "read_log"]

_DISK = ("ENOSPC", "EIO", "ENOSPC+", "EIO+")
_CLOCK = ("ahead", "back")
_SQLITE = {
    "full": "database or disk is full",
    "disk": "disk I/O error",
    "busy": "database is locked",
}

FAILURES: dict[str, tuple[str, ...]] = {
    "open": ("EMFILE", "EACCES", "EIO", "ENOSPC+"),
    "read": ("EIO", "short"),
    "readinto": ("EIO", "short"),
    "write": (*_DISK, "short"),
    "pwrite": (*_DISK, "short"),
    "fsync": _DISK,
    "rename": ("EIO", "ENOSPC", "EACCES+"),
    "unlink": ("EIO", "EACCES", "EACCES+"),
    "mkdir": ("ENOSPC", "EACCES"),
    "rmdir": ("EIO", "ENOTEMPTY"),
    "listdir": ("EIO", "EACCES"),
    "stat": ("EIO", "EACCES"),
    "fstat": ("EIO",),
    "reserve": ("ENOSPC", "ENOSPC+", "EFBIG"),
    "truncate": ("EIO", "ENOSPC"),
    "mmap": ("ENOMEM", "EMFILE"),
    "lock": ("EAGAIN", "EAGAIN+", "ENOLCK+", "EOPNOTSUPP+"),
    "unlock": ("ENOLCK",),
    "temporary file": ("ENOSPC", "EROFS", "EMFILE"),
    "temporary folder": ("ENOSPC", "EROFS"),
    "memory file": ("ENOSYS", "EMFILE", "ENOMEM"),
    "connect": ("disk", "busy"),
    "execute": ("full", "disk", "busy", "full+", "disk+"),
    "executemany": ("full", "disk", "busy", "full+", "disk+"),
    "commit": ("full", "disk", "busy", "full+", "disk+"),
    "rollback": ("disk",),
    "backup": ("full", "disk"),
    "spawn": ("EAGAIN", "ENOMEM", "EAGAIN+"),
    "thread": ("thread",),
    "pidfd": ("ENOSYS", "EMFILE"),
    "prctl": ("ENOSYS",),
    "socketpair": ("EMFILE", "ENOMEM"),
    "send": ("EPIPE", "ECONNRESET", "ENOBUFS"),
    "receive": ("eof", "ECONNRESET"),
    "wait": ("ENOMEM",),
    "allocate": ("memory",),
    "perf_counter": _CLOCK,
    "monotonic": _CLOCK,
    "now": _CLOCK,
    "sleep": ("ahead",),
}
"""The ways in which each call is made to fail, by name."""


@dataclass(frozen=True)
class Call:
    """A call of a process.

    Attributes:
        number: Which call of its thread, from 1.
        name: As in `FAILURES`.
        thread: The thread; "" is the main thread.
    """

    number: int
    name: str
    thread: str = ""

    @property
    def place(self) -> str:
        """Its address, such as "17" or "mmfl-lease 3"."""
        return f"{self.thread} {self.number}".strip()


class Injector:
    """An interceptor that lets all calls pass except the n-th of a thread.

    Args:
        number: Which call, from 1; 0 = none.
        how: What happens to it.
        log: A file for all calls.
        spawned: Gets the command of every process that is started, and may change it.
        thread: The thread whose calls are counted.
        mark: A file that is created when the call comes; whether it comes may depend on time.
    """

    def __init__(
        self,
        number: int,
        how: str = "",
        log: str = "",
        spawned: Callable[[list[str]], list[str]] | None = None,
        thread: str = "",
        mark: str = "",
    ) -> None:
        self._number = number
        self._how = how
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if log else None
        self._spawned = spawned
        self._thread = thread
        self._mark = mark
        self._lock = threading.Lock()
        self._names: dict[threading.Thread, str] = {}
        self._counts: dict[str, int] = {}
        self._struck = ""
        self._shift = 0.0
        self._process = os.getpid()

    def __call__(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `mmfl.system.calls.Interceptor`."""
        if name == "spawn" and self._spawned is not None:
            args = (self._spawned(list(args[0])), *args[1:])
        if os.getpid() != self._process:
            return function(*args, **kwargs)
        if self._is_struck(name):
            return self._strike(name, function, args, kwargs)
        result = function(*args, **kwargs)
        return result + self._shift if name in ("perf_counter", "monotonic", "now") else result

    def _is_struck(self, name: str) -> bool:
        """Count a call; returns whether it must fail: the n-th, or a later one that fails, too."""
        with self._lock:
            thread = self._name_thread(threading.current_thread())
            number = self._counts[thread] = self._counts.get(thread, 0) + 1
            if self._log is not None:
                os.write(self._log, f"{thread}\t{name}\n".encode())
            if (thread, number) == (self._thread, self._number):
                self._struck = name
                if self._mark:
                    Path(self._mark).touch()
                return True
            return self._how.endswith("+") and name == self._struck

    def _name_thread(self, thread: threading.Thread) -> str:
        if thread not in self._names:
            main = thread is threading.main_thread()
            same = sum(other.name == thread.name for other in self._names)
            name = f"{thread.name} #{same + 1}" if same else thread.name
            self._names[thread] = "" if main else name
        return self._names[thread]

    def _strike(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        how = self._how.removesuffix("+")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how in _CLOCK:
            self._shift = 86_400.0 if how == "ahead" else -86_400.0
            result = function(*args, **kwargs)
            return result if name == "sleep" else result + self._shift
        if how == "short":
            size = args[1] if name == "read" else len(args[1])
            half = max(1, size // 2) if name == "read" else args[1][: max(1, size // 2)]
            return function(args[0], half, *args[2:])
        if how == "memory":
            raise MemoryError
        if how == "thread":
            raise RuntimeError("can't start new thread")
        if how == "eof":
            raise EOFError
        if how in _SQLITE:
            error = sqlite3.OperationalError(_SQLITE[how])
            codes = {"full": sqlite3.SQLITE_FULL, "disk": sqlite3.SQLITE_IOERR}
            error.sqlite_errorcode = codes.get(how, sqlite3.SQLITE_BUSY)
            raise error
        number = getattr(errno, how)
        raise OSError(number, os.strerror(number))


def read_log(path: Path) -> list[Call]:
    """The calls in a log: those of the main thread first, then thread by thread."""
    threads: dict[str, list[str]] = {"": []}
    for line in path.read_text().splitlines():
        thread, _, name = line.partition("\t")
        threads.setdefault(thread, []).append(name)
    return [
        Call(number, name, thread)
        for thread, names in threads.items()
        for number, name in enumerate(names, 1)
    ]


def beat_often() -> None:
    """Make a lease's heartbeat frequent, so that a run of a tenth of a second has some."""
    from mmfl.runs.directory import lock

    lock.BEAT = 0.01


def main() -> None:
    """Run a module with an injector in it."""
    settings, path, module, *arguments = sys.argv[1:]
    sys.path[:] = json.loads(path)
    sys.argv = [module, *arguments]
    if "mmfl.comparison.worker" in arguments:  # a worker of an engine has no lease
        beat_often()
    with calls.intercept(Injector(**json.loads(settings))):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
