"""The user code that an experiment names as ``module:Name``, by the hash of its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.config import dump, find_module_file, hash_module
from mmfl.errors import EngineError

if TYPE_CHECKING:
    from mmfl.experiment.experiment import Experiment

__all__ = ["find_own_code", "has_own_code", "hash_own_code", "refuse_edited_code"]


def hash_own_code(experiment: Experiment | Mapping[str, Any]) -> dict[str, str]:
    """From the modules that an experiment names to the SHA-256 of their files.

    A file is hashed when mmfl first sees its module, which is right after the import if mmfl
    imports it. What the module imports is not looked into. The script that runs, and what has no
    file, are left out.

    Args:
        experiment: The experiment, or its plain table.
    """
    table = experiment if isinstance(experiment, Mapping) else dump(experiment)
    found = {name: hash_module(name) for name in sorted(set(_find_modules(table)))}
    return {name: digest for name, digest in found.items() if digest}


def find_own_code(component: Any) -> list[Path]:
    """The files of the modules that a component, such as an experiment, names."""
    files = map(find_module_file, sorted(set(_find_modules(dump(component)))))
    return [Path(file) for file in files if file is not None]


def has_own_code(table: Mapping[str, Any]) -> bool:
    """Whether a plain experiment names parts that are not mmfl's: imported, or in memory."""
    return any(True for _ in _find_modules(table))


def refuse_edited_code(experiment: Experiment, code: Mapping[str, str]) -> None:
    """Refuse an experiment whose modules are not those of the process that sent it.

    Args:
        experiment: As this process has read it.
        code: What `hash_own_code` says in the process that sent it.
    """
    here = hash_own_code(experiment) if code else {}
    for name, digest in code.items():
        if here.get(name, digest) != digest:
            raise EngineError(
                f"module {name!r} was edited since this process imported it; start again in a new "
                "process"
            )


def _find_modules(value: Any) -> Iterator[str]:
    """The modules of all kinds that a plain table names by their import path."""
    if isinstance(value, Mapping):
        kind = value.get("kind")
        if isinstance(kind, str) and ":" in kind:
            yield kind.partition(":")[0]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _find_modules(inner)
