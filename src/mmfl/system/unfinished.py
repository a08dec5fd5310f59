"""Unfinished files in a user's folder, next to the file that each of them will become.

Their random names are nobody else's. An unfinished file is locked while it is written. So what a
killed process has left can be told from what another process writes, and the next one removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mmfl.system import calls

__all__ = ["PART", "PLAIN", "replace_file"]

PART = ".part"
"""What the name of an unfinished file ends in."""

PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # Windows has only the second

_NAME = re.compile(rf"\.mmfl-[0-9a-f]{{16}}{re.escape(PART)}")


@contextmanager
def replace_file(target: Path) -> Iterator[int]:
    """The number of a new, open file, which takes the place of `target` when the block ends well.

    If the block fails, `target` is as it was.
    """
    _remove_leftovers(target.parent)
    number, part, locked = _create(target)
    try:
        try:
            yield number
            if not locked:  # Windows, which has no locks, renames no open file
                os.close(number)
                number = -1
            calls.rename(part, target)
        except BaseException:
            with suppress(OSError):
                calls.unlink(part)
            raise
    finally:
        if number >= 0:
            os.close(number)


def _create(target: Path) -> tuple[int, Path, bool]:
    """A new file next to `target`, and whether it is locked until it is closed."""
    while True:
        part = target.with_name(f".mmfl-{secrets.token_hex(8)}{PART}")
        number = calls.open_fd(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
        try:
            locked = _try_lock(number)
            if os.fstat(number).st_nlink:  # else another process took it for a leftover
                return number, part, locked
        except BaseException:
            with suppress(OSError):
                calls.unlink(part)
            os.close(number)
            raise
        os.close(number)


def _try_lock(number: int) -> bool:
    try:
        calls.lock(number)
    except OSError:  # not every system and file system has locks
        return False
    return True


def _remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of processes that are gone, as far as that is possible."""
    with suppress(OSError):
        for name in calls.list_folder(folder):
            if _NAME.fullmatch(name):
                with suppress(OSError):
                    _remove_if_unlocked(folder / name)


def _remove_if_unlocked(part: Path) -> None:
    if not stat.S_ISREG(calls.status(part, follow_symlinks=False).st_mode):
        return
    number = calls.open_fd(part, os.O_RDONLY | PLAIN | getattr(os, "O_NOFOLLOW", 0))
    try:
        calls.lock(number)  # refused while its process lives
        about = calls.status(part, follow_symlinks=False)
        if os.path.samestat(about, os.fstat(number)):
            calls.unlink(part)
    finally:
        os.close(number)
