"""Opening files that a person or a configuration names.

Reading a device may never end, and reading a pipe may never begin: neither is a file.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["opened", "read", "read_text"]


def opened(path: str | Path, *, pipes: bool = False) -> BinaryIO:
    """A file, to be read; whatever is wrong is an `OSError` whose `strerror` says it.

    Args:
        path: Which.
        pipes: Whether it may be a pipe, such as the shell's ``<(command)``; then this waits for
            whoever writes into it.
    """
    try:
        if pipes and stat.S_ISFIFO(os.stat(path).st_mode):
            return open(path, "rb")  # once: whoever writes may be gone before a second time
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError:
        raise OSError(errno.EINVAL, "its name has a zero byte") from None
    kind = os.fstat(number).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(number, "rb")
    os.close(number)
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    what = "pipe" if stat.S_ISFIFO(kind) else "device"
    raise OSError(errno.EINVAL, f"it is a {what}, no file")


def read(path: str | Path, *, pipes: bool = False) -> bytes:
    """All that is in a file; see `opened`."""
    with opened(path, pipes=pipes) as file:
        return file.read()


def read_text(path: str | Path, *, pipes: bool = False) -> str:
    """All that is in a file, as UTF-8 with or without a mark at its beginning; see `opened`."""
    with io.TextIOWrapper(opened(path, pipes=pipes), encoding="utf-8-sig") as file:
        return file.read()
