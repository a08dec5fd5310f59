"""The consoles on which commands print: names are never markup, and pipes are wide enough."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console

__all__ = ["is_live", "open_console"]

_PIPE = 200


def open_console(file: TextIO | None = None, *, quiet: bool = False) -> Console:
    """A console on a file, by default standard output.

    A terminal has its own width, and ``COLUMNS`` sets another. Anything else is wide enough that no
    table of a usual size is split.
    """
    file = sys.stdout if file is None else file
    width = None if file.isatty() or os.environ.get("COLUMNS") else _PIPE
    return Console(file=file, width=width, quiet=quiet, highlight=False, markup=False)


def is_live(console: Console) -> bool:
    """Whether lines may be redrawn; FORCE_COLOR asks only for colours in a file."""
    forced = "FORCE_COLOR" in os.environ and not console.file.isatty()
    return console.is_terminal and not forced and not console.quiet
