"""Waiting for threads that wait, and for processes that end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Thread

from mmfl.system import turns

__all__ = ["wait_until", "wait_until_done_or_held"]

LONG = 30.0


def wait_until(condition: Callable[[], bool]) -> None:
    """Until a condition holds; a test that waits too long fails."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_until_done_or_held(thread: Thread) -> None:
    """Until a thread has ended, or waits for an object that another thread holds."""
    end = time.monotonic() + LONG
    while thread.is_alive() and not _is_held(thread) and time.monotonic() < end:
        time.sleep(0.001)


def _is_held(thread: Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is turns.hold.__wrapped__.__code__
