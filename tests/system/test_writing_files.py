"""Files that are written as a whole, or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mmfl.system.calls import intercept
from mmfl.system.files import make_folders, new_file, write_file


def opened() -> set[str]:
    """The paths of all files that this process has open."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add(os.readlink(link))
        except FileNotFoundError:  # that of this very listing
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_without_locks_a_file_is_closed_before_it_is_renamed(monkeypatch):
    """As on Windows, where an open one cannot be."""
    monkeypatch.setattr("mmfl.system.calls.fcntl", None)
    renamed = []

    def watch(name, function, args, kwargs):
        if name == "rename":
            renamed.append(os.path.realpath(args[0]) in opened())
        return function(*args, **kwargs)

    Path("a.txt").write_text("before")
    with intercept(watch):
        with new_file(Path("a.txt"), replace=True) as file:
            file.write("after")
        write_file(Path("b.txt"), b"bytes")
    assert renamed == [False, False]
    assert Path("a.txt").read_text() == "after"
    assert Path("b.txt").read_bytes() == b"bytes"


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(call):
    Path("a.png").write_bytes(b"before")
    Path("a.png.part").write_bytes(b"mine")

    def fail(name, function, args, kwargs):
        if name == call:
            raise OSError(28, "No space left on device")
        return function(*args, **kwargs)

    with intercept(fail), pytest.raises(OSError, match="No space"):
        write_file(Path("a.png"), b"after")
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == {
        "a.png": b"before",
        "a.png.part": b"mine",
    }


def test_folders_that_are_missing_are_made():
    write_file(Path("a/b/c.png"), b"new")
    assert Path("a/b/c.png").read_bytes() == b"new"


def test_a_link_stays_a_link_and_a_pipe_a_pipe():
    Path("a.png").write_bytes(b"before")
    Path("link.png").symlink_to("a.png")
    write_file(Path("link.png"), b"after")
    assert Path("link.png").is_symlink()
    assert Path("a.png").read_bytes() == b"after"
    os.mkfifo("pipe.png")
    read = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe.png").read_bytes()))
    reader.start()
    write_file(Path("pipe.png"), b"through")
    reader.join()
    assert read == [b"through"]
    assert Path("pipe.png").is_fifo()


def test_a_file_that_exists_is_not_touched_unless_it_may_be_replaced():
    Path("a.txt").write_text("before")
    with pytest.raises(FileExistsError), new_file(Path("a.txt")) as file:
        file.write("after")
    assert Path("a.txt").read_text() == "before"


def test_a_folder_whose_parent_cannot_be_read_can_be_used(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("mmfl.system.files.sync_folder", refuse)
    make_folders(tmp_path)
    with pytest.raises(PermissionError):
        make_folders(tmp_path / "new")
