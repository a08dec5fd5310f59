"""Ctrl-C, SIGTERM and SIGHUP: the first one interrupts the program, the others are ignored.

A closing terminal, a batch system or an impatient person sends several signals within a moment. A
second exception in the middle of saving a checkpoint would lose it. Ignoring signals at the first
one (``SIG_IGN``) does not help: Python prints an error for a signal that has arrived already, and
whose handler is gone when its turn comes.
"""

from __future__ import annotations

import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Handler", "Interrupt", "interruptible"]

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Interrupt(KeyboardInterrupt):
    """A signal asked the program to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class Handler:
    """Raises `Interrupt` at the first signal."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._raised: weakref.ref[Interrupt] | None = None

    def __call__(self, number: int, frame: object) -> None:
        """Raise the exception, unless it is on its way."""
        if self.interrupt is not None:
            return
        self._prepare()
        interrupt = Interrupt(number)
        self._raised = weakref.ref(interrupt)
        try:
            raise interrupt
        finally:
            del interrupt  # it refers to this frame: as a circle, it would outlive being dropped

    @property
    def interrupt(self) -> Interrupt | None:
        """The exception on its way; None before, and if Python dropped it (in ``__del__``)."""
        return None if self._raised is None else self._raised()


@contextmanager
def interruptible(prepare: Callable[[], None] = lambda: None) -> Iterator[Handler]:
    """Turn the first SIGINT, SIGTERM or SIGHUP in this block into an `Interrupt`.

    Signals that are ignored (by ``nohup``, or in the background of a script) stay so; SIGTERM is
    always taken. After an interrupt all of them are ignored, since the program is about to end.

    Args:
        prepare: Called before the exception is raised.
    """
    handler = Handler(prepare)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [n for n in before if n == signal.SIGTERM or before[n] is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield handler
    finally:
        if handler.interrupt is not None:
            _ignore(taken)
        else:
            for number in taken:
                signal.signal(number, before[number] or signal.SIG_DFL)


def _ignore(numbers: list[int]) -> None:
    """Ignore signals, also while Python ends; those that have arrived go to their handler first."""
    masked = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers) if masked else set()
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    if masked:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
