"""Every call to the operating system that a run depends on, in one place.

The coordinator, the store and the engines open, write, map, rename, lock, start and send through
the functions below and through nothing else (`tests/system/test_calls_seam.py` checks it), and so
do the parts that read what an experiment names: data, weights, bids. So a test harness
can count the calls of a run and make any one of them fail or fall short: see `intercept`, and
`chaos/calls/` for the harness. Without an interceptor a call costs one comparison.

    files       open_fd read read_into write write_at fsync rename unlink make_folder remove_folder
                list_folder status status_of_open reserve truncate map_file lock unlock
                temporary_file temporary_folder memory_file
    database    connect execute executemany commit rollback backup
    processes   spawn start_thread open_process die_with_parent
    sockets     socket_pair send receive wait
    memory      allocate
    clock       perf_counter monotonic now sleep
"""

from __future__ import annotations

import errno
import mmap
import multiprocessing.connection
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, ParamSpec, TypeVar

try:
    import fcntl
except ModuleNotFoundError:  # Windows: files cannot be locked there
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "NAMES",
    "Interceptor",
    "allocate",
    "backup",
    "commit",
    "connect",
    "die_with_parent",
    "execute",
    "executemany",
    "fsync",
    "intercept",
    "list_folder",
    "lock",
    "make_folder",
    "map_file",
    "memory_file",
    "monotonic",
    "now",
    "open_fd",
    "open_process",
    "perf_counter",
    "read",
    "read_into",
    "receive",
    "remove_folder",
    "rename",
    "reserve",
    "rollback",
    "send",
    "sleep",
    "socket_pair",
    "spawn",
    "start_thread",
    "status",
    "status_of_open",
    "temporary_file",
    "temporary_folder",
    "truncate",
    "unlink",
    "unlock",
    "wait",
    "write",
    "write_at",
]

P = ParamSpec("P")
T = TypeVar("T")

Interceptor = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Gets a call's name, the real function and its arguments; returns what the caller is to get."""

NAMES: list[str] = []
"""The names of all calls, as interceptors get them."""

_interceptor: Interceptor | None = None


@contextmanager
def intercept(interceptor: Interceptor) -> Iterator[None]:
    """Within this block every call goes to `interceptor`. For tests only."""
    global _interceptor  # noqa: PLW0603
    before, _interceptor = _interceptor, interceptor
    try:
        yield
    finally:
        _interceptor = before


def _call(name: str, function: Callable[P, T]) -> Callable[P, T]:
    NAMES.append(name)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _interceptor is None:
            return function(*args, **kwargs)
        result: T = _interceptor(name, function, args, kwargs)
        return result

    return call


def _reserve(fd: int, size: int, start: int = 0) -> None:
    """Give a file at least this size, with disk space from `start` on if the system can do that."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, start, size - start)
    else:
        os.ftruncate(fd, max(size, os.fstat(fd).st_size))


def _write_at(fd: int, content: bytes, place: int) -> int:
    return os.pwrite(fd, content, place)  # looked up when it is called: Windows has none


def _read_into(fd: int, buffer: Any) -> int:
    """Read into a buffer; how many bytes."""
    if hasattr(os, "readv"):
        return os.readv(fd, [buffer])
    content = os.read(fd, len(buffer))
    buffer[: len(content)] = content
    return len(content)


def _lock(fd: int, *, shared: bool = False) -> None:
    """Lock an open file; `BlockingIOError` if another process holds a lock that excludes this one.

    A shared lock excludes only exclusive ones.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "this system cannot lock files")
    fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _unlock(fd: int) -> None:
    """Give a lock up, also where a process that was forked meanwhile has the file open, too."""
    if fcntl is None:
        return
    fcntl.flock(fd, fcntl.LOCK_UN)


def _temporary_file(prefix: str) -> IO[bytes]:
    """A file without a name, in the folder for temporary files."""
    return tempfile.TemporaryFile(prefix=prefix)


def _memory_file(name: str) -> int:
    """The descriptor of a file that exists only in memory; `OSError` if the system has no such."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.memfd_create(name)


def _temporary_folder(prefix: str, folder: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """A new folder, removed at the end of the block."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=folder)


def _spawn(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, **options)


def _start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets that wait, whatever `socket.setdefaulttimeout` says."""
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(True)
    return pair


def _connect(path: Any, **options: Any) -> sqlite3.Connection:
    import sqlite3  # here, since the command line's help needs none

    database: sqlite3.Connection = sqlite3.connect(path, **options)
    return database


def _allocate(*arguments: Any, **options: Any) -> Any:
    import numpy as np

    return np.empty(*arguments, **options)


def _open_process(pid: int) -> int:
    """A file descriptor that can be read from when a process has ended; `OSError` if it cannot."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.pidfd_open(pid)


def _die_with_parent() -> None:
    """Have this process killed when the thread ends that started it, where Linux can do that."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)


def _execute(database: sqlite3.Connection, statement: str, values: Any = ()) -> sqlite3.Cursor:
    return database.execute(statement, values)


def _executemany(database: sqlite3.Connection, statement: str, rows: Any) -> sqlite3.Cursor:
    return database.executemany(statement, rows)


def _commit(database: sqlite3.Connection) -> None:
    database.commit()


def _rollback(database: sqlite3.Connection) -> None:
    database.rollback()


def _backup(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy a database into another."""
    source.backup(target)


def _send(connection: multiprocessing.connection.Connection, message: bytes) -> None:
    connection.send_bytes(message)


def _receive(connection: multiprocessing.connection.Connection) -> bytes:
    return connection.recv_bytes()


open_fd = _call("open", os.open)
read = _call("read", os.read)
read_into = _call("readinto", _read_into)
write = _call("write", os.write)
write_at = _call("pwrite", _write_at)
fsync = _call("fsync", os.fsync)
rename = _call("rename", os.replace)
unlink = _call("unlink", os.unlink)
make_folder = _call("mkdir", os.mkdir)
remove_folder = _call("rmdir", os.rmdir)
list_folder: Callable[[Any], list[str]] = _call("listdir", os.listdir)
status = _call("stat", os.stat)
status_of_open = _call("fstat", os.fstat)
reserve = _call("reserve", _reserve)
truncate = _call("truncate", os.ftruncate)
map_file = _call("mmap", mmap.mmap)
lock = _call("lock", _lock)
unlock = _call("unlock", _unlock)
temporary_file = _call("temporary file", _temporary_file)
memory_file = _call("memory file", _memory_file)
temporary_folder = _call("temporary folder", _temporary_folder)

connect = _call("connect", _connect)
execute = _call("execute", _execute)
executemany = _call("executemany", _executemany)
commit = _call("commit", _commit)
rollback = _call("rollback", _rollback)
backup = _call("backup", _backup)

spawn = _call("spawn", _spawn)
start_thread = _call("thread", _start_thread)
open_process = _call("pidfd", _open_process)
die_with_parent = _call("prctl", _die_with_parent)

socket_pair = _call("socketpair", _socket_pair)
send = _call("send", _send)
receive = _call("receive", _receive)
wait = _call("wait", multiprocessing.connection.wait)

allocate = _call("allocate", _allocate)

perf_counter = _call("perf_counter", time.perf_counter)
monotonic = _call("monotonic", time.monotonic)
now = _call("now", time.time)
sleep = _call("sleep", time.sleep)
