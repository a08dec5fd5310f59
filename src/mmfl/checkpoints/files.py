"""Files that are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["PART", "sync_folder", "write_whole"]

PART = ".part"
"""What the name of an unfinished file ends in."""


def write_whole(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a file so that its name stands for all of the content or for what it stood for before.

    The steps: a temporary file beside it, fsync, rename, fsync of the folder. If one of them fails,
    the temporary file is removed.

    Args:
        path: Where to.
        content: All of it.
        sync: Whether to make the new name last at once; else `sync_folder` is the caller's to call.
    """
    part = path.with_name(f"{path.name}{PART}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder last, whatever becomes of the power."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
