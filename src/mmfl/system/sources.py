"""The text of code that is in no file, such as a notebook's cells: messages show its lines.

A notebook keeps it in `linecache`, where tracebacks look for it. Workers get it with the code.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping

__all__ = ["add_sources", "find_sources"]


def find_sources(pickled: bytes) -> dict[str, str]:
    """From name to text of the cells that pickled code comes from."""
    found = {}
    for name, entry in linecache.cache.copy().items():
        if len(entry) == 4 and entry[1] is None and name.encode(errors="replace") in pickled:
            found[name] = "".join(entry[2])
    return found


def add_sources(sources: Mapping[str, str]) -> None:
    """Let tracebacks of this process find these texts."""
    for name, text in sources.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
