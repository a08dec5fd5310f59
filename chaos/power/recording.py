"""Compile the shim, run scenarios under it, and read their logs."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from chaos.power.scenarios import Scenario

__all__ = ["Event", "Kind", "RecorderError", "compile_shim", "read_log", "record"]

HERE = Path(__file__).resolve().parent
_HEAD = struct.Struct("<IIIIqII")
_LONG = struct.Struct("<q")


class RecorderError(Exception):
    """Nothing can be recorded; one sentence says why."""


class Kind(IntEnum):
    """What happened; the numbers are those of shim.c."""

    OPEN = 1
    CLOSE = 2
    WRITE = 3
    TRUNCATE = 4
    RESERVE = 5
    SYNC = 6
    SYNC_DATA = 7
    RENAME = 8
    UNLINK = 9
    MKDIR = 10
    RMDIR = 11
    LINK = 12
    DUP = 13
    MAP = 14
    MARK = 15
    SYNC_ALL = 16
    UNKNOWN = 17


@dataclass(frozen=True)
class Event:
    """One call of the recorded process that succeeded.

    Attributes:
        kind: Which.
        fd: The file descriptor, if there is one.
        other: The new descriptor of `DUP`.
        flags: Of `OPEN`, `RENAME` and `RESERVE`.
        offset: Of `WRITE` and `RESERVE`; the new size of `TRUNCATE`.
        size: Of `RESERVE`.
        path: The path below the recorded folder ("" is the folder itself), or the text of `MARK`.
        to: The new path of `RENAME` and `LINK`.
        data: Of `WRITE`.
    """

    kind: Kind
    fd: int = 0
    other: int = 0
    flags: int = 0
    offset: int = 0
    size: int = 0
    path: str = ""
    to: str = ""
    data: bytes = b""


def compile_shim(folder: Path) -> Path:
    """The shim as a library; `RecorderError` where there is no compiler or no LD_PRELOAD."""
    if not sys.platform.startswith("linux"):
        raise RecorderError("power cuts are recorded with LD_PRELOAD, which needs Linux")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RecorderError("power cuts are recorded with a small library in C; install gcc")
    library = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "shim.c")]
    command += ["-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecorderError(f"gcc cannot compile chaos/power/shim.c: {done.stderr.strip()[:500]}")
    return library


def read_log(log: bytes) -> Iterator[Event]:
    """The events of a log."""
    at = 0
    while at < len(log):
        number, fd, other, flags, offset, first, second = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        body, rest = log[at : at + first], log[at + first : at + first + second]
        at += first + second
        kind = Kind(number)
        if kind is Kind.UNKNOWN:
            raise RecorderError(f"the run did what is not modelled: {os.fsdecode(body)}")
        if kind is Kind.WRITE:
            yield Event(kind, fd, offset=offset, data=body)
        elif kind in (Kind.TRUNCATE, Kind.RESERVE):
            size = _LONG.unpack(body)[0]
            yield Event(kind, fd, flags=flags, offset=offset, size=size)
        elif kind in (Kind.SYNC, Kind.SYNC_DATA, Kind.SYNC_ALL):
            yield Event(kind, fd)
        else:
            yield Event(kind, fd, other, flags, path=os.fsdecode(body), to=os.fsdecode(rest))


def record(
    scenarios: Sequence[Scenario], library: Path, where: Path
) -> list[tuple[list[Event], Path]]:
    """Run scenarios under the shim in one process; returns the events and the folder of each.

    Args:
        scenarios: Which.
        library: The compiled shim.
        where: A folder for them, without files of an earlier recording.
    """
    from chaos.power.disk import write_tree

    jobs, places = [], []
    for number, scenario in enumerate(scenarios):
        root, log = where / f"{number}" / "root", where / f"{number}" / "log"
        root.mkdir(parents=True)
        if scenario.start is not None:
            write_tree(scenario.start, root)
        jobs.append(scenario.job(root, log))
        places.append((log, root))
    todo = where / "jobs.json"
    todo.write_text(json.dumps(jobs), encoding="utf-8")
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    command = [sys.executable, str(HERE / "recorded.py"), str(todo)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecorderError(f"a run ended badly while it was recorded:\n{done.stderr[-3000:]}")
    return [(list(read_log(log.read_bytes())), root) for log, root in places]
