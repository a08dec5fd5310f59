"""Opening `run.sqlite`: first check what kind of file it is, then what it says.

A run directory may come from anywhere. A pipe or a device is never opened. A reader cannot write,
does not trust what the schema says (`mmfl.runs.schema` compares it with ours before any query) and
gives up after more steps than a database of this size can need.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sqlite3
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mmfl.errors import MmflWarning, StoreError
from mmfl.system import calls
from mmfl.system.files import open_file, read_file, refuse_irregular, write_new

__all__ = [
    "DATABASE",
    "DatabaseFiles",
    "close_database",
    "explain_errors",
    "open_for_reading",
    "open_for_writing",
    "transaction",
    "wait_for_lock",
]

DATABASE = "run.sqlite"

LIMIT = 1 << 36
"""The most bytes that a database may have (64 GiB)."""

PATIENCE = 600.0
"""Seconds for which runs and readers wait for a lock that another program holds."""

COPIED = 1 << 30
"""The most bytes that a database with an unfinished write may have (1 GiB)."""

LOG = 1 << 23
"""The bytes to which the write-ahead log is truncated when it is restarted (8 MiB).

SQLite restarts it once it has 4 MB, unless a reader still needs it: then it grows until that
one ends.
"""

T = TypeVar("T")

_WRITTEN: set[sqlite3.Connection] = set()
"""The databases that are open for writing in this process."""

_BUSY = 1.0
"""Seconds for which SQLite itself waits for a lock."""

_JOURNAL = "-journal"
_LOG = "-wal"
_BESIDE = (_LOG, "-shm", _JOURNAL)
_EVERY = 10_000
_STEPS = 10_000_000
_STEPS_A_BYTE = 100
_MAGIC = bytes.fromhex("d9d505f920a163d7")


def open_for_reading(folder: Path, *, patience: float | None = None) -> sqlite3.Connection:
    """The database of a run directory, as it is at this moment; later writes are not seen.

    Args:
        folder: The run directory.
        patience: For how many seconds to wait for a lock that another program holds.
    """
    size, real = _check_files(folder)
    database = _without_unfinished(folder, real)
    if database is None:
        database = calls.connect(f"{real.as_uri()}?mode=ro", uri=True, timeout=_BUSY)
    try:
        _guard(database, size)
        calls.execute(database, "BEGIN")
        # The first query takes the lock, or the snapshot, that all later ones use.
        wait_for_lock(
            lambda: calls.execute(database, "SELECT 1 FROM sqlite_master LIMIT 1").fetchall(),
            patience,
        )
    except BaseException:
        database.close()
        raise
    return database


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """The database of a run directory, which is created if it does not exist."""
    with suppress(FileNotFoundError):
        about = calls.status(folder / DATABASE, follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode):
            said = f"{DATABASE} is a symbolic link, so another run would change with it"
            raise OSError(errno.EMLINK, f"{said}; copy the run with cp -rL and use the copy")
        _check_files(folder)
        if about.st_nlink > 1:
            said = f"{DATABASE} has another hard link, so a copy of the run would change with it"
            raise OSError(errno.EMLINK, f"{said}; copy the run with cp -r and use the copy")
    database = calls.connect(folder / DATABASE, timeout=_BUSY, check_same_thread=False)
    try:
        calls.execute(database, "PRAGMA trusted_schema = OFF")
        calls.execute(database, "PRAGMA cell_size_check = ON")
        wait_for_lock(lambda: calls.execute(database, "PRAGMA journal_mode = WAL"))
        calls.execute(database, "PRAGMA synchronous = NORMAL")
        calls.execute(database, f"PRAGMA journal_size_limit = {LOG}")
    except BaseException:
        database.close()
        raise
    _WRITTEN.add(database)
    return database


def close_database(database: sqlite3.Connection, *, inherited: bool) -> None:
    """Close a connection, unless it is of the process that this one was forked from."""
    if not inherited:
        _WRITTEN.discard(database)
        database.close()


def _keep_open() -> None:
    """In a forked process: keep open what the other process writes, even when this one ends.

    SQLite's locks are not inherited, so closing a database could remove the log that the other
    process is writing.
    """
    for database in _WRITTEN:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
    _WRITTEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_open)


class DatabaseFiles:
    """The files of an open database, to detect whether they are removed or replaced.

    A process that has files open does not notice that they are removed or replaced, and what it
    writes is lost.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / DATABASE
        self._paths = (path, _beside(path.resolve(), _LOG))
        self._known: dict[Path, tuple[int, int]] = {}
        self.check()

    def check(self) -> None:
        """Raise `OSError` if a file that was there is gone, or another is in its place."""
        for path in self._paths:
            try:
                about = calls.status(path)
            except FileNotFoundError:
                if path not in self._known:  # the log is made by the first write
                    continue
                raise OSError(errno.ENOENT, f"{path.name} was removed during the run") from None
            found = (about.st_dev, about.st_ino)
            if self._known.setdefault(path, found) != found:
                raise OSError(errno.ESTALE, f"{path.name} was replaced during the run")


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Store everything that is written in this block, or nothing."""
    try:
        wait_for_lock(lambda: calls.execute(database, "BEGIN IMMEDIATE"))
        yield database
        wait_for_lock(lambda: calls.commit(database))  # without WAL it waits for readers
    except BaseException:
        with suppress(sqlite3.Error):
            calls.rollback(database)
        raise


def wait_for_lock(act: Callable[[], T], patience: float | None = None) -> T:
    """Do something that needs the database's lock; while another program holds it, wait."""
    limit, told = calls.monotonic() + (PATIENCE if patience is None else patience), False
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            )
            if not busy or calls.monotonic() > limit:
                raise
        if not told:
            said = f"{DATABASE} is locked by another program; waiting up to {PATIENCE:g} s for it"
            warnings.warn(said, MmflWarning, stacklevel=2)
            told = True
        calls.sleep(0.05)


@contextmanager
def explain_errors(doing: str, folder: Path) -> Iterator[None]:
    """Turn errors of files or of the database in this block into one sentence."""
    try:
        yield
    except (OSError, sqlite3.Error, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if reason == "interrupted":
            reason = f"{DATABASE} is damaged: reading it does not finish"
        raise StoreError(f"cannot {doing} the run in {str(folder)!r}: {reason}") from None


def _check_files(folder: Path) -> tuple[int, Path]:
    """Refuse what is not a file, without opening it; the database's size, and where it really is.

    Opening and closing it here would release the locks that SQLite has on it in this process.
    """
    path = folder / DATABASE
    size = refuse_irregular(path, limit=LIMIT)
    real = path.resolve()  # SQLite follows links to the database itself
    for end in _BESIDE:
        with suppress(FileNotFoundError):
            refuse_irregular(_beside(real, end), limit=LIMIT, links=False)
    _refuse_foreign_journal(_beside(real, _JOURNAL))
    return size, real


def _refuse_foreign_journal(journal: Path) -> None:
    """Refuse a journal of several databases: it names another file, which SQLite would remove.

    See https://www.sqlite.org/fileformat2.html, "The Rollback Journal": ours never names one.
    """
    try:
        with open_file(journal, limit=LIMIT) as file:
            file.seek(-len(_MAGIC), os.SEEK_END)
            foreign = file.read() == _MAGIC
    except OSError:  # there is none, or it is shorter than that
        return
    if foreign:
        raise OSError(errno.EINVAL, f"{journal.name} is damaged: it names another file")


def _beside(real: Path, end: str) -> Path:
    """A file of SQLite's next to a database, given where that really is."""
    return real.with_name(f"{real.name}{end}")


def _without_unfinished(folder: Path, real: Path) -> sqlite3.Connection | None:
    """If a write was cut short: a copy in memory in which it never began; else None.

    SQLite undoes such a write when the database is next opened for writing. A reader leaves the
    directory as it is.
    """
    path = folder / DATABASE
    journal = _beside(real, _JOURNAL)
    try:
        undo = read_file(journal, limit=COPIED)
    except FileNotFoundError:
        return None
    if not undo:
        return None
    with calls.temporary_folder("mmfl-") as name:
        copy = Path(name) / DATABASE
        write_new(copy, read_file(path, limit=COPIED))
        write_new(_beside(copy, _JOURNAL), undo)
        memory = calls.connect(":memory:")
        try:
            with closing(calls.connect(copy)) as source:
                calls.backup(source, memory)
        except BaseException:
            memory.close()
            raise
    return memory


def _guard(database: sqlite3.Connection, size: int) -> None:
    """Let a connection only read, and for a limited number of steps."""
    for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        calls.execute(database, f"PRAGMA {setting}")
    for what, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, 1 << 30),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (sqlite3.SQLITE_LIMIT_COLUMN, 100),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    ):
        database.setlimit(what, most)
    left = (_STEPS + _STEPS_A_BYTE * size) // _EVERY

    def count() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    database.set_progress_handler(count, _EVERY)
