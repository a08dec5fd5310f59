"""The files of a run directory whose hashes are in its database."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path

from mmfl.errors import StoreError
from mmfl.runs.directory.names import OWN_FILE
from mmfl.system.files import hash_file

__all__ = ["Hashes", "describe_damage", "parse_hashes"]

Hashes = dict[str, dict[str, int]]
"""From the names of files to the SHA-256 that they may have, and sizes."""


def parse_hashes(text: str) -> Hashes:
    """What the entry `files` of the table `meta` says."""
    try:
        found = json.loads(text)
        return {
            str(name): {str(digest): int(size) for digest, size in entries.items()}
            for name, entries in found.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise StoreError("meta.files is malformed") from None


def describe_damage(folder: Path, name: str, known: Mapping[str, int]) -> str:
    """What is wrong with a file of a run directory, as a clause; "" if nothing is.

    Args:
        folder: The directory.
        name: The file's name.
        known: From the SHA-256 that it may have to sizes.
    """
    if not OWN_FILE.fullmatch(name):  # nothing outside of the directory is opened
        return f"{name} is not the name of a file of a run"
    try:
        digest = hash_file(folder / name, limit=max(known.values(), default=0))
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        if error.errno != errno.EFBIG:
            return f"{name} cannot be read: {error.strerror}"
        digest = ""  # it is longer than what was written
    return "" if digest in known else f"{name} does not match its hash"
