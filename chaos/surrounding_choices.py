"""The surroundings of a command: what may be odd about them, and how a process enters them.

Environment variables, standard files, limits, umask and current folder. `draw_surroundings` makes a
seeded choice; `enter` puts the process that calls it into these surroundings permanently.

Not included: what ends Python itself before any of our code runs (PYTHONHASHSEED=odd, an encoding
that does not exist, a folder as a standard file), and messages of Python itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Surroundings", "draw_surroundings", "enter", "make_places"]

ROOT = "ROOT"
"""Stands for the folder of a case in arguments and variables."""

_NO_FOLDER = ("", f"{ROOT}/outside/missing", f"{ROOT}/outside/file", "relative", None)
VARIABLES: dict[str, tuple[str | None, ...]] = {
    "HOME": _NO_FOLDER,
    "XDG_CACHE_HOME": _NO_FOLDER,
    "MMFL_DATA": _NO_FOLDER,
    "TMPDIR": (*_NO_FOLDER, f"{ROOT}/outside/closed", f"{ROOT}/outside/with:colon"),
    "LANG": ("C", "POSIX", "xx_YY.bogus", "tr_TR.UTF-8", "de_DE.ISO-8859-1", "", None),
    "LC_ALL": ("C", "POSIX", "xx_YY.bogus", "tr_TR.UTF-8", "de_DE.ISO-8859-1", "", None),
    "MPLBACKEND": ("module://matplotlib_inline.backend_inline", "bogus", "TkAgg", "", "agg"),
    "COLUMNS": ("0", "1", "-5", "many", "100000", "", "20"),
    "LINES": ("0", "-1", "many", "1"),
    "TERM": ("dumb", "bogus", "", None, "xterm-256color"),
    "NO_COLOR": ("1", ""),
    "FORCE_COLOR": ("1", "", "0"),
    "OMP_NUM_THREADS": ("0", "-1", "many", "64", "1,2", ""),
    "ATEN_CPU_CAPABILITY": ("default", "avx2", "bogus", ""),
    "PYTHONUTF8": ("0", "1"),
    "PYTHONWARNINGS": ("error", "ignore", "always"),
    "PYTHONHASHSEED": ("0", "1", "4294967295", "random"),
    "PYTHONIOENCODING": ("ascii", "ascii:strict", "latin-1", "utf-16", "cp037"),
    "PYTHONOPTIMIZE": ("1", "2"),
    "PYTHONUNBUFFERED": ("1",),
}
"""The values that each variable may have; None = it is not set."""

DESCRIPTORS = ("closed", "full", "pipe")
LIMITS: dict[str, tuple[int, ...]] = {
    "NOFILE": (6, 8, 12, 16, 24, 32, 64),
    "FSIZE": (0, 100, 4_096, 20_000, 100_000),
    "AS": (1 << 29, 1 << 30, 2 << 30, 4 << 30),
    "CORE": (0,),
    "NPROC": (0, 1, 3),
}
"""Limits of a process. NPROC is the current number plus this many."""

UMASKS = (0, 0o027, 0o077, 0o277, 0o777)
FOLDERS = ("deleted", "read-only")

_AT_START = ("PYTHON", "LANG", "LC_", "MPL", "ATEN", "OMP")
_WRITE_ANYWHERE = 1  # CAP_DAC_OVERRIDE: root writes into folders that are read-only
_DROP_FROM_BOUNDING_SET = 24


@dataclass(frozen=True)
class Surroundings:
    """What differs from normal.

    Attributes:
        environment: From a variable to its value; None = it is not set.
        descriptors: From "0", "1" or "2" to one of `DESCRIPTORS`.
        limits: From the name of a limit to its value.
        umask: The umask; None = as it is.
        folder: One of `FOLDERS`; "" = as it is.
    """

    environment: dict[str, str | None] = field(default_factory=dict)
    descriptors: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    umask: int | None = None
    folder: str = ""

    @property
    def cold(self) -> bool:
        """Whether the command needs a new interpreter, because a fork would come too late."""
        named = any(name.startswith(_AT_START) for name in self.environment)
        return named or self.powerless or bool({"NOFILE", "AS"} & {*self.limits})

    @property
    def powerless(self) -> bool:
        """Whether root must be prevented from writing to what is read-only."""
        values = [self.folder, *self.environment.values()]
        return any(value is not None and "closed" in value for value in values) or (
            self.folder == "read-only"
        )

    @property
    def capability(self) -> str:
        """The CPU kernels that are requested, by a name that torch knows; their bits differ."""
        value = self.environment.get("ATEN_CPU_CAPABILITY") or ""
        return value if value in ("default", "avx2") else ""

    @property
    def encoding(self) -> str:
        """The encoding of standard error."""
        given = self.environment.get("PYTHONIOENCODING") or "utf-8"
        return given.partition(":")[0]

    def describe(self) -> dict[str, Any]:
        """What differs, as JSON."""
        return {name: value for name, value in asdict(self).items() if value not in ({}, None, "")}


def draw_surroundings(draw: random.Random) -> Surroundings:
    """One to four things that differ."""
    environment: dict[str, str | None] = {}
    descriptors: dict[str, str] = {}
    limits: dict[str, int] = {}
    umask, folder = None, ""
    for _ in range(draw.choice((1, 1, 2, 3, 4))):
        what = draw.choices(("variable", "descriptor", "limit", "umask", "folder"), (6, 3, 3, 1, 1))
        if what == ["variable"]:
            name = draw.choice(list(VARIABLES))
            environment[name] = draw.choice(VARIABLES[name])
        elif what == ["descriptor"]:
            descriptors[draw.choice("012")] = draw.choice(DESCRIPTORS)
        elif what == ["limit"]:
            limit = draw.choice(list(LIMITS))
            limits[limit] = draw.choice(LIMITS[limit])
        elif what == ["umask"]:
            umask = draw.choice(UMASKS)
        else:
            folder = draw.choice(FOLDERS)
    return Surroundings(environment, descriptors, limits, umask, folder)


def make_places(root: Path) -> None:
    """The places that variables name."""
    outside = root / "outside"
    for name in ("closed", "with:colon", "home", "cache", "temporary", "start", "read-only"):
        (outside / name).mkdir(parents=True)
    (outside / "file").write_text("not a folder\n")
    for name in ("closed", "read-only"):
        (outside / name).chmod(0o555)


def enter(surroundings: Surroundings, root: Path, out: int, err: int) -> dict[str, str]:
    """Put this process into the surroundings; returns its new environment.

    Args:
        surroundings: The surroundings.
        root: The folder of the case.
        out: An open file for standard output, unless `surroundings` replaces it.
        err: The same for standard error.
    """
    outside = root / "outside"
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MMFL_", "XDG_")) and name not in VARIABLES
    }
    environment |= {
        "HOME": str(outside / "home"),
        "XDG_CACHE_HOME": str(outside / "cache"),
        "TMPDIR": str(outside / "temporary"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in surroundings.environment.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value.replace(ROOT, str(root))
    _enter_folder(surroundings.folder, outside)
    os.setsid()
    _arrange_files(surroundings.descriptors, out, err)
    if surroundings.umask is not None:
        os.umask(surroundings.umask)
    if surroundings.powerless:
        ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, _WRITE_ANYWHERE, 0, 0, 0)
    for name, limit in surroundings.limits.items():
        more = _count_processes() if name == "NPROC" else 0
        kind = getattr(resource, f"RLIMIT_{name}")
        with suppress(ValueError):  # it is already lower
            resource.setrlimit(kind, (limit + more, resource.getrlimit(kind)[1]))
    return environment


def _enter_folder(folder: str, outside: Path) -> None:
    os.chdir(outside / ("read-only" if folder == "read-only" else "start"))
    if folder == "deleted":
        gone = outside / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()


def _arrange_files(descriptors: dict[str, str], out: int, err: int) -> None:
    """Set up descriptors 0, 1 and 2, and close all others."""
    makers: dict[str, Callable[[bool], int]] = {
        "full": lambda _: os.open("/dev/full", os.O_RDWR),
        "pipe": _broken_pipe,
    }
    usual = (os.open(os.devnull, os.O_RDONLY), out, err)
    wanted = []
    for number, file in enumerate(usual):
        kind = descriptors.get(str(number), "")
        wanted.append(makers[kind](number == 0) if kind in makers else file)
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, 100) for file in wanted]
    for number, file in enumerate(high):
        os.dup2(file, number)
    os.closerange(3, 1024)
    for name, what in descriptors.items():
        if what == "closed":
            os.close(int(name))


def _broken_pipe(reading: bool) -> int:
    """One end of a pipe whose other end is closed."""
    ours, theirs = os.pipe()
    os.close(theirs if reading else ours)
    return ours if reading else theirs


def _count_processes() -> int:
    """How many processes and threads this user has."""
    count = 0
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count
