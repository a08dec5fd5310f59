"""Runs an mmfl module in a child process, and ends the process when its parent is gone.

    python -P -m mmfl.system.guard MODULE PARENT SOCKET FILES

`mmfl.system.child` starts it, before anything heavy is imported. Two mechanisms end it, at once:

- Linux kills it when the thread ends that started it, and that thread lives as long as the process
  PARENT (`mmfl.system.starter`). This works whatever the process does, even if it is stopped.
- A thread waits for the end of PARENT. This works on every system, but it cannot act while native
  code holds Python's global lock.
"""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import suppress

from mmfl.system import calls

__all__ = ["watch_parent"]

_OFTEN = 0.25
"""Seconds between two looks at the parent, if the system cannot tell when it ends."""


def watch_parent(parent: int) -> None:
    """End this process when `parent` has ended; see above."""
    try:
        ended = calls.open_process(parent)
    except ProcessLookupError:
        os._exit(1)
    except OSError:  # the system cannot do that: look who the parent is, now and then
        ended = None
    with suppress(OSError):
        calls.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)

    def wait() -> None:
        if ended is not None:
            with suppress(OSError):  # too little memory: look now and then
                calls.wait([ended])
                os._exit(1)
        while os.getppid() == parent:
            calls.sleep(_OFTEN)
        os._exit(1)

    calls.start_thread(wait, "watch parent")


def main() -> None:
    """Watch, then run the module as if it had been started itself."""
    module, parent, *rest = sys.argv[1:]
    watch_parent(int(parent))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
