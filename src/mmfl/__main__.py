"""The program `mmfl`, also as ``python -m mmfl``."""

from __future__ import annotations

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line; a signal that comes while it is being imported ends it at once."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    from mmfl.cli import main as run_command_line

    run_command_line()


def _leave(number: int, frame: object) -> None:
    os._exit(128 + number)  # nothing has started yet, so there is nothing to close


if __name__ == "__main__":
    main()
