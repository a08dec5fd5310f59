"""How much memory there is, and one sentence before something starts that needs more.

An estimate is a lower bound: what is certainly needed, and no more. So nothing is refused that
could have worked. What is not refused may still run out of memory, which is then reported in one
sentence, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmfl.errors import ResourceError, text_of
from mmfl.system.cgroups import OWN, ROOT, groups, lines_of, numbers_in

__all__ = ["Memory", "Need", "describe_shortage", "left_in_groups", "refuse", "size"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True)
class Need:
    """Something that takes memory.

    Attributes:
        what: The setting and what it means, e.g. "task 'big': a model of 4,000 weights".
        bytes: How many it takes at least.
        each: Whether every worker process takes as many.
    """

    what: str
    bytes: int
    each: bool = False


@dataclass(frozen=True)
class Memory:
    """What may still be used, in bytes; None = not known.

    Attributes:
        machine: By all processes together: what the system has available, or what is left of the
            control group's limit (as containers have one).
        process: By this process: what is left of its limit on addresses (``ulimit -v``).
        child: By a new process, all in all.
    """

    machine: int | None = None
    process: int | None = None
    child: int | None = None

    @classmethod
    def now(cls) -> Memory:
        """As it is now."""
        swap = _meminfo("SwapFree") or 0
        shared = [_meminfo("MemAvailable"), *left_in_groups()]
        known = [found for found in shared if found is not None]
        machine = min(known) + swap if known else _physical()
        try:
            import resource  # not on Windows
        except ImportError:
            return cls(machine)
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return cls(machine)
        used = numbers_in(Path("/proc/self/statm"))[:1]
        taken = used[0] * resource.getpagesize() if used else 0
        return cls(machine, max(0, limit - taken), limit)


def refuse(needs: Sequence[Need], *, workers: int = 0, memory: Memory | None = None) -> None:
    """Raise `ResourceError` if these needs exceed what there is.

    Args:
        needs: What comes on top of all that is used already.
        workers: How many worker processes there are; without any, this process does their work.
        memory: What there is, if not what there is now.
    """
    here = [need for need in needs if not (need.each and workers)]
    each = [need for need in needs if need.each and workers]
    own, theirs = sum(need.bytes for need in here), sum(need.bytes for need in each)
    if memory is None and own + workers * theirs < 1 << 24:
        return  # nothing that anybody would miss: not worth asking the system
    room = Memory.now() if memory is None else memory
    for needed, limit, to_blame, left in (
        (own + workers * theirs, room.machine, [*here, *each], "is free"),
        (own, room.process, here, "is left of this process's limit (ulimit -v)"),
        (theirs, room.child, each, "is the limit of each process (ulimit -v)"),
    ):
        if limit is not None and needed > limit:
            worst = max(to_blame, key=lambda need: need.bytes * _times(need, workers))
            many = f" in each of {workers:,} worker processes" if worst in each else ""
            alone = worst.bytes * _times(worst, workers) > limit
            rest = "" if alone else f", and everything together {size(needed)}"
            text = f"{worst.what} needs about {size(worst.bytes)}{many}{rest}"
            raise ResourceError(f"{text}; {size(limit)} {left}")


def _times(need: Need, workers: int) -> int:
    """How often a need arises."""
    return workers if need.each and workers else 1


def size(number: int) -> str:
    """Bytes for people.

    >>> size(21_300_000_000)
    '21 GB'
    """
    amount, unit = float(min(number, 10**24)), 0
    while amount >= 999.5 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1000, unit + 1
    digits = 1 if amount < 9.95 and unit else 0
    return f"{amount:,.{digits}f} {_UNITS[unit]}"


def describe_shortage(error: BaseException) -> str | None:
    """A few words about an exception, if it means that memory ran out; torch has its own."""
    text = text_of(error)
    if isinstance(error, MemoryError):
        return f"out of memory: {text}" if text else "out of memory"
    wanted = re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", text)
    if isinstance(error, RuntimeError) and wanted:
        return f"out of memory: {size(int(wanted[1]))} more were requested"
    if isinstance(error, RuntimeError) and re.search(r"(CUDA|HIP|MPS backend) out of memory", text):
        return "the GPU is out of memory; use fewer engine.workers, or smaller batches"
    return None


def _meminfo(name: str) -> int | None:
    for line in lines_of(Path("/proc/meminfo")):
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def _physical() -> int | None:
    """All of the machine's memory, where the system does not say what is free."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # Windows has no sysconf
        return None


def left_in_groups(root: Path = ROOT, own: Path = OWN) -> Iterator[int]:
    """What is left of each limit on this process's control group and on those around it.

    What the files of a group keep in memory can be dropped, so it counts as free.
    """
    for version, group in groups("memory", root, own):
        if version == 2:
            names, prefix = ("memory.max", "memory.current"), ""
        else:
            names, prefix = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"
        limit, used = (numbers_in(group / name) for name in names)
        if limit and used and limit[0] < 1 << 60:
            yield max(0, limit[0] - used[0] + _count_cached(group, prefix))


def _count_cached(group: Path, prefix: str) -> int:
    kinds = (f"{prefix}active_file", f"{prefix}inactive_file")
    pairs = (line.split() for line in lines_of(group / "memory.stat"))
    return sum(int(number) for name, number in pairs if name in kinds)
