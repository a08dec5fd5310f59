"""The runs in a folder as the dashboard knows them: found, summarised, and remembered.

A run's summary is read again only if its folder, its database or the database's log has changed.
A run is known by an id, which is looked up and never becomes a path: what a browser sends cannot
name a file. Runs that lie outside the folder, or hold links, are listed as damaged and not read.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from mmfl.errors import MmflError, StoreError, one_line
from mmfl.runs import (
    DATABASE,
    Line,
    Overview,
    find_runs,
    is_owned,
    list_lines,
    place_of,
    read_overview,
)
from mmfl.system import calls
from mmfl.system.files import is_link, list_folder

__all__ = ["Library", "Snapshot", "make_id", "refuse_outside"]

_RARELY = 2.0
"""Seconds between two searches for new runs, at least."""

_SHARE = 200
"""A search that takes t seconds is followed by a pause of this many times t."""

_BATCH = 40
"""After so many summaries, those known so far are shown."""

_LIVELY = ("running", "locked")
"""The states in which a run is looked at between two searches."""

Stamp = tuple[object, ...]


@lru_cache(100_000)
def make_id(folder: Path, root: Path) -> str:
    """The id of a folder in the listed folder: 16 letters that say nothing about it."""
    path = os.fsencode(folder.relative_to(root))
    return hashlib.sha256(path).hexdigest()[:16]


@dataclass(frozen=True)
class Snapshot:
    """All that is known at a moment.

    Attributes:
        root: The listed folder.
        runs: By id: the runs, in the order of their names.
        total: How many runs there are; more than `runs` until all are summarised.
        others: Folders directly in the listed one that hold no run.
        unread: Folders that cannot be read.
        problem: Why the listed folder itself cannot be read; "" if it can.
    """

    root: Path
    runs: Mapping[str, Overview]
    total: int
    others: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether all runs are summarised."""
        return len(self.runs) >= self.total

    def lines(self, *, every: bool = False, changed: Collection[str] | None = None) -> list[Line]:
        """As a list shows them.

        Args:
            every: Whether the runs of a comparison have lines of their own.
            changed: Only the lines of these runs.
        """
        runs = list(self.runs.values())
        if changed is not None:
            wanted = {self.runs[key].folder for key in changed if key in self.runs}
            comparisons = {_find_groups(folder, self.root)[:1] for folder in wanted} - {()}
            runs = [
                run
                for run in runs
                if run.folder in wanted or _find_groups(run.folder, self.root)[:1] in comparisons
            ]
        return list(list_lines(self.root, runs, every=every))

    def find(self, wanted: str) -> list[Overview]:
        """The runs that an id stands for: one, or those of a comparison or a variant."""
        if wanted in self.runs:
            return [self.runs[wanted]]
        return [run for run in self.runs.values() if wanted in _find_groups(run.folder, self.root)]


@lru_cache(100_000)
def _find_groups(folder: Path, root: Path) -> tuple[str, ...]:
    """The ids of the comparison and the variant that a run belongs to; () if to none."""
    place = place_of(folder)
    if place is None or not (root == place.folder or root in place.folder.parents):
        return ()
    return make_id(place.folder, root), make_id(folder.parent, root)


class Library:
    """The runs in a folder, kept up to date by `poll`.

    Attributes:
        snapshot: What is known now; replaced as a whole, so that readers need no lock.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.snapshot = Snapshot(root, {}, 1)
        self._stamps: dict[str, Stamp] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def poll(self, *, now: bool = False) -> set[str]:
        """Look for what has changed; the ids of runs that did, or that are new or gone.

        Args:
            now: Whether to search for new runs, even if that was done a moment ago.
        """
        with self._lock:
            if now or calls.monotonic() >= self._next:
                return self._search()
            lively = {key: run for key, run in self.snapshot.runs.items() if run.state in _LIVELY}
            return self._refresh({key: run.folder for key, run in lively.items()})

    def _search(self) -> set[str]:
        """Find all runs, and summarise those that are new or have changed."""
        began = calls.monotonic()
        try:
            catalog = find_runs(self.root)
            problem = ""
        except MmflError as error:
            self.snapshot = Snapshot(self.root, {}, 0, problem=str(error))
            gone, self._stamps = set(self._stamps), {}
            return gone
        folders = {make_id(folder, self.root): folder for folder in catalog.runs}
        cost = calls.monotonic() - began
        self._next = calls.monotonic() + max(_RARELY, _SHARE * cost)
        gone = self.snapshot.runs.keys() - folders.keys()
        kept = {key: run for key, run in self.snapshot.runs.items() if key not in gone}
        for key in gone:
            self._stamps.pop(key, None)
        order = {key: place for place, key in enumerate(folders)}
        kept = dict(sorted(kept.items(), key=lambda item: order[item[0]]))
        self.snapshot = Snapshot(
            self.root, kept, len(folders), catalog.others, catalog.unread, problem=problem
        )
        return gone | self._refresh(folders, order)

    def _refresh(
        self, folders: Mapping[str, Path], order: Mapping[str, int] | None = None
    ) -> set[str]:
        """Summarise the runs among these that have changed, the newest first."""
        stamps = {key: _stamp(folder) for key, folder in folders.items()}
        stale = [key for key, folder in folders.items() if self._is_stale(key, folder, stamps[key])]
        stale.sort(key=lambda key: stamps[key][0], reverse=True)  # type: ignore[arg-type, return-value]
        runs = dict(self.snapshot.runs)
        for count, key in enumerate(stale, 1):
            runs[key] = _summarise(self.root, folders[key])
            self._stamps[key] = stamps[key]
            if count % _BATCH == 0 or count == len(stale):
                if order is not None:
                    runs = dict(sorted(runs.items(), key=lambda item: order[item[0]]))
                self.snapshot = replace(self.snapshot, runs=dict(runs))
        return set(stale)

    def _is_stale(self, key: str, folder: Path, stamp: Stamp) -> bool:
        run = self.snapshot.runs.get(key)
        if run is None or self._stamps.get(key) != stamp or run.state == "locked":
            return True
        return run.state == "running" and not is_owned(folder)


def _stamp(folder: Path) -> Stamp:
    """What changes when a run does; its first entry is the newest time."""
    found: list[tuple[int, int, int] | None] = []
    newest = 0
    for name in ("", DATABASE, f"{DATABASE}-wal"):
        try:
            about = calls.status(folder / name if name else folder, follow_symlinks=False)
        except OSError:
            found.append(None)
            continue
        found.append((about.st_ino, about.st_size, about.st_mtime_ns))
        newest = max(newest, about.st_mtime_ns)
    return (newest, *found)


def _summarise(root: Path, folder: Path) -> Overview:
    """A run at a glance; one that cannot be read is an overview, too, that says why."""
    try:
        refuse_outside(root, folder)
        return read_overview(folder)
    except (MmflError, OSError) as error:
        said = getattr(error, "strerror", None) or str(error)
    except Exception as error:  # a foreign folder must not end the page of all the others
        said = f"it cannot be read: {type(error).__name__}"
    return Overview(folder, "damaged", one_line(said))


@cache
def _find_real(root: str) -> str:
    """Where the listed folder really is; what links to it is followed once, at the start."""
    return os.path.realpath(root)


def refuse_outside(root: Path, folder: Path) -> None:
    """Refuse a run that is not in the listed folder, or that holds links to other places."""
    place, real = _find_real(str(root)), os.path.realpath(folder)
    if os.path.commonpath((place, real)) != place:
        raise StoreError("it is a link to another folder, which the dashboard does not read")
    for path in list_folder(folder):
        if is_link(path):
            said = f"it holds a link, {path.name!r}, which the dashboard does not follow"
            raise StoreError(said)
