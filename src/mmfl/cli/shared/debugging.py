"""``--debug``: whole tracebacks of errors in user code, before the sentence about them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
import typer
from typer.core import TyperOption

from mmfl.system.tracebacks import format_traceback, printable_lines

__all__ = [
    "TraceLog",
    "is_in_debugger",
    "log_traces",
    "make_debug_option",
    "show_error",
    "show_trace",
]

_KEY = "mmfl.debug"

_DEBUGGERS = {"bdb", "pydevd"}
"""Modules that are on the stack if pdb, ipdb, PyCharm or VS Code runs the program."""


def make_debug_option() -> click.Option:
    """The option."""
    return TyperOption(
        param_decls=["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_note,
        help="Show the whole traceback of an error, and of turns that fail because your code "
        "raises.",
    )


def _note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_KEY] = value  # which a command shares with the group that runs it


def _is_wanted() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_KEY))


def is_in_debugger() -> bool:
    """Whether a debugger runs this program: it is to get exceptions as they are."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in _DEBUGGERS:
            return True
    return False


def show_error(error: BaseException) -> None:
    """Print the whole traceback of an error, if it is wanted."""
    if _is_wanted():
        _print(format_traceback(error))


def show_trace(text: str) -> None:
    """Print a traceback that is known as text, if it is wanted."""
    if _is_wanted():
        _print(printable_lines(text))


def _print(text: str) -> None:
    with suppress(OSError):
        typer.echo(text, err=True, nl=False)


class TraceLog:
    """Tracebacks of turns and of runs that failed."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def note(self, text: str) -> None:
        """Keep the traceback of a turn."""
        self._texts.append(text)

    def note_error(self, name: str, error: Exception) -> None:
        """Keep the traceback of a run."""
        self._texts.append(f"{name}:\n{format_traceback(error)}")

    def show(self) -> None:
        """Print them."""
        for text in self._texts:
            _print(f"{printable_lines(text)}\n")


@contextmanager
def log_traces() -> Iterator[TraceLog]:
    """A log that is printed at the end of the block if tracebacks are wanted."""
    log = TraceLog()
    try:
        yield log
    finally:
        if _is_wanted():
            log.show()
