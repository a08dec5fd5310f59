"""The file that marks a folder as an mmfl run directory: nothing is removed without it.

A run directory gets `mmfl-run.json` before anything else, durably, so a folder in which a run was
killed in its first moment can be told from a user's folder. The file has a random token
and the SHA-256 of the two files that are written next. Its length is fixed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mmfl.runs.directory.folders import FolderTakenError
from mmfl.runs.directory.lock import LEASE
from mmfl.system import calls
from mmfl.system.files import list_folder, read_file, remove_file, sync_folder, write_new

__all__ = [
    "BEGINNING",
    "FIRST",
    "MARK",
    "Mark",
    "is_first",
    "is_marked",
    "read_mark",
    "remove_beginning",
    "write_mark",
]

MARK = "mmfl-run.json"

BEGINNING = (
    *("experiment.toml", "experiment.toml.part", "environment.json", "environment.json.part"),
    *("run.sqlite", "run.sqlite-journal", "run.sqlite-shm", "run.sqlite-wal"),
    MARK,
)
"""The files of a run that has only just begun."""

FIRST = ("experiment.toml", "environment.json")
"""The files that are written after the mark."""

_DIGIT = "?"


def _text(token: str, hashes: dict[str, str]) -> str:
    fields = {"mmfl": "run directory", "format": 1, "token": token}
    return f"{json.dumps(fields | hashes)}\n"


_FORM = _text(32 * _DIGIT, dict.fromkeys(FIRST, 64 * _DIGIT)).encode()


@dataclass(frozen=True)
class Mark:
    """What `mmfl-run.json` says.

    Attributes:
        token: A random name of the run: 32 hex digits.
        files: From the names of the first files to the SHA-256 of what was written into them.
    """

    token: str
    files: dict[str, str]

    @property
    def content(self) -> bytes:
        """The file's content."""
        return _text(self.token, self.files).encode()


def write_mark(folder: Path, first: dict[str, bytes]) -> Mark:
    """Mark a folder that is there and empty; `FolderTakenError` if it holds anything.

    Args:
        folder: The run directory.
        first: The files that will be written next, by name.
    """
    files = {name: hashlib.sha256(first[name]).hexdigest() for name in FIRST}
    mark = Mark(secrets.token_hex(16), files)
    taken = FolderTakenError(f"{str(folder)!r} already exists; choose another folder")
    try:
        write_new(folder / MARK, mark.content)
    except FileExistsError:
        raise taken from None
    try:
        if calls.list_folder(folder) != [MARK]:
            raise taken
        sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            calls.unlink(folder / MARK)
        raise
    return mark


def read_mark(folder: Path) -> Mark | None:
    """The mark of a folder; None if it has none that is whole."""
    content = _content(folder)
    if content is None or len(content.rstrip(b"\0")) != len(_FORM) or not _fits(content):
        return None
    fields = json.loads(content)
    return Mark(fields["token"], {name: fields[name] for name in FIRST})


def is_marked(folder: Path) -> bool:
    """Whether a folder is an mmfl run directory.

    A mark that was cut short by a kill or a power cut counts if there is nothing else but a lease:
    all other files come after it. So does one in which a power cut left what cannot be text: some
    disks show anything where nothing was written yet.
    """
    if read_mark(folder) is not None:
        return True
    content = _content(folder)
    if content is None or not (_fits(content) or _is_debris(content)):
        return False
    return all(path.name == MARK or LEASE.fullmatch(path.name) for path in list_folder(folder))


def is_first(name: str) -> bool:
    """Whether a file of this name is one of a run that has only just begun."""
    return name in BEGINNING or LEASE.fullmatch(name) is not None


def remove_beginning(folder: Path, *, mark: Mark | None = None) -> None:
    """Remove the files of a run that has only just begun.

    The mark is removed last: a kill or a power cut before that leaves a folder that is ours.

    Args:
        folder: The run directory.
        mark: The mark that it must have, else nothing is removed: another process may have cleared
            the folder and started its own run.
    """
    if mark is not None and read_mark(folder) != mark:
        return
    for path in list_folder(folder):
        if is_first(path.name) and path.name != MARK:
            remove_file(path)
    sync_folder(folder)
    remove_file(folder / MARK)


def _content(folder: Path) -> bytes | None:
    try:
        return read_file(folder / MARK, limit=len(_FORM))
    except OSError:
        return None


def _is_debris(content: bytes) -> bool:
    """Whether this is not text; a user's file that happens to have this name would be text."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _fits(content: bytes) -> bool:
    """Whether this is the beginning of a mark; after a power cut, zeros may follow."""
    begun = content.rstrip(b"\0")
    return all(
        byte == wanted or (wanted == ord(_DIGIT) and byte in b"0123456789abcdef")
        for byte, wanted in zip(begun, _FORM, strict=False)
    )
