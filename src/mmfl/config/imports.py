"""A user's own classes and functions, named by ``package.module:Name`` in a configuration."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pydantic_core import PydanticCustomError

from mmfl.config.in_memory import find_kept, find_paths, is_in_memory, keep
from mmfl.config.messages import problem
from mmfl.config.module_hashes import hash_module
from mmfl.system.user_code import describe_error, pass_on

__all__ = [
    "OwnFunction",
    "are_imports_allowed",
    "find_script_part",
    "get_import_path",
    "import_object",
    "imports_allowed",
]

_imports: ContextVar[bool] = ContextVar("imports_allowed", default=False)


@contextmanager
def imports_allowed(allowed: bool) -> Iterator[None]:
    """Within this block a ``package.module:Name`` is imported, or refused (design, contract 6).

    Without any such block it is refused, in Python too: give the object or the function itself.
    """
    token = _imports.set(allowed)
    try:
        yield
    finally:
        _imports.reset(token)


def are_imports_allowed() -> bool:
    """Whether the innermost block of `imports_allowed` allows them; without any they are not."""
    return _imports.get()


@dataclasses.dataclass(frozen=True)
class OwnFunction:
    """A user's function, by its import path, and the keywords that it is given."""

    path: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Its import path; of an object in memory, the name that it has in the program."""
        return _name_in_memory(self.path) if is_in_memory(self.path) else self.path

    def find(self) -> Any:
        """Import it, or find it in memory."""
        return import_object(self.path)

    def __call__(self, *args: Any) -> Any:
        """Find it, call it."""
        return self.find()(*args, **self.options)


def get_import_path(function: Any) -> str:
    """The ``package.module:name`` under which a function or class can be imported again.

    What cannot be imported by a name is kept in memory: a lambda, what is defined inside a
    function, in a notebook, or in the script that runs.
    """
    module, name = function.__module__, getattr(function, "__qualname__", "<object>")
    path = f"{module}:{name}"
    if module == "__main__" or "<" in path:
        return keep(function)
    try:
        return path if import_object(path) == function else keep(function)
    except PydanticCustomError:  # a decorator, say, has put something else in its place
        return keep(function)


def find_script_part(table: Any) -> str | None:
    """An object in a plain table that exists only in the program that runs; None if all is named.

    No other process can import it.
    """
    return min(find_paths(table), default=None)


def _name_in_memory(path: str) -> str:
    return path.partition(":")[2].rpartition("-")[0]


def _find_in_memory(path: str) -> Any:
    try:
        return find_kept(path)
    except KeyError:
        raise problem(
            f"{_name_in_memory(path)!r} was passed in memory, and this program does not have it; "
            "pass the same object again in Python, or define it in a module",
            "kind",
        ) from None


def import_object(path: str) -> Any:
    """What ``package.module:name`` names; the files of its modules are hashed at once."""
    if is_in_memory(path):
        return _find_in_memory(path)
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
        hash_module(module_name)
        hash_module(str(getattr(found, "__module__", "")))  # it may be defined in another module
    except BaseException as error:
        pass_on(error)
        said = describe_error(error)
        if isinstance(error, ModuleNotFoundError) and module_name.startswith(str(error.name)):
            said += "; put the module next to the experiment file, or add its folder to PYTHONPATH"
        raise problem(f"cannot import {path!r}: {said}", "kind", cause=error) from error
    return found
