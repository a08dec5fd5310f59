"""Files that a command may write again and again, since it knows which of them are its own.

`mmfl-compare.json` in a comparison's folder has the SHA-256 of the tables and pictures that were
written. A file that has none of these hashes is the user's, or was changed since: it is replaced
only with --force.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from mmfl.errors import StoreError
from mmfl.system.files import hash_file, read_file, write_file

__all__ = ["OwnFiles"]

RECORD = "mmfl-compare.json"
_LIMIT = 1 << 20
_ABOUT = {"mmfl": "files of a comparison", "format": 1}


class OwnFiles:
    """The files of a comparison.

    Args:
        folder: Its folder.
        force: Whether to replace files of others.
    """

    def __init__(self, folder: Path, *, force: bool) -> None:
        self._folder, self._force = folder, force
        self._record = folder / RECORD

    def check(self, paths: Iterable[Path]) -> None:
        """Refuse files that are there and not ours."""
        known = self._read()
        for path in paths:
            self._check(path, _hash(path), known)

    @property
    def recorded(self) -> bool:
        """Whether there is a list of our files; older versions made none."""
        return self._record.exists()

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, or replace it if it is ours; one with the same content becomes ours."""
        known, old, new = self._read(), _hash(path), hashlib.sha256(content).hexdigest()
        if old != new:
            self._check(path, old, known)
        key = self._key(path)
        # Before the file, and with the hash of what is replaced: it is ours at any moment.
        hashes = sorted({new, *(one for one in known.get(key, []) if one == old)})
        try:
            if known.get(key) != hashes:
                known[key] = hashes
                text = json.dumps(_ABOUT | {"sha256": known}, indent=1)
                write_file(self._record, f"{text}\n".encode())
            if old != new:
                write_file(path, content)
        except OSError as error:
            raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None

    def _check(self, path: Path, there: str | None, known: dict[str, list[str]]) -> None:
        if self._force or there is None or there in known.get(self._key(path), ()):
            return
        raise StoreError(
            f"{str(path)!r} already exists, and mmfl compare did not write it, or it was changed "
            "since; move it, or replace it with --force"
        )

    def _key(self, path: Path) -> str:
        """A file in the folder by its name, so that the folder can be moved."""
        return path.name if path.parent == self._folder else os.path.realpath(path)

    def _read(self) -> dict[str, list[str]]:
        """From files to the hashes of what was written into them."""
        try:
            found = json.loads(read_file(self._record, limit=_LIMIT))
            if found.items() >= _ABOUT.items():
                return {str(name): list(hashes) for name, hashes in found["sha256"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError, KeyError, RecursionError):
            pass
        if self._force:
            return {}
        raise StoreError(f"{str(self._record)!r} is not a file of mmfl compare; move it")


def _hash(path: Path) -> str | None:
    """The SHA-256 of what is there; None if nothing is."""
    try:
        return hash_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None
