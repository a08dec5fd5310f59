"""Makes one call of a process to the operating system fail, fall short, or be its last.

An interceptor for `mmfl.system.calls`: it counts the calls of the main thread, writes their names
into a log if asked, and at the n-th call does what `how` says:

    ENOSPC, EIO, ...     the call fails with this error, once
    ENOSPC+, EIO+, ...   it fails, and so does every later call of the same name
    short                it does a part of its work, as the system may (read, write, pwrite)
    eof                  the other end of the socket is gone
    full, disk, busy     SQLite's "disk is full", "disk I/O error", "database is locked", once
    full+, disk+         the same from now on
    memory               MemoryError
    thread               no more threads
    ahead, back          the clock jumps by a day, for good
    kill                 SIGKILL, in place of the call

As a script it runs an mmfl module with an injector in it:
``python injector.py N HOW LOG PATH MODULE ARGUMENTS`` (PATH is `sys.path` as JSON).
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
from typing import Any

from mmfl.system import calls

__all__ = ["FAILURES", "Injector"]

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
"""From the name of a call to the ways in which it is made to go wrong."""


class Injector:
    """An interceptor that lets all calls of the main thread pass but the n-th.

    Args:
        number: Which call, from 1; 0 = none.
        how: What happens to it.
        log: A file for the names of all calls.
        spawned: Gets the command of every process that is started, and may change it.
    """

    def __init__(
        self,
        number: int,
        how: str = "",
        log: str = "",
        spawned: Callable[[list[str]], list[str]] | None = None,
    ) -> None:
        self._number = number
        self._how = how
        self._log = open(log, "w", buffering=1) if log else None  # noqa: SIM115
        self._spawned = spawned
        self._count = 0
        self._struck = ""
        self._shift = 0.0
        self._process = os.getpid()

    def __call__(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `mmfl.system.calls.Interceptor`."""
        if name == "spawn" and self._spawned is not None:
            args = (self._spawned(list(args[0])), *args[1:])
        ours = os.getpid() == self._process
        if not ours or threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        self._count += 1
        if self._log is not None:
            self._log.write(f"{name}\n")
        first = self._count == self._number
        if first:
            self._struck = name
        if first or (self._how.endswith("+") and name == self._struck):
            return self._strike(name, function, args, kwargs)
        result = function(*args, **kwargs)
        return result + self._shift if name in ("perf_counter", "monotonic", "now") else result

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
            half = max(1, args[1] // 2) if name == "read" else args[1][: max(1, len(args[1]) // 2)]
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


def main() -> None:
    """Run a module with an injector in it."""
    number, how, log, path, module, *arguments = sys.argv[1:]
    sys.path[:] = json.loads(path)
    sys.argv = [module, *arguments]
    with calls.intercept(Injector(int(number), how, log)):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
