"""The folder of a run's checkpoints: written in an order that a kill at any instant leaves whole.

Saving: (1) every part that changed, each to a temporary file, fsync, rename; (2) fsync of the
folder; (3) the checkpoint that names them, in the same way; (4) the caller notes its name; (5) the
oldest checkpoints are removed, then the parts that nobody names. Before (3) is done, the checkpoint
does not exist and earlier checkpoints are unchanged. Before (4) is done, it may not fit what else
the caller has on disk, so the ones before it stay.

Only files that mmfl wrote are removed: those whose names have its form and the first digits
of the SHA-256 of their content, and unfinished ones by their names. Others may lie in the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmfl.config import short
from mmfl.errors import StoreError
from mmfl.loop import State
from mmfl.runs.checkpoints.codec import decode_state, encode_state
from mmfl.runs.directory.folders import refuse_link
from mmfl.runs.directory.names import make_absolute
from mmfl.system import calls
from mmfl.system.files import (
    PART,
    hash_file,
    is_folder,
    is_link,
    list_folder,
    open_file,
    read_file,
    remove_file,
    sync_folder,
    write_whole,
)
from mmfl.system.user_code import pass_on

__all__ = ["CheckpointStore", "SearchResult", "round_of"]

FORMAT = 1
DIGITS = 16
_NAME = re.compile(rf"round-(\d{{8,}})\.([0-9a-f]{{{DIGITS}}})\.json")
_FILE = re.compile(rf"(?:model-[^/\\]+|clients|arrays)\.([0-9a-f]{{{DIGITS}}})\.safetensors")
_DOCUMENT = 1 << 30
"""The most bytes that a checkpoint itself may have; its files say how many they have."""

_HEAD = 1 << 26


@dataclass(frozen=True)
class SearchResult:
    """The result of a search for a checkpoint.

    Attributes:
        state: None if there is none that is whole.
        name: Its file's name.
        damaged: From the names of newer ones to what is wrong with them.
    """

    state: State | None
    name: str
    damaged: dict[str, str]


class CheckpointStore:
    """A folder of checkpoints; only one process writes into it."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder = make_absolute(folder)
        self._shown = folder
        self._keep = keep
        self._written: dict[str, tuple[object, dict[str, Any]]] = {}
        self._whole: dict[str, tuple[int, ...]] = {}

    def names(self) -> list[str]:
        """The files' names of all checkpoints, oldest first."""
        if not is_folder(self.folder):
            return []
        found = (path.name for path in list_folder(self.folder) if _NAME.fullmatch(path.name))
        return sorted(found, key=_age)

    def save(self, state: State, note: Callable[[str], object] = lambda name: None) -> str:
        """Write a checkpoint, and remove what is too old; its file's name.

        Args:
            state: To be saved.
            note: Called with the name when the checkpoint is durable, before anything is removed.
        """
        document, parts = encode_state(state)
        try:
            refuse_link(self.folder, self._shown)
            if not is_folder(self.folder):
                calls.make_folder(self.folder)
                sync_folder(self.folder.parent)
            files = {}
            for name, (source, content) in parts.items():
                known = self._written.get(name)
                if known is None or known[0] is not source:
                    known = (source, self._write(name, content()))
                    self._written[name] = known
                files[name] = known[1]
            sync_folder(self.folder)
            whole = {"format": FORMAT, "round": state.round, "files": files, "state": document}
            body = json.dumps(whole, allow_nan=False).encode()
            digest = hashlib.sha256(body).hexdigest()[:DIGITS]
            path = self.folder / f"round-{state.round:08d}.{digest}.json"
            write_whole(path, body)
            self._remember(path.name)
            note(path.name)
            self.prune(self._keep)
        except OSError as error:
            raise StoreError(
                f"cannot write a checkpoint into {str(self._shown)!r}: {error.strerror}; "
                "earlier checkpoints are unchanged"
            ) from None
        return path.name

    def newest(
        self, *, noted: str = "", fits: Callable[[State], str | None] = lambda state: None
    ) -> SearchResult:
        """The newest checkpoint that is whole.

        Args:
            noted: The name of one that must be there.
            fits: Says why a state does not fit, as a clause; None if it fits.
        """
        damaged = {}
        for name in sorted({*self.names(), *([noted] if noted else [])}, key=_age, reverse=True):
            try:
                state = self.load(name)
            except StoreError as error:
                damaged[name] = str(error)
                continue
            complaint = fits(state)
            if complaint is None:
                return SearchResult(state, name, damaged)
            damaged[name] = f"checkpoint {name!r} {complaint}"
        return SearchResult(None, "", damaged)

    def load(self, name: str) -> State:
        """A checkpoint by its file's name; one sentence if anything about it is not as written."""
        try:
            whole = self._document(name)
            content = {part: self._read(entry) for part, entry in whole["files"].items()}
            state = decode_state(whole["state"], content.__getitem__)
            if state.round != whole["round"]:
                raise ValueError("it names two rounds")
        except StoreError as error:
            raise StoreError(f"checkpoint {name!r} {error}") from None
        except Exception as error:  # an intact file without sense was made by hand
            pass_on(error)
            said = f"{type(error).__name__}: {error}"
            raise StoreError(f"checkpoint {name!r} is malformed ({said})") from None
        return state

    def forget_after(self, round: int, noted: str = "") -> None:  # noqa: A002
        """Remove the checkpoints of later rounds, and what only they name.

        Args:
            round: The last round that is remembered.
            noted: The name of one that the run knows to be its own, though it may be damaged.
        """
        refuse_link(self.folder, self._shown)
        for name in self.names():
            if round_of(name) > round and self._is_ours(name, noted=name == noted):
                self._remove(name)
        self.prune(self._keep)

    def prune(self, keep: int) -> None:
        """Leave the newest checkpoints and the files that they name; remove mmfl's others.

        What cannot be read or removed now is left for the next time; in a link, all of it.
        """
        with suppress(OSError, StoreError):
            self._prune(keep)

    def _prune(self, keep: int) -> None:
        if is_link(self.folder) or not is_folder(self.folder):
            return
        names = self.names()
        wanted = set(names[-keep:] if keep else ())
        for name in tuple(wanted):
            wanted |= self._named_by(name)
        for name in names:
            if name not in wanted and self._is_ours(name):
                self._remove(name)
        for path in list_folder(self.folder):
            if path.name not in wanted and self._is_ours(path.name):
                self._remove(path.name)

    def _named_by(self, name: str) -> set[str]:
        """The files that a checkpoint names; a damaged one names nothing."""
        content = read_file(self.folder / name, limit=_DOCUMENT)  # if not, it may be whole
        with suppress(Exception):
            return {entry["file"] for entry in _parse(name, content)["files"].values()}
        return set()

    def _is_ours(self, name: str, *, noted: bool = False) -> bool:
        """Whether a file may be removed: its name says what it holds, or that it is unfinished."""
        digits = _digits(name.removesuffix(PART))
        if digits is None:
            return False
        try:
            signature = _signature(self.folder / name)
            if signature is None or name.endswith(PART) or noted:
                return signature is not None
            if self._whole.get(name) == signature:
                return True
            size = _claimed_size(self.folder / name)
            return hash_file(self.folder / name, limit=size).startswith(digits)
        except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return False

    def _remove(self, name: str) -> None:
        try:
            remove_file(self.folder / name)
        except OSError as error:
            said = f"{str(self._shown / name)!r}: {error.strerror}"
            raise StoreError(f"cannot remove {said}") from None

    def _remember(self, name: str) -> None:
        """Note that a file is whole, so that it need not be read again before it is removed."""
        signature = _signature(self.folder / name)
        if signature is not None:
            self._whole[name] = signature

    def _write(self, name: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        file = f"{name}.{digest[:DIGITS]}.safetensors"
        write_whole(self.folder / file, content, sync=False)
        self._remember(file)
        return {"file": file, "bytes": len(content), "sha256": digest}

    def _document(self, name: str) -> dict[str, Any]:
        if not _NAME.fullmatch(name):
            raise StoreError("is not named like a checkpoint")
        return _parse(name, _content(self.folder / name, _DOCUMENT))

    def _read(self, entry: dict[str, Any]) -> bytes:
        file = entry["file"]
        if not _FILE.fullmatch(file):  # never from another folder
            raise StoreError(f"is malformed: {short(file)} is not the name of one of its files")
        size = int(entry["bytes"])
        content = _content(self.folder / file, size)
        if len(content) != size:
            raise StoreError(f"is damaged: {file} has {len(content)} of {size} bytes")
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise StoreError(f"is damaged: the SHA-256 of {file} differs")
        return content


def _parse(name: str, body: bytes) -> dict[str, Any]:
    """What a checkpoint's file says; `StoreError` if it is not what was written."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise StoreError("is not named like a checkpoint")
    if hashlib.sha256(body).hexdigest()[:DIGITS] != found[2]:
        raise StoreError("is damaged: its SHA-256 differs")
    whole: dict[str, Any] = json.loads(body)
    if whole["format"] != FORMAT:
        raise StoreError(f"has format {whole['format']!r}, but this mmfl reads {FORMAT}")
    return whole


def _content(path: Path, limit: int) -> bytes:
    try:
        return read_file(path, limit=limit)
    except FileNotFoundError:
        raise StoreError(f"is damaged: {path.name} is missing") from None
    except OSError as error:
        raise StoreError(f"cannot be read: {path.name}: {error.strerror}") from None


def _digits(name: str) -> str | None:
    """The first digits of the SHA-256 in the name of an mmfl file; None for another file's name."""
    found = _NAME.fullmatch(name)
    if found is not None:
        return found[2]
    found = _FILE.fullmatch(name)
    return None if found is None else found[1]


def _claimed_size(path: Path) -> int:
    """How large a file may be, by its own header; a larger file is not read to its end."""
    if path.suffix == ".json":
        return _DOCUMENT
    with open_file(path) as file:
        length = int.from_bytes(calls.read(file.fileno(), 8), "little")
        if length > _HEAD:
            raise ValueError("it is not a safetensors file")
        head = json.loads(calls.read(file.fileno(), length))
    ends = [about["data_offsets"][1] for name, about in head.items() if name != "__metadata__"]
    return 8 + length + max(map(int, ends), default=0)


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is written to or replaced; None if it is not a file."""
    about = calls.status(path, follow_symlinks=False)
    if not stat.S_ISREG(about.st_mode):
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def round_of(name: str) -> int:
    """The round of a checkpoint, by its file's name; 0 if that is none."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def _age(name: str) -> tuple[int, str]:
    """A sort key that grows with the round."""
    return round_of(name), name
