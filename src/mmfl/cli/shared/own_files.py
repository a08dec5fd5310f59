"""Files that a command may rewrite, because it knows which of them it wrote.

`mmfl-compare.json` in a comparison's folder has the SHA-256 of the tables and figures that were
written. A file that has none of these hashes is the user's, or was changed since: it is replaced
only with --force. So are the tables of other variants.

`comparison.json` says which variants the tables are of. While there are no tables yet,
`mmfl-compare.json` says which variants are being run, so that an unfinished comparison keeps its
folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mmfl.errors import StoreError
from mmfl.system.files import exists, hash_file, is_folder, read_file, write_file

__all__ = ["COMPARISON_FILES", "REPORT", "OwnFiles"]

RECORD = "mmfl-compare.json"
REPORT = "report.html"
COMPARISON_FILES = (RECORD, "comparison.md", "comparison.json", "comparison.png", REPORT)
"""The files that a comparison writes into its folder, besides its runs."""

_LIMIT = 1 << 20
_TABLES = 1 << 26
_UNREADABLE = (OSError, ValueError, AttributeError, TypeError, KeyError, RecursionError)
_ABOUT = {"mmfl": "files of a comparison", "format": 1}
_NAMED = 3
"""How many variants a sentence names."""


@dataclass
class _Record:
    """What `mmfl-compare.json` says.

    Attributes:
        hashes: From files to the hashes of what was written into them.
        variants: The names of the variants that were run last; None if that is not known.
    """

    hashes: dict[str, list[str]] = field(default_factory=dict)
    variants: list[str] | None = None

    @property
    def content(self) -> bytes:
        """The file's content."""
        variants = {} if self.variants is None else {"variants": self.variants}
        return f"{json.dumps(_ABOUT | variants | {'sha256': self.hashes}, indent=1)}\n".encode()


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
        known = self._read().hashes
        for path in paths:
            self._check(path, _hash(path), known)

    def describe_other(self, variants: Collection[str]) -> str:
        """What a folder with tables of other variants holds, as a clause; else "".

        Tables may get additional variants, since nothing is lost then.
        """
        if not is_folder(self._folder):
            return ""
        running = self._read().variants
        tables = self._read_names()
        names = (running or []) if tables is None else tables
        if all(name in variants for name in names):
            return ""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = ", ".join(map(repr, names[:_NAMED]))
        return f"holds another comparison (of {listed}{more})"

    def note_variants(self, variants: Iterable[str]) -> None:
        """Record which variants are being run."""
        record, names = self._read(), list(variants)
        if record.variants != names:
            record.variants = names
            self._write(self._record, record.content)

    @property
    def recorded(self) -> bool:
        """Whether there is a list of our files; older versions made none."""
        return exists(self._record)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, or replace it if it is ours; one with the same content becomes ours."""
        record, old, new = self._read(), _hash(path), hashlib.sha256(content).hexdigest()
        known = record.hashes
        if old != new:
            self._check(path, old, known)
        key = self._key(path)
        if new not in known.get(key, []):
            # Before the file, and with the hash of what is replaced: it is ours at any moment.
            known[key] = sorted({new, *(one for one in known.get(key, []) if one == old)})
            self._write(self._record, record.content, about=path)
        if old != new:
            self._write(path, content)

    def list_ours(self) -> list[Path]:
        """The files in the folder that are as they were written, and the list of them, last."""
        known = self._read().hashes
        names = [name for name in known if "/" not in name and name not in (".", "..")]
        paths = [self._folder / name for name in names]
        ours = [path for path in paths if _hash(path) in known[path.name]]
        return [*ours, *([self._record] if self.recorded else [])]

    def _write(self, path: Path, content: bytes, about: Path | None = None) -> None:
        try:
            write_file(path, content)
        except OSError as error:
            name = str(about or path)
            raise StoreError(f"cannot write {name!r}: {error.strerror}") from None

    def _check(self, path: Path, there: str | None, known: dict[str, list[str]]) -> None:
        if self._force or there is None or there in known.get(self._key(path), ()):
            return
        raise StoreError(
            f"{str(path)!r} already exists, and mmfl compare did not write it, or it was "
            "changed; move it, or replace it with --force"
        )

    def _key(self, path: Path) -> str:
        """A file in the folder by its name, so that the folder can be moved."""
        return path.name if path.parent == self._folder else os.path.realpath(path)

    def _read(self) -> _Record:
        """What the folder's list says; nothing if there is none."""
        try:
            found = json.loads(read_file(self._record, limit=_LIMIT))
            if found.items() >= _ABOUT.items():
                hashes = {str(name): list(hashes) for name, hashes in found["sha256"].items()}
                names = found.get("variants")
                return _Record(hashes, None if names is None else list(map(str, names)))
        except FileNotFoundError:
            return _Record()
        except _UNREADABLE:
            pass
        if self._force:
            return _Record()
        raise StoreError(f"{str(self._record)!r} was not written by mmfl compare; move it")

    def _read_names(self) -> list[str] | None:
        """The variants that the tables are of, with those that failed; None without tables."""
        try:
            tables = json.loads(read_file(self._folder / "comparison.json", limit=_TABLES))
            names = [variant["name"] for variant in tables["variants"]]
            names += [failed["variant"] for failed in tables.get("failed_runs", ())]
            return list(dict.fromkeys(map(str, names)))
        except _UNREADABLE:
            return None


def _hash(path: Path) -> str | None:
    """The SHA-256 of what is there; None if nothing is."""
    try:
        return hash_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None
