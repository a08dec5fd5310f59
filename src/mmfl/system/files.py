"""Reading and writing files: one opener for all that is read, whole files for all that is written.

Reading a device may never end, and reading a pipe may never begin: both are refused. So is a file
that is larger than the caller expects, before any of it is read.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from mmfl.system import calls
from mmfl.system.unfinished import PART, PLAIN, replace_file

__all__ = [
    "PART",
    "SETTINGS",
    "TABLE",
    "exists",
    "hash_file",
    "hash_input",
    "is_file",
    "is_folder",
    "is_link",
    "keep_current_folder",
    "list_folder",
    "make_folders",
    "new_file",
    "open_file",
    "read_file",
    "read_text",
    "refuse_irregular",
    "remove_file",
    "sync_folder",
    "write_file",
    "write_new",
    "write_whole",
]

SETTINGS = 1 << 26
"""The most bytes that a file of settings may have (64 MiB)."""

TABLE = 1 << 30
"""The most bytes that a table of the user's may have (1 GiB)."""

_PIECE = 1 << 24

_SETTLED = 2e9
"""Nanoseconds after which a file that changes again also changes its time, on any file system."""

_hashes: dict[tuple[int, ...], str] = {}


class _File(io.FileIO):
    """A file whose reads and writes are calls of `mmfl.system.calls`, as its opening is."""

    def readinto(self, buffer: Any, /) -> int:
        return calls.read_into(self.fileno(), memoryview(buffer).cast("B"))

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return self.readall()
        return calls.read(self.fileno(), size)

    def readall(self) -> bytes:
        parts = []
        while part := calls.read(self.fileno(), _PIECE):
            parts.append(part)
        return b"".join(parts)

    def write(self, content: Any, /) -> int:
        return calls.write(self.fileno(), content)


def open_file(path: str | Path, *, limit: int | None = None, pipes: bool = False) -> BinaryIO:
    """Open a regular file for reading; `OSError`, whose `strerror` says why, if it is not one.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        pipes: Whether it may be a pipe, such as the shell's ``<(command)``; then this waits for
            the process that writes into it.
    """
    try:
        if pipes and stat.S_ISFIFO(calls.status(path).st_mode):
            return _buffer(calls.open_fd(path, os.O_RDONLY | PLAIN))
        number = calls.open_fd(path, os.O_RDONLY | PLAIN | getattr(os, "O_NONBLOCK", 0))
    except ValueError:
        raise OSError(errno.EINVAL, "its name contains a zero byte") from None
    try:
        _check(calls.status_of_open(number), limit)
    except OSError:
        os.close(number)
        raise
    return _buffer(number)


def _buffer(number: int) -> BinaryIO:
    return io.BufferedReader(_File(number, "rb"))


def refuse_irregular(path: Path, *, limit: int | None = None, links: bool = True) -> int:
    """Check a file as `open_file` does, without opening it; its size.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        links: Whether it may be a symbolic link.
    """
    about = calls.status(path, follow_symlinks=links)
    try:
        _check(about, limit)
    except OSError as error:
        raise OSError(error.errno, f"{path.name}: {error.strerror}") from None
    return about.st_size


def _check(about: os.stat_result, limit: int | None) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(about.st_mode):
        kinds = {stat.S_IFIFO: "pipe", stat.S_IFLNK: "link", stat.S_IFSOCK: "socket"}
        what = kinds.get(stat.S_IFMT(about.st_mode), "device")
        raise OSError(errno.EINVAL, f"it is a {what}, not a file")
    if limit is not None and about.st_size > limit:
        raise OSError(errno.EFBIG, f"it has {about.st_size:,} bytes; the limit is {limit:,}")


def exists(path: Path, *, links: bool = True) -> bool:
    """Whether there is anything of that name; a link that leads nowhere counts without `links`."""
    return _mode(path, links=links) is not None


def is_folder(path: Path) -> bool:
    """Whether that is a folder, or a link to one."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def is_file(path: Path) -> bool:
    """Whether that is a regular file, or a link to one."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_link(path: Path) -> bool:
    """Whether that is a symbolic link, wherever it leads."""
    mode = _mode(path, links=False)
    return mode is not None and stat.S_ISLNK(mode)


def _mode(path: Path, *, links: bool = True) -> int | None:
    """What the system says of a name; None if there is nothing of that name."""
    try:
        return calls.status(path, follow_symlinks=links).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a zero byte
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def read_file(path: str | Path, *, limit: int | None = None, pipes: bool = False) -> bytes:
    """Read a whole file; see `open_file`."""
    with open_file(path, limit=limit, pipes=pipes) as file:
        number, parts, left = file.fileno(), [], limit
        while part := calls.read(number, _PIECE if left is None else min(_PIECE, left + 1)):
            parts.append(part)
            if left is not None:
                left -= len(part)
                if left < 0:  # a pipe, or a file that grows
                    raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes")
    return b"".join(parts)


def hash_file(path: str | Path, *, limit: int | None = None) -> str:
    """The SHA-256 of a file, which is read in pieces; see `open_file`."""
    digest = hashlib.sha256()
    with open_file(path, limit=limit) as file:
        while part := calls.read(file.fileno(), _PIECE):
            digest.update(part)
    return digest.hexdigest()


def read_text(path: str | Path, *, limit: int | None = None, pipes: bool = False) -> str:
    """Read a whole file as UTF-8, with or without a byte order mark; see `open_file`."""
    content = io.BytesIO(read_file(path, limit=limit, pipes=pipes))
    return io.TextIOWrapper(content, encoding="utf-8-sig").read()


def hash_input(path: str | Path, *, limit: int | None = None) -> str:
    """The SHA-256 of a file that users give; one that did not change is read once."""
    with open_file(path, limit=limit) as file:
        number = file.fileno()
        about = calls.status_of_open(number)
        changed = max(about.st_mtime_ns, about.st_ctime_ns)
        known = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        if known in _hashes:
            return _hashes[known]
        digest = hashlib.sha256()
        while part := calls.read(number, _PIECE):
            digest.update(part)
    if calls.now() * 1e9 - changed > _SETTLED:
        _hashes[known] = digest.hexdigest()
    return digest.hexdigest()


def write_whole(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a file so that its name stands for all of the content or for what it stood for before.

    The steps: a temporary file next to it, fsync, rename, fsync of the folder. If one fails,
    the temporary file is removed.

    Args:
        path: The file.
        content: All of it.
        sync: Whether to make the new name durable at once; else the caller calls `sync_folder`.
    """
    part = path.with_name(f"{path.name}{PART}")
    try:
        write_new(part, content)
    except FileExistsError:
        _remove_leftover(part)
        write_new(part, content)
    _rename(part, path)
    if sync:
        sync_folder(path.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a file in a user's folder, as a whole; one that is there is replaced.

    Folders that are missing are made.
    Unlike that of `write_whole`, the temporary file has a random name: no file of the user is
    ever in its place. A link stays a link; a device or a pipe is written to as it is.
    """
    if not _is_replaceable(path):
        path.write_bytes(content)
        return
    make_folders(path.parent)
    target = Path(os.path.realpath(path))
    with replace_file(target) as number:
        _write_all(number, content)
    sync_folder(target.parent)


@contextmanager
def new_file(path: Path, *, replace: bool = False) -> Iterator[TextIO]:
    """Write a text file as it comes (UTF-8, line ends as given); if that fails, there is none.

    Args:
        path: The file; a device or a pipe is written to as it is.
        replace: Whether a file that exists may be replaced, which it is at the end and as a whole;
            else that is a `FileExistsError`.
    """
    if not _is_replaceable(path):
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    if replace:
        with replace_file(Path(os.path.realpath(path))) as number:
            with _text_file(os.dup(number)) as file:
                yield file
            calls.fsync(number)
        return
    number = calls.open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        with _text_file(number) as file:
            yield file
    except BaseException:
        _remove_quietly(path)
        raise


def _text_file(number: int) -> TextIO:
    """An open file for text, which closes its number."""
    return io.TextIOWrapper(io.BufferedWriter(_File(number, "wb")), encoding="utf-8", newline="")


def write_new(path: Path, content: bytes) -> None:
    """Write a file that is not there yet, and fsync it; if that fails, it is removed again."""
    number = calls.open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        _write_all(number, content)
    except BaseException:
        _remove_quietly(path)
        raise
    finally:
        os.close(number)


def _write_all(number: int, content: bytes) -> None:
    """Write content into an open file, and make it durable."""
    left = memoryview(content)
    while left:
        left = left[calls.write(number, left) :]
    calls.fsync(number)


def _is_replaceable(path: Path) -> bool:
    """Whether a file can take the place of what is there: nothing, or a file."""
    mode = _mode(path)
    return mode is None or stat.S_ISREG(mode)


def _rename(part: Path, path: Path) -> None:
    """Give a finished file its name; if that fails, it is removed."""
    try:
        calls.rename(part, path)
    except BaseException:
        _remove_quietly(part)
        raise


def _remove_quietly(path: Path) -> None:
    with suppress(OSError):
        calls.unlink(path)


def _remove_leftover(part: Path) -> None:
    """Remove an unfinished file; a pipe or a link is neither removed nor written through."""
    if not stat.S_ISREG(calls.status(part, follow_symlinks=False).st_mode):
        raise OSError(errno.EEXIST, f"{part.name} exists and is not a regular file")
    calls.unlink(part)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable: they outlast a power cut."""
    number = calls.open_fd(folder, os.O_RDONLY | PLAIN)
    try:
        calls.fsync(number)
    finally:
        os.close(number)


def make_folders(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that they outlast a power cut."""
    missing = [path for path in (folder, *folder.parents) if not is_folder(path)]
    for path in reversed(missing):
        try:
            calls.make_folder(path)
        except FileExistsError:  # another process was faster, or it is a file
            if not is_folder(path):
                raise
    for path in missing:
        sync_folder(path.parent)
    if not missing:
        with suppress(PermissionError):  # a user's folder, which outlasts a power cut or not
            sync_folder(folder.parent)


@contextmanager
def keep_current_folder() -> Iterator[None]:
    """After this block the current folder is what it was before, whatever the block called."""
    try:
        before = os.getcwd()
    except OSError:  # it was removed
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(before)


def list_folder(folder: Path) -> list[Path]:
    """The paths in a folder, sorted by name."""
    return [folder / name for name in sorted(calls.list_folder(folder))]


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        calls.unlink(path)
