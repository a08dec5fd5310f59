"""A user's own classes and functions, named by ``package.module:Name`` in a configuration."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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

    def __call__(self, *args: Any) -> Any:
        """Import it, call it."""
        return import_object(self.path)(*args, **self.options)


def get_import_path(function: Any) -> str:
    """The ``package.module:name`` under which a function can be imported again."""
    path = f"{function.__module__}:{function.__qualname__}"
    if "<" in path or import_object(path) != function:  # a lambda, a function inside one, a method
        raise problem(f"{path!r} cannot be imported by this name; define the function in a module")
    return path


def find_script_part(text: str) -> str | None:
    """The first import path in JSON or TOML that names a part of the script that runs.

    No other process can import it.
    """
    match = re.search(r'"(__main__:[^"]+)"', text)
    return None if match is None else match[1]


def import_object(path: str) -> Any:
    """What ``package.module:name`` names; the files of its modules are hashed at once."""
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
        raise problem(f"cannot import {path!r}: {said}", "kind") from error
    return found
