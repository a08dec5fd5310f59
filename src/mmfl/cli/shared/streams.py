"""Standard output and error: any character can be written, and a full disk causes no traceback.

If nobody reads the output any more (``mmfl ... | head -1``), short commands end silently, as Unix
tools do. Commands that train continue without output: `survive_closed_output`.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import typer

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

CLOSED = 141
"""The exit code of a command whose output nobody reads: 128 + SIGPIPE, as for Unix tools."""

NEVER_TRAINED = 3
"""The exit code of a command whose result is stored, although a task in it never trained."""

_OPTIONS = (
    (r"\bresume that run with resume=True", "resume that run with --resume"),
    (r"\bdifficulty and runs cannot\b", "difficulty and --run cannot"),
    (r"\b(choose (?:a|another) folder)\b(?! \()", r"\1 (--out)"),
    (r"\bpass allow_imports=True, or the object itself,", "pass --allow-imports"),
    (r"\b(set by|set|with) data_dir\b(?=\)| or MMFL_DATA)", r"\1 --data-dir"),
    (r"\bor use jobs=1\b", "or use --jobs 1"),
    (r"\breplace it with force=True\b", "replace it with --force"),
    (r"; name a folder of studies$", "; name a folder of studies with --studies"),
    (r"^(.* with )?sets: ", r"\1--set: "),
)
"""How the library refers to its arguments, and the matching words of the command line."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

__all__ = [
    "CLOSED",
    "NEVER_TRAINED",
    "ClosedOutputError",
    "complain",
    "drop_output",
    "escape_letters",
    "explain",
    "find_terminals",
    "flush",
    "leave_terminals",
    "name_limit",
    "name_options",
    "survive_closed_output",
    "watch_output",
]


class ClosedOutputError(Exception):
    """Nobody reads the output any more; for an `OSError`, Typer would end with exit code 1."""

    ends_command = True
    """Also if user code has printed: it is not an error of that code."""


class _Watched(io.FileIO):
    """A standard file whose reader may disappear; output then goes to the null device."""

    sentence: str | None = None
    """The message for that case; None: the command ends."""

    def write(self, data: Any, /) -> int:
        try:
            while (count := super().write(data)) is None:  # it does not block: wait for the reader
                select.select([], [self], [])
            return count
        except OSError as error:
            hung_up = error.errno == errno.EIO and self.sentence is not None  # a closed terminal
            if not hung_up and not isinstance(error, BrokenPipeError):
                raise
        _lead_to_null(self.fileno())
        if self.sentence is None:
            raise ClosedOutputError
        if self.sentence:
            complain(self.sentence)
        return len(data)


@contextmanager
def watch_output() -> Iterator[None]:
    """In this block, standard output and error notice when nobody reads them any more."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _watch(sys.stdout, None), _watch(sys.stderr, "")
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, ClosedOutputError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _watch(stream: TextIO, sentence: str | None) -> TextIO:
    """The stream, on a file that is watched; as it is if it is not a file, as in tests."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = getattr(stream.buffer, "raw", stream.buffer)  # without buffer: PYTHONUNBUFFERED
    if not isinstance(raw, io.FileIO):
        return stream
    stream.flush()
    watched: Any = _Watched(raw.fileno(), "wb", closefd=False)
    watched.sentence = sentence
    return io.TextIOWrapper(
        watched if raw is stream.buffer else io.BufferedWriter(watched),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def survive_closed_output(sentence: str) -> None:
    """From here on, continue without output if nobody reads it, and say so on standard error."""
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if isinstance(raw, _Watched):
        raw.sentence = sentence


def find_terminals() -> list[int]:
    """Which of standard output and error are terminals."""
    return [number for number in (1, 2) if os.isatty(number)]


def leave_terminals(terminals: Sequence[int]) -> None:
    """Stop writing to terminals that were closed meanwhile, which would be an error."""
    for number in terminals:
        if not os.isatty(number):
            _lead_to_null(number)


def _lead_to_null(number: int) -> None:
    """Discard what is written to a file."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def escape_letters() -> None:
    r"""Show a letter that a stream's encoding does not have as an escape, such as ``\xe4``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush standard output now, so that errors show here and not when Python exits."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Stop writing to standard output, even at exit."""
    if sys.stdout is not None:
        with suppress(OSError):
            _lead_to_null(sys.stdout.fileno())


def complain(sentence: str, *, loud: bool = False) -> None:
    """Print it on standard error if possible, in the command line's own words.

    Args:
        sentence: What to print.
        loud: In bold and red, on a terminal.
    """
    said = f"mmfl: {name_limit(name_options(sentence))}"
    with suppress(OSError):
        typer.secho(said, err=True, bold=loud or None, fg="red" if loud else None)


def name_limit(sentence: str) -> str:
    """A sentence about too many open files, with the limit and how to raise it."""
    if resource is None or os.strerror(errno.EMFILE) not in sentence:
        return sentence
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"{sentence} (at most {limit} files may be open here: raise the limit with ulimit -n)"


def name_options(sentence: str) -> str:
    """A sentence of the library, in terms of command-line options."""
    for said, option in _OPTIONS:
        sentence = re.sub(said, option, sentence)
    return sentence


def explain(error: OSError) -> str:
    """One sentence about an unexpected error of the operating system.

    One that names no file is about a stream: what commands write elsewhere has a name.
    """
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error.filename, str | bytes):  # it may be a number: that of an open file
        return f"{os.fsdecode(error.filename)!r}: {reason}"
    return f"cannot write the output: {reason}" if error.errno in _FULL else reason
