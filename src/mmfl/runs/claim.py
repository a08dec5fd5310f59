"""Whose run directory it is: one process writes into it, and the system knows if it still lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mmfl.errors import StoreError

__all__ = ["Claim"]


class Claim:
    """A lock on a folder, held until it is closed or the process is gone, however it went.

    Attributes:
        weak: Whether the file system has no locks: then only the run can say who is busy with it.
    """

    weak = False

    def __init__(self, folder: Path) -> None:
        """Take it; `StoreError` if another process has it."""
        try:
            self._number = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise StoreError(f"cannot open {str(folder)!r}: {error.strerror}") from None
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise StoreError(f"{str(folder)!r} is being run by another process") from None
        except OSError:
            self.weak = True

    def close(self) -> None:
        """Let others have it."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1
