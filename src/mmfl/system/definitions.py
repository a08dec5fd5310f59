"""Where a function or class of the user's is defined, for messages about what it returns."""

from __future__ import annotations

import inspect
import linecache
from types import CodeType, FunctionType, MethodType
from typing import Any

from mmfl.errors import printable
from mmfl.system.tracebacks import Frame, is_library_code

__all__ = ["describe_place", "find_definition"]


def describe_place(*parts: object) -> str:
    """Where the first of these parts that is the user's is defined, in brackets; "" if none is."""
    for part in parts:
        place = find_definition(part)
        if place is not None:
            return f" ({place})"
    return ""


def find_definition(part: object) -> Frame | None:
    """The file and line where a part is defined; None if it is a library's, or unknown.

    Args:
        part: A function, a class or an object of one. A component that calls a user's function is
            defined where that function is.
    """
    try:
        thing: Any = getattr(part, "function", part)
        if hasattr(thing, "path") and hasattr(thing, "find"):  # it is known by its import path
            thing = thing.find()
        return _find(inspect.unwrap(thing) if callable(thing) else thing)
    except Exception:  # the user's objects may do anything when they are looked at
        return None


def _find(thing: Any) -> Frame | None:
    while not isinstance(thing, type | FunctionType):
        inner = getattr(thing, "__func__" if isinstance(thing, MethodType) else "func", None)
        thing = type(thing) if inner is None else inner
    if isinstance(thing, FunctionType):
        return _make_frame(thing.__code__, thing.__code__.co_firstlineno, thing.__module__)
    return _find_class(thing)


def _find_class(kind: type) -> Frame | None:
    """The line of a class, or of its first method if the text of the file is not known."""
    methods = [vars(kind)[name] for name in vars(kind)]
    functions = [inspect.unwrap(getattr(method, "__func__", method)) for method in methods]
    codes = [one.__code__ for one in functions if isinstance(one, FunctionType)]
    codes = [code for code in codes if not code.co_filename.startswith("<string")]
    first = min(codes, key=lambda code: code.co_firstlineno, default=None)
    if first is None:
        return None
    line = first.co_firstlineno
    lines = linecache.getlines(first.co_filename)[:line]
    for number, text in reversed([*enumerate(lines, 1)]):
        if text.split("(")[0].split(":")[0].split() == ["class", kind.__name__]:
            return _make_frame(first, number, kind.__module__)
    return _make_frame(first, line, kind.__module__)


def _make_frame(code: CodeType, line: int, module: str) -> Frame | None:
    if is_library_code(code.co_filename, module):
        return None
    whole = Frame.of(code, line)
    return Frame(printable(whole.file), line)
