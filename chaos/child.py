"""What a forked child does: work in its own session, write its output to files, and exit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

__all__ = ["live"]


def live(work: Callable[[], None], out: int, err: int) -> NoReturn:
    """Do the work and exit with its exit code; its output goes to two files.

    Args:
        work: What the child does.
        out: The open file for its standard output.
        err: The open file for its standard error.
    """
    code = 70
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
