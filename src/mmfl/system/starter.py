"""Starts processes that Linux is to end together with this one.

Linux sends its parent-death signal (`calls.die_with_parent`) when the *thread* ends that started a
process. So a thread that may end before this process does not start any itself: it asks a thread
that never ends.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache, partial
from queue import SimpleQueue
from typing import Any

from mmfl.system import calls

__all__ = ["start_process"]

_Process = subprocess.Popen[bytes]
_Orders = SimpleQueue[tuple["Future[_Process]", Callable[[], _Process]]]


def start_process(command: Sequence[str], **options: Any) -> _Process:
    """Do what `subprocess.Popen` does, from a thread that lives as long as this process."""
    if threading.current_thread() is threading.main_thread():
        return calls.spawn(command, **options)
    started: Future[_Process] = Future()
    _start_thread(os.getpid()).put((started, partial(calls.spawn, command, **options)))
    return started.result()


@cache  # by process ID: a fork has no threads but one
def _start_thread(process: int) -> _Orders:
    """Start the thread that never ends; the queue for what it is to start."""
    orders: _Orders = SimpleQueue()
    calls.start_thread(partial(_carry_out, orders), "start processes")
    return orders


def _carry_out(orders: _Orders) -> None:
    while True:
        started, start = orders.get()
        try:
            started.set_result(start())
        except BaseException as error:  # for the thread that waits to handle
            started.set_exception(error)
