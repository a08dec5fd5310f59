"""The hashes of a user's modules, taken when mmfl first sees them."""

from __future__ import annotations

import sys

from mmfl.system.files import hash_input

__all__ = ["find_module_file", "hash_module"]

_hashes: dict[str, tuple[object, str]] = {}
"""From a module's name to its spec, and the hash of its file when that was new."""


def find_module_file(name: str) -> str | None:
    """The path of an imported module's file; None if it has none."""
    path = getattr(sys.modules.get(name), "__file__", None)
    return path if isinstance(path, str) else None


def hash_module(name: str) -> str:
    """SHA-256 of an imported module's file; "" if it is the script, or has no readable file.

    The file is read once for each import of the module. A later edit changes the file, but not the
    code that this process runs, so it does not change the hash. Call this right after the import.
    """
    path, spec = find_module_file(name), getattr(sys.modules.get(name), "__spec__", None)
    if name == "__main__" or path is None:
        return ""
    known, digest = _hashes.get(name, (None, ""))
    if known is None or known is not spec:  # a module that is imported again has a new one
        try:
            digest = hash_input(path)
        except (OSError, ValueError):
            digest = ""  # and it stays so: what is read later may be another version
        _hashes[name] = (spec, digest)
    return digest
