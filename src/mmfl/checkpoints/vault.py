"""The folder of a run's checkpoints: written in an order that a kill at any instant leaves whole.

Saving: (1) every part that changed, each to a temporary file, fsync, rename; (2) fsync of the
folder; (3) the checkpoint that names them, in the same way; (4) the oldest checkpoints are removed,
then the parts that nobody names. Before (3) is done, the checkpoint does not exist and the ones
before it are as they were.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmfl.checkpoints.codec import decoded, encoded
from mmfl.checkpoints.files import PART, sync_folder, write_whole
from mmfl.errors import StoreError
from mmfl.state import State

__all__ = ["Found", "Vault", "round_of"]

FORMAT = 1
DIGITS = 16
_NAME = re.compile(rf"round-(\d{{8,}})\.([0-9a-f]{{{DIGITS}}})\.json")


@dataclass(frozen=True)
class Found:
    """A checkpoint that was looked for.

    Attributes:
        state: None if there is none that is whole.
        name: Its file's name.
        damaged: From the names of newer ones to what is wrong with them.
    """

    state: State | None
    name: str
    damaged: dict[str, str]


class Vault:
    """A folder of checkpoints; only one process writes into it."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder = folder
        self._keep = keep
        self._written: dict[str, tuple[object, dict[str, Any]]] = {}

    def names(self) -> list[str]:
        """The files' names of all checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        found = (path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        return sorted(found, key=_age)

    def save(self, state: State) -> str:
        """Write a checkpoint, and remove what is too old; its file's name."""
        document, parts = encoded(state)
        try:
            if not self.folder.is_dir():
                self.folder.mkdir()
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
            self.prune(self._keep)
        except OSError as error:
            raise StoreError(
                f"cannot write a checkpoint into {str(self.folder)!r}: {error.strerror}; the ones "
                "before it are as they were"
            ) from None
        return path.name

    def newest(
        self, *, noted: str = "", fits: Callable[[State], str | None] = lambda state: None
    ) -> Found:
        """The newest checkpoint that is whole.

        Args:
            noted: The name of one that must be there.
            fits: What speaks against a state, as a clause; None if nothing does.
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
                return Found(state, name, damaged)
            damaged[name] = f"checkpoint {name!r} {complaint}"
        return Found(None, "", damaged)

    def load(self, name: str) -> State:
        """A checkpoint by its file's name; one sentence if anything about it is not as written."""
        try:
            whole = self._document(name)
            content = {part: self._read(entry) for part, entry in whole["files"].items()}
            state = decoded(whole["state"], content.__getitem__)
            if state.round != whole["round"]:
                raise ValueError("it names two rounds")
        except StoreError as error:
            raise StoreError(f"checkpoint {name!r} {error}") from None
        except Exception as error:  # what is whole and nonsense was made by hand
            said = f"{type(error).__name__}: {error}"
            raise StoreError(f"checkpoint {name!r} is malformed ({said})") from None
        return state

    def forget_after(self, round: int) -> None:  # noqa: A002
        """Remove the checkpoints of later rounds, and what only they name."""
        for name in self.names():
            if round_of(name) > round:
                (self.folder / name).unlink(missing_ok=True)
        self.prune(self._keep)

    def prune(self, keep: int) -> None:
        """Leave the newest checkpoints, and the files that they name."""
        if not self.folder.is_dir():
            return
        names = self.names()
        for name in names[: max(0, len(names) - keep)]:
            (self.folder / name).unlink(missing_ok=True)
        wanted = set(names[-keep:] if keep else ())
        for name in tuple(wanted):
            with suppress(Exception):  # a damaged one names nothing
                wanted |= {entry["file"] for entry in self._document(name)["files"].values()}
        for path in self.folder.iterdir():
            ours = path.suffix in (".safetensors", ".json", PART)
            if ours and path.name not in wanted:
                path.unlink(missing_ok=True)

    def _write(self, name: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        file = f"{name}.{digest[:DIGITS]}.safetensors"
        write_whole(self.folder / file, content, sync=False)
        return {"file": file, "bytes": len(content), "sha256": digest}

    def _document(self, name: str) -> dict[str, Any]:
        found = _NAME.fullmatch(name)
        if found is None:
            raise StoreError("has no checkpoint's name")
        body = _content(self.folder / name)
        if hashlib.sha256(body).hexdigest()[:DIGITS] != found[2]:
            raise StoreError("is damaged: its SHA-256 differs")
        whole: dict[str, Any] = json.loads(body)
        if whole["format"] != FORMAT:
            raise StoreError(f"has format {whole['format']!r}, and this mmfl reads {FORMAT}")
        return whole

    def _read(self, entry: dict[str, Any]) -> bytes:
        file = Path(entry["file"]).name  # never from another folder
        content = _content(self.folder / file)
        if len(content) != entry["bytes"]:
            raise StoreError(f"is damaged: {file} has {len(content)} of {entry['bytes']} bytes")
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise StoreError(f"is damaged: the SHA-256 of {file} differs")
        return content


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"is damaged: {path.name} is missing") from None
    except OSError as error:
        raise StoreError(f"cannot be read: {path.name}: {error.strerror}") from None


def round_of(name: str) -> int:
    """The round of a checkpoint, by its file's name; 0 if that is none."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def _age(name: str) -> tuple[int, str]:
    """Something that is larger for later rounds."""
    return round_of(name), name
