"""Unfinished files in a user's folder: those of the dead go, those of the living stay."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mmfl.system import calls
from mmfl.system.files import new_file, write_file
from support.forking import fork_and_wait

MINE = Path(".mmfl-0123456789abcdef.part.txt")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    MINE.write_text("mine")  # nearly such a name


def write(way: str, content: str = "new") -> None:
    if way == "whole":
        write_file(Path("table"), content.encode())
    else:
        with new_file(Path("table"), replace=True) as file:
            file.write(content)


def kill_at(name: str):
    """An interceptor that kills the process in place of its first call of that name."""

    def call(found, function, args, kwargs):
        if found == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return call


def kill_while_it_writes(way: str, name: str) -> None:
    code = fork_and_wait()
    if code is None:
        with calls.intercept(kill_at(name)):
            write(way)
        os._exit(0)
    assert code == -signal.SIGKILL


@pytest.mark.parametrize("name", ["write", "rename"])
@pytest.mark.parametrize("way", ["whole", "piece by piece"])
def test_what_a_killed_process_has_left_is_removed_by_the_next(way, name):
    write(way, "old")
    kill_while_it_writes(way, name)
    assert Path("table").read_text() == "old"
    assert len(list(Path().glob(".mmfl-*.part"))) == 1
    write(way)
    assert Path("table").read_text() == "new"
    assert {str(path) for path in Path().iterdir()} == {"table", str(MINE)}


@pytest.mark.parametrize("way", ["whole", "piece by piece"])
def test_what_a_living_process_writes_stays(way):
    def meanwhile(found, function, args, kwargs):
        if found == "rename" and not done:
            done.append(True)
            write(way, "other")
        return function(*args, **kwargs)

    done: list[bool] = []
    with calls.intercept(meanwhile):
        write(way)
    assert done
    assert Path("table").read_text() == "new"
    assert {str(path) for path in Path().iterdir()} == {"table", str(MINE)}


def test_what_is_no_regular_file_stays():
    odd = [Path(f".mmfl-{letter * 16}.part") for letter in "abc"]
    odd[0].mkdir()
    odd[1].symlink_to(MINE)
    os.mkfifo(odd[2])
    write("whole")
    assert all(path.is_symlink() or path.exists() for path in odd)
    assert MINE.read_text() == "mine"
