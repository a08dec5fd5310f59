"""What may be on disk after a power cut.

A recording is turned into a `History`: every version of every file, and every change of a name.
After a cut, what was not synced may or may not be on disk:

**Data.** The page cache is written back one sector at a time, in any order, at any time. So each
sector of a file holds what it held at some moment between the file's last fsync and the cut. The
same is true of the file's length, independently. A sector within the length that was never written
reads as zeros or garbage. A truncation frees sectors: their content does not come back, unless the
truncation itself is lost. An fsync or fdatasync of the file makes all of it durable.

**Names.** Creating, renaming, removing and linking change names in a folder. Two models:

    weak       POSIX guarantees only. Any subset of the changes since the folder's last fsync, as
               long as changes of one name stay in order. An fsync of a file does nothing for its
               name. A rename is atomic, and may be durable before the data of the renamed file is.
    ordered    A journal, as ext4 with data=ordered. The changes of all folders up to some moment,
               at least up to the last fsync of anything; and a file's length never grows ahead of
               its data.

Files that the run maps into memory for writing (SQLite's -shm) may hold anything.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.power.recording import Event, Kind, RecorderError

__all__ = [
    "Change",
    "File",
    "History",
    "Tree",
    "Version",
    "content",
    "digest",
    "read_tree",
    "write_tree",
]

Tree = Mapping[str, bytes | None]
"""Content by path; None for a folder. Folders come before what is in them."""


@dataclass(frozen=True)
class Version:
    """A file's content from one change to the next.

    Attributes:
        time: The number of the event that made it; -1 for what was there before.
        body: The whole content.
        start: Where the change began; and
        end: where it ended.
        cut: Whether it was a truncation.
    """

    time: int
    body: bytes
    start: int = 0
    end: int = 0
    cut: bool = False


@dataclass(eq=False)
class File:
    """A file or a folder, independent of its names.

    Attributes:
        folder: Whether it is a folder.
        versions: Of a file's content, oldest first.
        synced: The times of its fsyncs.
        mapped: Whether it is mapped into memory for writing.
    """

    folder: bool = False
    versions: list[Version] = field(default_factory=list)
    synced: list[int] = field(default_factory=list)
    mapped: bool = False

    def candidates(self, cut: int) -> list[Version]:
        """What its sectors may hold after a cut: the last durable version, and all later ones."""
        last = max((time for time in self.synced if time < cut), default=-1)
        known = [version for version in self.versions if version.time < cut]
        old = [version for version in known if version.time <= last]
        return known[max(0, len(old) - 1) :]


Key = tuple[int, str]


@dataclass(frozen=True, eq=False)
class Change:
    """A change of names.

    Attributes:
        time: The number of its event.
        file: What the name stands for, or stood for.
        gone: The name that was removed: folder and name.
        new: The name that was added.
    """

    time: int
    file: File
    gone: tuple[File, str] | None = None
    new: tuple[File, str] | None = None

    @property
    def keys(self) -> set[Key]:
        """The names that it affects."""
        return {(id(where[0]), where[1]) for where in (self.gone, self.new) if where}

    @property
    def folders(self) -> list[File]:
        """The folders that it affects."""
        return [where[0] for where in (self.gone, self.new) if where]


class History:
    """Everything that a recording did to a folder.

    Args:
        events: In order.
        start: What was in the folder before, all of it durable.
        without: Syncs of paths that match this expression are ignored, as if the run had omitted
            them; a folder's path ends in "/".
    """

    def __init__(
        self, events: Iterable[Event], start: Tree | None = None, without: str | None = None
    ) -> None:
        self.events = list(events)
        self._without = None if without is None else re.compile(without)
        self._commits: list[int] = []
        self.root = File(folder=True)
        self.files: list[File] = [self.root]
        self.changes: list[Change] = []
        self._names: dict[File, dict[str, File]] = {self.root: {}}
        self._open: dict[int, File] = {}
        self._paths: dict[File, str] = {}
        for path, body in (start or {}).items():
            folder, name = self._place(path)
            self._names[folder][name] = self._new(-1, folder=body is None, body=body or b"")
        self._first = {folder: dict(names) for folder, names in self._names.items()}
        for time, event in enumerate(self.events):
            self._take(time, event)

    def durable(self, cut: int, *, ordered: bool) -> set[Change]:
        """The changes of names before a cut that are certainly on disk."""
        last = max((t for t in self._commits if ordered and t < cut), default=-1)
        certain = {
            change
            for change in self.changes
            if change.time < last
            or any(change.time < time < cut for file in change.folders for time in file.synced)
        }
        return self.with_causes(certain, cut)

    def pending(self, cut: int, *, ordered: bool) -> list[Change]:
        """The changes of names before a cut that may be lost, in order."""
        certain = self.durable(cut, ordered=ordered)
        return [c for c in self.changes if c.time < cut and c not in certain]

    def with_causes(self, wanted: set[Change], cut: int) -> set[Change]:
        """Changes, with the earlier ones that they need."""
        found, keys = set(wanted), set[Key]()
        for change in reversed([c for c in self.changes if c.time < cut]):
            if change in found or change.keys & keys:
                found.add(change)
                keys |= change.keys
        return found

    def without_orphans(self, wanted: set[Change], cut: int) -> set[Change]:
        """Changes, without those that need one that is missing."""
        found, lost = set[Change](), set[Key]()
        for change in (c for c in self.changes if c.time < cut):
            if change in wanted and not change.keys & lost:
                found.add(change)
            else:
                lost |= change.keys
        return found

    def tree(self, kept: set[Change], body: Callable[[File], bytes]) -> dict[str, bytes | None]:
        """The folder with these changes of names; `body` says what is in a file."""
        names = {folder: dict(inside) for folder, inside in self._first.items()}
        for change in self.changes:
            if change in kept:
                if change.gone is not None:
                    names.setdefault(change.gone[0], {}).pop(change.gone[1], None)
                if change.new is not None:
                    names.setdefault(change.new[0], {})[change.new[1]] = change.file
        found: dict[str, bytes | None] = {}
        known: dict[File, bytes] = {}

        def walk(folder: File, path: str) -> None:
            for name, file in sorted(names.get(folder, {}).items()):
                if file.folder:
                    found[f"{path}{name}"] = None
                    walk(file, f"{path}{name}/")
                else:
                    if file not in known:
                        known[file] = body(file)
                    found[f"{path}{name}"] = known[file]

        walk(self.root, "")
        return found

    def whole(self, cut: int) -> dict[str, bytes | None]:
        """The folder as the process saw it, with nothing lost."""
        kept = {change for change in self.changes if change.time < cut}
        return self.tree(kept, lambda file: file.candidates(cut)[-1].body)

    def mapped(self, cut: int) -> set[str]:
        """The names of all files that were ever mapped into memory for writing."""
        return {c.new[1] for c in self.changes if c.time < cut and c.new and c.file.mapped}

    def _new(self, time: int, *, folder: bool = False, body: bytes = b"") -> File:
        file = File(folder=folder, versions=[] if folder else [Version(time, body)])
        self.files.append(file)
        if folder:
            self._names[file] = {}
        return file

    def _place(self, path: str) -> tuple[File, str]:
        """The folder and the name of a path."""
        *folders, name = path.split("/")
        file = self.root
        for part in folders:
            file = self._names[file][part]
        return file, name

    def _find(self, path: str) -> File | None:
        if not path:
            return self.root
        folder, name = self._place(path)
        return self._names[folder].get(name)

    def _change(self, time: int, file: File, gone: str | None, new: str | None) -> None:
        before = None if gone is None else self._place(gone)
        after = None if new is None else self._place(new)
        if before is not None:
            del self._names[before[0]][before[1]]
        if after is not None:
            self._names[after[0]][after[1]] = file
        self.changes.append(Change(time, file, before, after))

    def _take(self, time: int, event: Event) -> None:
        match event.kind:
            case Kind.OPEN:
                self._take_open(time, event)
            case Kind.CLOSE:
                self._open.pop(event.fd, None)
            case Kind.DUP:
                self._open[event.other] = self._open[event.fd]
            case Kind.MAP:
                self._open[event.fd].mapped = True
            case Kind.WRITE | Kind.TRUNCATE | Kind.RESERVE:
                self._take_data(time, event)
            case Kind.SYNC | Kind.SYNC_DATA:
                self._take_sync(time, event)
            case Kind.SYNC_ALL:
                self._commits.append(time)
                for file in self.files:
                    file.synced.append(time)
            case Kind.MKDIR | Kind.UNLINK | Kind.RMDIR | Kind.LINK | Kind.RENAME:
                self._take_name(time, event)

    def _take_name(self, time: int, event: Event) -> None:
        if event.kind is Kind.MKDIR:
            self._change(time, self._new(time, folder=True), None, event.path)
            return
        file = self._known(event.path)
        if event.kind is Kind.LINK:
            self._change(time, file, None, event.to)
        elif event.kind is Kind.RENAME:
            if event.flags:
                raise RecorderError("the run renamed with flags, which are not modelled")
            self._change(time, file, event.path, event.to)
        else:
            self._change(time, file, event.path, None)

    def _known(self, path: str) -> File:
        file = self._find(path)
        if file is None:
            raise RecorderError(f"the recorder missed how {path!r} came to be")
        return file

    def _take_open(self, time: int, event: Event) -> None:
        file = self._find(event.path)
        if file is None:
            if not event.flags & os.O_CREAT:
                raise RecorderError(f"the recorder missed how {event.path!r} came to be")
            file = self._new(time)
            self._change(time, file, None, event.path)
        elif event.flags & os.O_TRUNC and file.versions[-1].body:
            file.versions.append(Version(time, b"", 0, len(file.versions[-1].body), cut=True))
        self._open[event.fd] = file
        self._paths[file] = event.path

    def _take_sync(self, time: int, event: Event) -> None:
        file = self._open[event.fd]
        path = f"{self._paths[file]}/" if file.folder else self._paths[file]
        if self._without is not None and self._without.search(path):
            return
        file.synced.append(time)
        if event.kind is Kind.SYNC:
            self._commits.append(time)

    def _take_data(self, time: int, event: Event) -> None:
        file = self._open[event.fd]
        old = file.versions[-1].body
        start, cut = event.offset, False
        if event.kind is Kind.WRITE:
            end = start + len(event.data)
            body = old[:start].ljust(start, b"\0") + event.data + old[end:]
            start = min(start, len(old))
        elif event.kind is Kind.TRUNCATE:
            body = old[:start].ljust(start, b"\0")
            start, end, cut = min(start, len(old)), max(start, len(old)), start < len(old)
        else:
            if event.flags:
                raise RecorderError("the run used fallocate with flags, which are not modelled")
            start, end = len(old), max(len(old), event.offset + event.size)
            body = old.ljust(end, b"\0")
        file.versions.append(Version(time, body, start, end, cut))


def content(
    versions: Sequence[Version],
    length: int,
    moment: Callable[[int], int],
    *,
    sector: int,
    ordered: bool = False,
    rest: Callable[[int], bytes] = bytes,
) -> bytes:
    """A file after a cut.

    Args:
        versions: Its candidates.
        length: The number of the version whose length it has.
        moment: From a sector's number to the number of the version that it holds; if that is not
            possible, the nearest possible version is taken.
        sector: The number of bytes in a sector.
        ordered: Whether a length never grows ahead of its data.
        rest: What bytes that were never written hold.
    """
    size = len(versions[length].body)
    base = versions[0].body
    out = bytearray(base[:size].ljust(size, b"\0"))
    touched = {
        number
        for version in versions[1:]
        for number in range(version.start // sector, -(-min(version.end, size) // sector))
    }
    for number in sorted(touched):
        start, end = number * sector, min((number + 1) * sector, size)
        freed = [i for i, v in enumerate(versions) if i and v.cut and len(v.body) < end]
        low = max((i for i in freed if i <= length), default=0)
        high = min((i for i in freed if i > length), default=len(versions)) - 1
        if ordered and end > len(base):
            low = max(low, length)
        body = versions[min(max(moment(number), low), high)].body[start:end]
        blank = end - start - len(body)
        out[start:end] = body + (bytes(blank) if body else rest(blank))
    return bytes(out)


def write_tree(tree: Tree, where: Path) -> None:
    """Make the folders and files of a tree."""
    for path, body in tree.items():
        if body is None:
            (where / path).mkdir()
        else:
            (where / path).write_bytes(body)


def read_tree(where: Path) -> dict[str, bytes | None]:
    """A folder as a tree."""
    return {
        path.relative_to(where).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(where.rglob("*"))
    }


def digest(tree: Tree, without: Iterable[str] = ()) -> str:
    """The SHA-256 of a tree, without the files of these names."""
    whole = hashlib.sha256()
    for path, body in sorted(tree.items()):
        if path.rpartition("/")[2] not in without:
            kind = "folder" if body is None else hashlib.sha256(body).hexdigest()
            whole.update(f"{path}\0{kind}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()
