"""Tracebacks of errors in code that the user wrote: the user's own frames, and all of it as text.

A message has the user's innermost frames in one line, innermost last: file, line, function and
source line. It has no folders, so it is the same wherever it comes from. The whole traceback is for
``--debug``, and is the cause of an error that another process reports (`RemoteError`).
"""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import is_
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from mmfl.errors import MmflError, printable, shorten

__all__ = [
    "Frame",
    "RemoteError",
    "find_frames",
    "format_cause",
    "format_traceback",
    "hand_over",
    "is_handed",
    "is_installed",
    "is_library_code",
    "is_users",
    "lead_to",
    "make_cause",
    "name_file",
    "printable_lines",
    "walk",
]

E = TypeVar("E", bound=BaseException)
T = TypeVar("T")

SHOWN = 3
"""How many frames a message has."""

SOURCE, TEXT = 80, 20_000
"""Letters of a source line in a message, and of a whole traceback; longer ones are shortened."""

_OURS = {
    *("mmfl", "click", "numpy", "pydantic", "pydantic_core", "rich", "safetensors", "scipy"),
    *("tomli_w", "torch", "typer"),
}
"""mmfl and what it needs: known by name, wherever they are installed and by whatever path."""
_STDLIB = tuple(
    f"{os.path.dirname(file)}{os.sep}" for file in (os.__file__, os.path.realpath(os.__file__))
)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class RemoteError(Exception):
    """The cause of an error that happened in another process: its traceback as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(frozen=True)
class Frame:
    """A place in a file of the user's.

    Attributes:
        file: The file's name, without its folder.
        line: The line.
        function: The function; "" at the top level of a file.
        source: The text of the line; "" if it is not known.
    """

    file: str
    line: int
    function: str = ""
    source: str = ""

    @classmethod
    def of(cls, code: CodeType, line: int, variables: dict[str, Any] | None = None) -> Frame:
        """A line of some code, with the variables of its module."""
        function = code.co_qualname.rpartition("<locals>.")[2]
        function = "" if function == "<module>" else function
        linecache.checkcache(code.co_filename)
        source = linecache.getline(code.co_filename, line, variables).strip()
        words = printable(function), printable(shorten(source, SOURCE))
        return cls(name_file(code.co_filename), line, *words)

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}"
        where += f", in {self.function}" if self.function else ""
        return f"{where}: {self.source}" if self.source else where


def name_file(path: str) -> str:
    """A file without its folder, except where its name alone says nothing."""
    *_, folder, name = ("", *Path(path).parts)
    return printable(f"{folder}/{name}" if name == "__init__.py" else name)


def find_frames(error: BaseException, packages: Collection[str] = ()) -> list[Frame]:
    """The user's innermost frames that an error went through, innermost last.

    A recursion that is too deep ends anywhere, so there the outermost frames are taken.

    Args:
        error: An exception that was caught.
        packages: Names of packages whose code counts as the user's, also if they are installed.
    """
    places: list[tuple[CodeType, int, dict[str, Any]]] = []
    for frame, line in walk(error.__traceback__):
        if frame.f_code is hand_over.__code__:
            places.clear()  # from here on it is no longer the code that asked for an item
        elif is_users(frame, packages):
            places.append((frame.f_code, line or 0, frame.f_globals))
    different = [next(same) for _, same in groupby(places, key=lambda place: place[:2])]
    deep = isinstance(error, RecursionError)
    return [Frame.of(*place) for place in (different[:SHOWN] if deep else different[-SHOWN:])]


def format_traceback(error: BaseException) -> str:
    """The whole traceback of an exception and its causes, with control characters escaped."""
    try:
        text = "".join(traceback.format_exception(error, chain=not _contains_cause(error)))
    except Exception:  # it is the user's exception: printing it may do anything
        text = "".join(traceback.format_tb(error.__traceback__))
    if len(text) > TEXT:
        text = "...\n" + text[-TEXT:].partition("\n")[2]
    return printable_lines(text)


def printable_lines(text: str) -> str:
    """A text of several lines with control characters escaped."""
    return "".join(f"{printable(line)}\n" for line in text.splitlines())


def lead_to(error: E, cause: BaseException | None) -> E:
    """An error whose traceback leads on into that of its cause: to where a debugger is to look."""
    return error if cause is None else error.with_traceback(cause.__traceback__)


def _contains_cause(error: BaseException) -> bool:
    """Whether the traceback of an error leads on into that of its cause, as a guard makes it."""
    cause = error.__cause__
    if cause is None or cause.__cause__ is not None or cause.__context__ is not None:
        return False
    frames = [frame for frame, _ in walk(error.__traceback__)]
    behind = [frame for frame, _ in walk(cause.__traceback__)]
    return bool(behind) and all(map(is_, frames[-len(behind) :], behind))


def format_cause(error: BaseException) -> str:
    """The traceback of what is behind an error; "" if that is nothing but mmfl's own sentence."""
    behind = error.__cause__ if isinstance(error, MmflError) else error
    if isinstance(behind, RemoteError):
        return behind.text
    return "" if behind is None else format_traceback(behind)


def make_cause(text: str) -> RemoteError | None:
    """The cause of an error of another process, from what `format_cause` gave there."""
    return RemoteError(text) if text else None


def hand_over(items: Iterable[T]) -> Iterator[T]:
    """Items for a part that asks for them itself; an error in making them is not the part's."""
    yield from items


def is_handed(error: BaseException) -> bool:
    """Whether an error comes from items that were handed over, not from who asked for them."""
    return any(frame.f_code is hand_over.__code__ for frame, _ in walk(error.__traceback__))


def walk(trace: TracebackType | None) -> Iterator[tuple[FrameType, int | None]]:
    """Frames and lines of a traceback, from the outermost."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def is_users(frame: FrameType, packages: Collection[str] = ()) -> bool:
    """Whether a frame runs user code: not a library's, or that of one of these packages."""
    file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
    if file.startswith("<"):  # code that was made, as the __init__ of a dataclass
        file = str(frame.f_globals.get("__file__") or file)
    if name.partition(".")[0] in packages:
        return True
    if name == "__main__":  # an mmfl program, such as python -m mmfl.engines.worker
        name = str(getattr(frame.f_globals.get("__spec__"), "name", name))
    return not is_library_code(file, name) and not is_installed(file)


def is_library_code(file: str, module: str) -> bool:
    """Whether a module is one of mmfl, of what it needs, or of Python itself."""
    python = file.startswith(("<frozen", *_STDLIB)) and not is_installed(file)
    return python or module.partition(".")[0] in _OURS


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(part in file for part in _PACKAGES)
