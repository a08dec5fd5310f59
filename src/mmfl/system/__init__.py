"""The operating system, as the rest of mmfl uses it: files, memory, processes, sockets, clock.

`calls` is the only module that touches it; `files`, `memory` and `child` are built on `calls`.
(`standard_streams` is imported first; the command line's help does not import `calls`.)
"""

__all__: list[str] = []
