"""One thread at a time for objects that are not thread-safe, such as engines.

    with hold(engine):
        ...  # other threads that hold the same engine wait

A thread may hold a thing twice, unless it asks to hold it alone. The lock belongs to the object
itself, not to its value, and it is kept here: the object needs neither a hash nor an attribute. In
a forked process everything is free, for the threads that held something are not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from weakref import WeakValueDictionary

from mmfl.errors import EngineError

__all__ = ["hold"]


class _Turn:
    """The lock of an object, which lives as long as it does: no other gets its number."""

    def __init__(self, thing: object) -> None:
        self.thing = thing
        self.lock = RLock()
        self.alone = False


class _Turns:
    """The locks that are in use, by the number of the object."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[int, _Turn] = WeakValueDictionary()
        self._lock = RLock()  # a garbage collection may hold something else at any time

    def of(self, thing: object) -> _Turn:
        with self._lock:
            turn = self._turns.get(id(thing))
            if turn is None:
                self._turns[id(thing)] = turn = _Turn(thing)
            return turn


_turns = _Turns()


@contextmanager
def hold(thing: object, *, alone: str = "") -> Iterator[None]:
    """Wait until no other thread holds this; within the block, no other thread does.

    Args:
        thing: What is held.
        alone: If given, within the block this thread cannot hold it so again either: that is an
            `EngineError` which says this.
    """
    turn = _turns.of(thing)
    with turn.lock:
        if not alone:
            yield
            return
        if turn.alone:
            raise EngineError(alone)
        turn.alone = True
        try:
            yield
        finally:
            turn.alone = False


def _forget() -> None:
    global _turns  # noqa: PLW0603
    _turns = _Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
