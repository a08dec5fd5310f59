"""Runs a module of ours in a child process, and ends the process when its parent is gone.

    python -P -m mmfl.system.guard MODULE PARENT MAIN GRACE SOCKET FILES

`mmfl.system.child` starts it, before anything heavy is imported. There are two ways to notice that
the parent is gone, because each fails where the other works:

- A thread waits for the end of the process PARENT, and for the other end of SOCKET to be closed. It
  cannot act while native code holds Python's global lock.
- Linux sends a signal when the *thread* ends that started this process. So it is asked for only if
  that was the parent's main thread (MAIN is 1): another one may end while the parent goes on.

With GRACE = 0 the process ends at once, also if the parent only closes the socket. Otherwise it is
interrupted (SIGTERM) when the parent has ended, and has GRACE seconds to save what it has; closing
the socket is then for the module to handle.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
import threading

from mmfl.system import calls

__all__ = ["watch_parent"]

_OFTEN = 0.25
"""Seconds between two looks at the parent, if the system cannot tell when it ends."""


def watch_parent(parent: int, socket: int, *, started_by_main: bool, grace: float) -> None:
    """End this process when `parent` has ended; see above."""
    try:
        ended = calls.open_process(parent)
    except ProcessLookupError:
        os._exit(1)
    except OSError:  # the system cannot do that: the socket tells, and the parent's number
        ended = None
    if started_by_main and not grace:
        calls.die_with_parent()
    first = os.getppid()
    copy = os.dup(socket)  # the module may close its own

    def wait() -> None:
        poller = select.poll()
        if not grace:
            poller.register(copy, 0)  # nothing but "the other end is closed"
        if ended is not None:
            poller.register(ended, select.POLLIN)
        while True:
            heard = poller.poll(None if ended is not None else 1000 * _OFTEN)
            if heard or os.getppid() != first:
                break
        if grace:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            calls.sleep(grace)
        os._exit(1)

    calls.start_thread(wait, "watch parent")


def main() -> None:
    """Watch, then run the module as if it had been started itself."""
    module, parent, by_main, grace, *rest = sys.argv[1:]
    watch_parent(int(parent), int(rest[0]), started_by_main=by_main == "1", grace=float(grace))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
