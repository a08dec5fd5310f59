"""An iterator over rounds that may be closed at any time, from any thread."""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Generator, Iterator
from inspect import GEN_RUNNING, getgeneratorstate
from threading import RLock
from typing import Self
from weakref import WeakSet

from mmfl.errors import EngineError, MmflWarning, text_of
from mmfl.loop.state import RoundRecord, State
from mmfl.system.user_code import Guard

__all__ = ["Rounds", "Steps"]

Steps = Generator[tuple[State, RoundRecord], None, None]
"""The rounds as they are computed: each with the state after it."""


class Rounds(Iterator[tuple[State, RoundRecord]]):
    """An iterator over rounds that closes its engine in the end: after `break`, too."""

    def __init__(self, generator: Steps) -> None:
        self._generator = generator
        self._lock = RLock()  # a generator belongs to one thread at a time
        self._owner = os.getpid()
        _made.add(self)

    def __next__(self) -> tuple[State, RoundRecord]:
        with self._lock:
            return self._advance()

    def _advance(self) -> tuple[State, RoundRecord]:
        try:
            return next(self._generator)
        except SystemExit:  # it would end the program, perhaps as if it had succeeded
            with Guard("your code failed", always=True):
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the rounds and the workers; if another thread computes a round, after that one."""
        with self._lock:
            if getgeneratorstate(self._generator) == GEN_RUNNING:
                raise EngineError("rounds cannot be closed by code that runs within a round")
            self._generator.close()

    def close_at_exit(self) -> None:
        """The same when the program ends, unless another thread is computing a round."""
        if self._owner == os.getpid() and self._lock.acquire(blocking=False):
            try:
                self._generator.close()
            except Exception as error:
                said = f"rounds could not be closed: {text_of(error)}"
                warnings.warn(said, MmflWarning, stacklevel=2)
            finally:
                self._lock.release()


_made: WeakSet[Rounds] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Close what a program leaves open, before Python takes the modules apart that this needs."""
    for rounds in [*_made]:
        rounds.close_at_exit()
