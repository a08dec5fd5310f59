"""Who may write into a run directory: one process at a time, on any machine that can see it.

An owner holds two things. A lock on the folder (`flock`), which the kernel drops when the process
ends, however it ends. And a lease: the file `lease-<epoch>.json`, whose counter `beat` the owner
advances every `BEAT` seconds. Each beat is fsynced: on a network file system other machines see it
only then. Each new owner writes the next epoch's file and removes the one before it, so that an
owner that was suspended and replaced finds its own file gone, and stops.

The lock is on the folder and not on a file, so that readers need no permission to write. On NFS
such a lock holds on one machine only, and rule 4 decides about the others.

Whether an earlier owner is dead is decided without its host name, its process ID or its clock:

1. The lock is held: it is alive.
2. The lease says `released`, or is unreadable: it is gone. (A live owner's lease is readable.)
3. The lock is free and the lease is from this boot of this kernel: it is dead, or the kernel would
   still hold its lock. Containers of one machine share the kernel, whatever their process IDs.
4. Otherwise it ran on another machine, or before a reboot: its lease is watched for `PATIENCE`
   seconds of our own clock. If `beat` advances it is alive, otherwise it is dead.

A process that an owner forks is not an owner: its copy of the lease can neither write nor release.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mmfl.errors import MmflWarning, StoreError
from mmfl.runs.directory.names import make_absolute
from mmfl.system import calls
from mmfl.system.files import list_folder, read_file, remove_file

__all__ = ["BEAT", "LEASE", "PATIENCE", "Lease", "find_owner", "is_owned"]

BEAT = 2.0
"""Seconds between two beats."""

PATIENCE = 15.0
"""Seconds of silence after which an owner on another machine counts as dead."""

LEASE = re.compile(r"lease-(\d{8,})\.json")
"""The names of leases."""

_SIZE = 4096


@dataclass(frozen=True)
class _Entry:
    """A lease as its file has it; `record` is None if the file cannot be read."""

    path: Path
    epoch: int
    record: dict[str, Any] | None

    @property
    def released(self) -> bool:
        return self.record is None or bool(self.record.get("released"))

    @property
    def owner(self) -> str:
        told = self.record or {}
        return f"process {told.get('pid')} on {str(told.get('host'))!r}"


class Lease:
    """The right to write into a folder, held until it is closed or the process ends.

    Making one locks the folder and refuses it if it is owned; `take` then makes it known to others.

    Attributes:
        epoch: How many owners the folder has had, including this one once it was taken.
        token: Random; no other owner has it.
    """

    def __init__(self, folder: Path) -> None:
        """Lock the folder, and wait until it is known whether another process owns it.

        `StoreError` if one does. Nothing is written yet.
        """
        self.folder = folder
        self._place = make_absolute(folder)
        self._pid = os.getpid()
        self.epoch = 0
        self.token = secrets.token_hex(16)
        self._number = _open_folder(folder)
        self._file = -1
        self._locked = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            strong = _take_lock(self._number, folder)
            self._locked = strong
            before = _newest(folder)
            if before is not None:
                _refuse_living(before, strong=strong)
                self.epoch = before.epoch
        except OSError as error:
            self._close()
            raise _cannot_lock(folder, error) from None
        except BaseException:
            self._close()
            raise

    def take(self) -> Self:
        """Write the lease, and start its heartbeat."""
        self.epoch += 1
        self._path = self._place / f"lease-{self.epoch:08d}.json"
        self._record: dict[str, Any] = {
            "epoch": self.epoch,
            "token": self.token,
            "host": platform.node(),
            "pid": self._pid,
            "boot": _boot(),
            "beat": 0,
            "released": False,
        }
        try:
            self._create()
            self._thread = calls.start_thread(self._keep_beating, "mmfl-lease")
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            self._close()
            raise _cannot_lock(self.folder, error) from None
        except BaseException:
            self._close()
            raise
        return self

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the owner."""
        return os.getpid() != self._pid

    def refuse_inherited(self) -> None:
        """Raise `StoreError` in a process that was forked from the owner."""
        if self.inherited:
            raise StoreError(
                f"{str(self.folder)!r} belongs to process {self._pid}, and this process was forked "
                "from it; use the run in that process only"
            )

    def check(self) -> None:
        """Raise `StoreError` if the folder is not, or no longer, this process's."""
        self.refuse_inherited()
        try:
            here = _is_same(self._place, self._number)
            ours = _is_same(self._path, self._file)
        except OSError as error:
            said = f"cannot tell which process owns {str(self.folder)!r}: {error.strerror}"
            raise StoreError(said) from None
        if not here:
            raise StoreError(
                f"{str(self.folder)!r} was moved or removed during the run; move it back, then "
                "resume it"
            )
        self.check_owner(self.token if ours else None)

    def check_owner(self, token: str | None) -> None:
        """Raise `StoreError` if the owner that the run names is another process."""
        if token != self.token:
            raise StoreError(
                f"{str(self.folder)!r} was taken over by another process while this one did not "
                f"respond for more than {PATIENCE:g} s"
            )

    def close(self) -> None:
        """Release the folder; a process that was forked from the owner only closes its copies."""
        if self._number < 0:
            return
        if self.inherited:
            self._close()
            return
        self._ended.set()
        try:
            if self._thread is not None:
                self._thread.join()
                with suppress(Exception):  # other machines learn from its silence that it is gone
                    self._write(released=True)
            if self._locked:
                with suppress(Exception):  # the lock ends with its file
                    calls.unlock(self._number)
        finally:
            self._close()

    def _close(self) -> None:
        numbers = (self._file, self._number)
        self._file = self._number = -1
        for number in numbers:
            if number >= 0:
                with suppress(OSError):
                    os.close(number)

    def _create(self) -> None:
        """Write the lease under its epoch's name, unless another process was faster."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._file = calls.open_fd(self._path, flags, 0o666)
        except FileExistsError:
            raise StoreError(f"{str(self.folder)!r} is in use by another process") from None
        try:
            self._write()
            calls.fsync(self._file)
            self._remove_older()
        except BaseException:
            with suppress(OSError):
                remove_file(self._path)
            raise

    def _remove_older(self) -> None:
        """Remove the leases of earlier owners, so that one that is suspended finds its own gone."""
        for path in list_folder(self._place):
            found = LEASE.fullmatch(path.name)
            if found and int(found[1]) < self.epoch and _read(path) is not None:
                try:
                    remove_file(path)
                except PermissionError as error:  # another user's, in a folder with the sticky bit
                    said = f"{path.name} of an earlier process cannot be removed: {error.strerror}"
                    advice = "remove it as its owner, or copy the run with cp -r"
                    raise OSError(error.errno, f"{said}; {advice}") from None

    def _keep_beating(self) -> None:
        while not self._ended.wait(BEAT):
            with suppress(OSError):  # without a new beat it counts as dead elsewhere: see `check`
                self._write(beat=self._record["beat"] + 1)
                calls.fsync(self._file)

    def _write(self, **changes: Any) -> None:
        """Write the record in place, always as many bytes."""
        self._record |= changes
        line = json.dumps(self._record)
        calls.write_at(self._file, f"{line:<{_SIZE - 1}}\n".encode(), 0)


def _is_same(path: Path, number: int) -> bool:
    """Whether a path still stands for an open file."""
    try:
        return os.path.samestat(calls.status(path), calls.status_of_open(number))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _cannot_lock(folder: Path, error: OSError | RuntimeError) -> StoreError:
    return StoreError(f"cannot lock {str(folder)!r}: {getattr(error, 'strerror', None) or error}")


def is_owned(folder: Path) -> bool:
    """Whether a process seems to own a folder now, decided without waiting."""
    try:
        number = _open_folder(folder)
    except StoreError:
        return False
    try:
        strong = _try_lock(number, shared=True)  # readers do not exclude each other
    finally:
        os.close(number)
    if strong is None:
        return True
    found = _newest(folder)
    if found is None or found.released:
        return False
    if strong and found.record and found.record.get("boot") == _boot():
        return False
    with suppress(OSError):
        return abs(calls.now() - calls.status(found.path).st_mtime) < PATIENCE
    return False


def find_owner(folder: Path) -> int | None:
    """The ID of the process on this machine that owns a folder; None if that is not certain.

    Anybody may have written the lease, so the process that it names must have the folder open.
    Needs /proc.
    """
    found = _newest(folder) if is_owned(folder) else None
    if found is None or found.released or not found.record or found.record.get("boot") != _boot():
        return None
    pid = found.record.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 1:
        return None
    with suppress(OSError):
        here = calls.status(folder)
        for path in list_folder(Path(f"/proc/{pid}/fd")):
            with suppress(OSError):
                if os.path.samestat(calls.status(path), here):
                    return pid
    return None


def _open_folder(folder: Path) -> int:
    try:
        return calls.open_fd(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"cannot open {str(folder)!r}: {error.strerror}") from None


def _try_lock(number: int, *, shared: bool = False) -> bool | None:
    """True if the folder is locked now, None if another process holds it, False without locks."""
    try:
        calls.lock(number, shared=shared)
    except BlockingIOError:
        return None
    except OSError:
        return False
    return True


def _take_lock(number: int, folder: Path) -> bool:
    """Lock the folder; whether the file system has locks."""
    for attempt in range(10):
        if attempt:
            calls.sleep(0.03)  # `is_owned` holds the lock for an instant
        strong = _try_lock(number)
        if strong is not None:
            return strong
    raise StoreError(f"{str(folder)!r} is in use by another process")


def _newest(folder: Path) -> _Entry | None:
    """The lease of the last owner; None if there was none."""
    names = [path.name for path in list_folder(folder)]
    epochs = [int(m[1]) for name in names if (m := LEASE.fullmatch(name))]
    if not epochs:
        return None
    path = folder / f"lease-{max(epochs):08d}.json"
    return _Entry(path, max(epochs), _read(path))


def _read(path: Path) -> dict[str, Any] | None:
    for attempt in range(3):  # a reader may see half of a beat, once
        if attempt:
            calls.sleep(0.02)
        try:
            found = json.loads(read_file(path, limit=_SIZE))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found if isinstance(found.get("token"), str) else None  # else it is not ours
    return None


def _refuse_living(before: _Entry, *, strong: bool) -> None:
    """Raise `StoreError` if the last owner is alive; this may wait."""
    if before.released or (strong and before.record and before.record.get("boot") == _boot()):
        return
    folder = str(before.path.parent)
    warnings.warn(
        f"{folder!r} was in use by {before.owner} and not released; waiting up to "
        f"{PATIENCE:g} s to see whether that process is still running",
        MmflWarning,
        stacklevel=2,
    )
    limit = calls.monotonic() + PATIENCE
    while calls.monotonic() < limit:
        calls.sleep(min(0.25, PATIENCE / 10))
        after = _newest(before.path.parent)
        if after is not None and after.released:
            return
        if after is None or (after.path, after.record) != (before.path, before.record):
            raise StoreError(f"{folder!r} is in use by {before.owner}")


def _boot() -> str:
    """Which boot of which kernel this is; random where the system does not say."""
    with suppress(OSError):
        return read_file("/proc/sys/kernel/random/boot_id", limit=100).decode().strip()
    return _UNKNOWN


_UNKNOWN = secrets.token_hex(16)
