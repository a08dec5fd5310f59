"""The code of the user's that an experiment names as ``module:Name``, by the hash of its file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mmfl.config import dump
from mmfl.system.files import hash_input

if TYPE_CHECKING:
    from mmfl.experiment.experiment import Experiment

__all__ = ["hash_own_code"]

_hashes: dict[str, tuple[object, str]] = {}
"""From a module's name to how it was found when it was imported, and the hash of its file."""


def hash_own_code(experiment: Experiment) -> dict[str, str]:
    """From the modules that an experiment names to the SHA-256 of their files.

    A module is hashed once after its import: a file that is edited while a process runs is not what
    that process runs. What the module imports is not looked into. The script that runs, and what
    has no file, are left out.
    """
    found = {name: _hash_module(name) for name in sorted(set(_find_modules(dump(experiment))))}
    return {name: digest for name, digest in found.items() if digest}


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


def _hash_module(name: str) -> str:
    """SHA-256 of a module's file; "" if it has none that can be read."""
    module = sys.modules.get(name)
    path, spec = getattr(module, "__file__", None), getattr(module, "__spec__", None)
    if name == "__main__" or not isinstance(path, str):
        return ""
    known, digest = _hashes.get(name, (None, ""))
    if known is None or known is not spec:  # a module that is imported again has a new one
        try:
            digest = hash_input(path)
        except (OSError, ValueError):
            return ""
        _hashes[name] = (spec, digest)
    return digest
