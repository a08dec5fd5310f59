"""Functions, classes and modules that exist only in the running program: a notebook, a script.

Wherever a configuration names user code by its import path, such an object is named
``in_memory:NAME-DIGEST``. The digest is that of its code, of what it refers to, and of its weights,
so that an edited object counts as another one. Nothing is ever imported for such a name: it only
finds what this process was given, or what the process that started it has sent (`pack`, `unpack`).
It is never stored, so an experiment with such parts cannot be run from its file alone.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from mmfl.config.digests import MARKS, compute_digest
from mmfl.config.messages import problem
from mmfl.system.sources import add_sources, find_sources
from mmfl.system.user_code import describe_error, pass_on

__all__ = [
    "copy_by_value",
    "find_kept",
    "find_paths",
    "is_in_memory",
    "is_module",
    "keep",
    "pack",
    "unpack",
]

T = TypeVar("T")

_NAME = re.compile(r"in_memory:\w*-[0-9a-f]{16}")  # "-" is in no import path

_kept: dict[str, Any] = {}
"""From name to object; those that a worker was sent may also have the name of a script's part."""


def keep(thing: Any) -> str:
    """The name under which an object is found in this process from now on.

    A copy of an ``nn.Module`` is kept: training it afterwards does not change the experiment.
    """
    try:
        digest = compute_digest(thing)
    except Exception as error:  # pickling calls the user's code
        pass_on(error)
        remedy = "give a function that builds it" if is_module(thing) else "define it in a module"
        raise problem(
            f"{_name_of(thing)!r} cannot be kept in memory, because something that it refers to "
            f"cannot be copied to another process: {describe_error(error)}; {remedy}",
            cause=error,
        ) from error
    path = f"in_memory:{_name_of(thing)}-{digest[:16]}"
    _kept[path] = copy_by_value(thing) if is_module(thing) else thing
    return path


def copy_by_value(thing: T) -> T:
    """A copy as another process would get it: functions in it refer to the copy, too."""
    import cloudpickle

    copy: T = cloudpickle.loads(_pickle(thing))
    return copy


def is_in_memory(path: str) -> bool:
    """Whether an import path is the name of an object in memory."""
    return _NAME.fullmatch(path) is not None


def find_kept(path: str) -> Any:
    """The object of that name; `KeyError` if this process does not have it."""
    return _kept[path]


def is_module(thing: object) -> bool:
    """Whether it is an ``nn.Module``; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def find_paths(value: Any) -> set[str]:
    """All names of objects in memory in a plain table."""
    if isinstance(value, str):
        return {value} if is_in_memory(value) else set()
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return set().union(*map(find_paths, value))
    return set()


def pack(paths: Iterable[str]) -> dict[str, dict[str, str]]:
    """These objects as text, for the workers that this process has started, and nobody else.

    Their source text comes along if it is in no file.
    """
    pickled = {path: _pickle(_kept[path]) for path in paths}
    return {
        "objects": {path: base64.b64encode(code).decode() for path, code in pickled.items()},
        "sources": find_sources(b"".join(pickled.values())),
    }


def unpack(packed: Mapping[str, Mapping[str, str]]) -> None:
    """In a worker: restore what the process that started it has packed."""
    import cloudpickle

    add_sources(packed["sources"])
    for path, text in packed["objects"].items():
        if path not in _kept:
            _kept[path] = cloudpickle.loads(base64.b64decode(text))


def _name_of(thing: Any) -> str:
    name = getattr(thing, "__qualname__", type(thing).__qualname__).rpartition(".")[2]
    return "function" if name == "<lambda>" else re.sub(r"\W", "", name)


def _pickle(thing: Any) -> bytes:
    """An object and all that only this program has, by value; anything else by its import path."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar[Any] = ChainMap(MARKS, cloudpickle.Pickler.dispatch_table)

    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue()
