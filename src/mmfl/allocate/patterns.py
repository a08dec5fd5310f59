"""Patterns: the distinct sets of tasks that clients may train, and who has which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Bools, Ints

__all__ = ["Patterns"]

_COUNTED = 16
"""Up to this many tasks, the possible patterns are few enough to count them all."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Clients grouped by what they may train.

    Attributes:
        sets: (G, S) the patterns, columns in the order asked for. Their order depends only on the
            patterns themselves.
        number: (n) each client's pattern; None = there is one, and all have it.
        sizes: (G) how many clients have each.
    """

    sets: Bools
    number: npt.NDArray[np.uint16] | Ints | None
    sizes: Ints

    @classmethod
    def of(cls, eligible: Bools, order: npt.NDArray[np.intp]) -> Patterns:
        """The patterns of the rows of a table.

        Args:
            eligible: (n, S) who may train what.
            order: (S) in which the patterns have their columns.
        """
        n, S = eligible.shape
        if eligible.all():
            return cls(np.ones((min(n, 1), S), dtype=bool), None, np.full(min(n, 1), n))
        if S <= _COUNTED:
            code = _codes(eligible)
            size = np.bincount(code, minlength=1 << S)
            found = np.flatnonzero(size)
            sets = (found[:, None] >> order & 1).astype(bool)
            rank = np.argsort(_keys(sets))
            table = np.zeros(1 << S, dtype=np.uint16)
            table[found[rank]] = np.arange(len(found))
            return cls(sets[rank], table.take(code), size[found[rank]])
        key = _keys(eligible[:, order])
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return cls(eligible[first][:, order], number, np.bincount(number))

    @cached_property
    def without_tasks(self) -> Bools | None:
        """(n) who may train nothing; None = nobody."""
        nothing = ~self.sets.any(axis=1)
        return nothing.take(self.number) if self.number is not None and nothing.any() else None


def _codes(eligible: Bools) -> npt.NDArray[np.uint16]:
    """Each row as a number whose bit s is column s."""
    code = np.zeros(len(eligible), dtype=np.uint16)
    bits = eligible.view(np.uint8)
    for s in range(eligible.shape[1]):
        code |= bits[:, s].astype(np.uint16) << np.uint16(s)
    return code


def _keys(sets: Bools) -> npt.NDArray[np.generic]:
    """Each row as a comparable key, which determines the order of the patterns."""
    packed = np.packbits(sets, axis=1)
    width = next((w for w in (1, 2, 4, 8) if packed.shape[1] <= w), packed.shape[1])
    padded = np.zeros((len(sets), width), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(f"u{width}" if width in (1, 2, 4, 8) else f"V{width}").ravel()
