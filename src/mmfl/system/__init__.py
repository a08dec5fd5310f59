"""The operating system, as the rest of mmfl uses it: files, memory, processes, sockets, clock.

`calls` is the only module that touches it; `files`, `memory` and `child` are built on `calls`.
(`standard` comes before everything else, and the command line's help without `calls`.)
"""

__all__: list[str] = []
