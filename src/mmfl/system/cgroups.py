"""Limits that a container puts on its processes: Linux's control groups, both versions.

Version 2 has one tree of groups for everything, with files such as ``memory.max`` and ``cpu.max``;
version 1 has a tree for each kind of resource. A limit holds for a group and for all groups inside
it, so those around a process's own group count too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mmfl.system.files import read_text

__all__ = ["OWN", "ROOT", "groups", "lines_of", "numbers_in"]

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def groups(kind: str, root: Path = ROOT, own: Path = OWN) -> Iterator[tuple[int, Path]]:
    """This process's groups for a kind of resource, innermost first, each with its version.

    Args:
        kind: "memory" or "cpu".
        root: Where the trees are.
        own: The file that says which groups this process is in.
    """
    for line in lines_of(own):
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            version, top = 2, root
        elif kind in kinds.split(","):
            version, top = 1, root / kind
        else:
            continue
        here = top / path.strip("/")
        for group in (here, *here.parents):  # a container may see its own group as the root
            yield version, group
            if group == top:
                break


def numbers_in(path: Path) -> list[int]:
    """The whole numbers in a file's first line; none if there is no such file."""
    words = " ".join(lines_of(path)[:1]).split()
    return [int(word) for word in words if word.isdecimal()]


def lines_of(path: Path) -> list[str]:
    """The lines of a small file; none if there is no such file."""
    try:
        return read_text(path, limit=1 << 20).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
