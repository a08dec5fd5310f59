"""Where a function or class of the user's is defined, for messages about what it returns."""

from __future__ import annotations

import inspect
import linecache
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from mmfl.system.tracebacks import Frame, is_library_code, name_file

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
        if isinstance(thing, MethodType):
            thing = thing.__func__
        else:
            thing = thing.func if isinstance(thing, partial) else type(thing)
    file, line = _find_class(thing) if isinstance(thing, type) else _find_code(thing)
    return None if is_library_code(file, thing.__module__) else Frame(name_file(file), line)


def _find_code(function: FunctionType) -> tuple[str, int]:
    return function.__code__.co_filename, function.__code__.co_firstlineno


def _find_class(kind: type) -> tuple[str, int]:
    """The line of a class, or of its first method if the text of the file is not known."""
    methods = [vars(kind)[name] for name in vars(kind)]
    functions = [inspect.unwrap(getattr(method, "__func__", method)) for method in methods]
    places = [_find_code(one) for one in functions if isinstance(one, FunctionType)]
    places = [place for place in places if not place[0].startswith("<string")]
    if not places:
        return inspect.getsourcefile(kind) or "", inspect.getsourcelines(kind)[1]
    file, first = min(places, key=lambda place: place[1])
    lines = linecache.getlines(file)[:first]
    for number, text in reversed([*enumerate(lines, 1)]):
        if text.split("(")[0].split(":")[0].split() == ["class", kind.__name__]:
            return file, number
    return file, first
