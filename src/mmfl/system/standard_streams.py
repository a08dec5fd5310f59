"""Standard input, output and error: file numbers 0, 1 and 2 are always open.

A shell may start a process without them (``<&-``, ``>&-``). The next file that is opened then gets
such a number: what is meant for a person is written into it, and a child finds its own standard
file there instead.
"""

from __future__ import annotations

import os
import sys

from mmfl.errors import EngineError

__all__ = ["open_standard_files"]


def open_standard_files() -> None:
    """Open the null device in place of each standard file that is closed."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False, encoding="utf-8"))


def _open_null(number: int) -> None:
    try:
        os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
    except OSError as error:
        raise EngineError(
            f"file descriptor {number} is closed, and {os.devnull!r} cannot be opened in its "
            f"place: {error.strerror}"
        ) from None
    os.set_inheritable(number, True)
