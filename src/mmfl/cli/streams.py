"""Standard output and error: any letter can be written, and a full disk is no traceback."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from contextlib import suppress

import typer

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

__all__ = ["complain", "drop_output", "escape_letters", "flush", "name_options", "why"]


def escape_letters() -> None:
    r"""Show a letter that a stream's encoding does not have as an escape, such as ``\xe4``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Let what was printed arrive, or fail, now and not when Python ends."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Write no more to standard output, not even at exit."""
    if sys.stdout is not None:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(sentence: str) -> None:
    """Say it on standard error, if that can be."""
    with suppress(OSError):
        typer.echo(f"mmfl: {sentence}", err=True)


def name_options(sentence: str) -> str:
    """A sentence of the library's, with the option that does what it advises."""
    return re.sub(r"\b(choose (?:a|another) folder)\b(?! \()", r"\1 (--out)", sentence)


def why(error: OSError) -> str:
    """One sentence about an error of the system that nobody foresaw.

    One that names no file is about a stream: what commands write elsewhere has a name.
    """
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)!r}: {reason}"
    return f"cannot write the output: {reason}" if error.errno in _FULL else reason
