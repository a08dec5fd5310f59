"""Slots: places in growing files into which workers write results, and from which we read them.

A slot has the size of its result. The first slots lie in a file that exists only in memory: results
are read once, and a disk would write them for nothing. Beyond `MOST` bytes, or if memory is scarce,
they lie in a temporary file, which the system can write out.

Files are mapped in blocks, each at least as large as all blocks before it. So a process needs few
maps (and few file descriptors: a map takes one) for any number of slots. Space is reserved for
the slots in use, not for whole blocks.
"""

from __future__ import annotations

import mmap
import os
import weakref
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.engines.shared_memory.arena import Arena, extend, map_part, reserve
from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.memory import Memory

__all__ = ["Blocks", "Slot", "Slots"]

MOST = 1 << 30
"""Slots take no more memory than this, and no more than a quarter of what would be free without."""

_ALIGN = 64
_STEP = 1 << 20
"""Space is reserved in steps of this many bytes."""


class Slot(NamedTuple):
    """A part of a file, in bytes: where it begins, its size, and the block that contains it."""

    offset: int
    size: int
    block: int
    length: int
    file: int


class Blocks:
    """Files that are mapped block by block: each block once, when one of its slots is first used.

    Args:
        files: Their descriptors.
    """

    def __init__(self, files: Sequence[int]) -> None:
        self._files = files
        self._maps: dict[tuple[int, int], mmap.mmap] = {}

    def array(self, slot: Slot, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """The first `count` numbers of a slot."""
        key = (slot.file, slot.block)
        if key not in self._maps:
            fd = self._files[slot.file]
            self._maps[key] = map_part(fd, slot.length, offset=slot.block)
        return np.frombuffer(self._maps[key], dtype, count, slot.offset - slot.block)


class Slots:
    """The slots of an engine; the files exist as long as the engine.

    Args:
        memory: How many bytes may lie in memory.
    """

    def __init__(self, memory: int = MOST) -> None:
        self._arena = Arena()
        self._spaces = [_Space(self._arena.fd, 0, None)]
        self._memory: int | None = None
        with suppress(OSError):  # not every system can do that
            self._memory = calls.memory_file("mmfl")
            self._spaces.insert(0, _Space(self._memory, 1, memory))
        self.files = [self._arena.fd, *([] if self._memory is None else [self._memory])]
        self._blocks = Blocks(self.files)
        self._returned: deque[Slot] = deque()

    def take(self, size: int) -> Slot:
        """A free slot of this size."""
        while self._returned:
            self.give_back(self._returned.popleft())
        size = max(_ALIGN, -(-size // _ALIGN) * _ALIGN)
        for space in self._spaces:
            slot = space.take(size)
            if slot is not None:
                return slot
        raise EngineError(f"there is no room for an update of {size:,} bytes")

    def give_back(self, slot: Slot) -> None:
        """A slot is free again."""
        next(space for space in self._spaces if space.number == slot.file).give_back(slot)

    def read(self, slot: Slot, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """What a slot contains, as long as it is not given back."""
        return self._blocks.array(slot, dtype, count)

    def lend(self, slot: Slot, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """What a slot contains; the slot is given back when this array (and all views) are gone."""
        array = self._blocks.array(slot, dtype, count)
        weakref.finalize(array, self._returned.append, slot).atexit = False
        return array

    def close(self) -> None:
        """Close the files; arrays that are still in use stay valid."""
        self._arena.close()
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None


class _Space:
    """Slots in one file.

    Args:
        fd: Its descriptor.
        number: Its place among the files.
        limit: How many bytes of memory may be reserved; None if it is on a disk.
    """

    def __init__(self, fd: int, number: int, limit: int | None) -> None:
        self.number = number
        self._fd, self._limit = fd, limit
        self._ends: list[int] = []  # where each block ends
        self._reserved: list[int] = []  # up to where space of it is reserved
        self._free: list[tuple[int, int]] = []  # (offset, size), ascending, within one block each
        self._total = 0

    def take(self, size: int) -> Slot | None:
        """The first slot that fits, so that little of the file is used; None beyond the limit."""
        try:
            for place, (offset, room) in enumerate(self._free):
                if room >= size and self._reserve(offset + size):
                    return self._cut(place, offset, size)
            if not self._allows(size + _STEP):
                return None
            start = self._add_block(size)
            if self._reserve(start + size):
                return self._cut(len(self._free) - 1, start, size)
        except EngineError:
            if self._limit is None:
                raise
            self._limit = self._total  # there is less than we thought
        return None

    def give_back(self, slot: Slot) -> None:
        """A slot is free again."""
        offset, size, block, length, _ = slot
        place = bisect_left(self._free, (offset, size))
        after = self._free[place] if place < len(self._free) else (-1, 0)
        if after[0] == offset + size < block + length:
            size += self._free.pop(place)[1]
        if place and offset > block and sum(self._free[place - 1]) == offset:
            offset, before = self._free.pop(place - 1)
            size += before
        insort(self._free, (offset, size))

    def _cut(self, place: int, offset: int, size: int) -> Slot:
        """Take the beginning of a free part."""
        room = self._free[place][1]
        self._free[place : place + 1] = [(offset + size, room - size)] if room > size else []
        number = bisect_left(self._ends, offset + size)
        start = self._ends[number - 1] if number else 0
        return Slot(offset, size, start, self._ends[number] - start, self.number)

    def _reserve(self, end: int) -> bool:
        """Whether there is space up to here, in the block that this is in."""
        number = bisect_left(self._ends, end)
        done = self._reserved[number]
        if end <= done:
            return True
        wanted = min(self._ends[number], -(-end // _STEP) * _STEP)
        if not self._allows(wanted - done):
            return False
        reserve(self._fd, wanted, start=done)
        self._total += wanted - done
        self._reserved[number] = wanted
        return True

    def _allows(self, more: int) -> bool:
        if self._limit is None:
            return True
        free = (Memory.now().machine or 0) + self._total  # what we have taken is not free now
        return self._total + more <= self._limit and 4 * (self._total + more) <= free

    def _add_block(self, size: int) -> int:
        """Make the file longer by a block with room for `size` bytes; where it begins."""
        start, page = self._ends[-1] if self._ends else 0, mmap.ALLOCATIONGRANULARITY
        length = -(-max(size, start, _STEP) // page) * page
        extend(self._fd, start + length)
        self._ends.append(start + length)
        self._reserved.append(start)
        self._free.append((start, length))
        return start
