"""What every command needs from its environment; if it is missing, one sentence.

Some libraries end the process themselves if they lack this: MKL without a current folder, OpenBLAS
and torch without memory for what they load.
"""

from __future__ import annotations

import os

from mmfl.errors import InputError, ResourceError
from mmfl.system.memory import size

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

__all__ = ["check_preconditions"]

_ADDRESSES = 1 << 30
"""Bytes of address space that NumPy and torch need to be loaded and to compute a little."""


def check_preconditions() -> None:
    """Refuse to start without a current folder, or with a limit that torch cannot be loaded in."""
    try:
        os.getcwd()
    except OSError as error:
        raise InputError(
            f"the current folder cannot be used ({error.strerror}); change to another one with cd"
        ) from None
    if resource is None:
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _ADDRESSES:
        raise ResourceError(
            f"the limit on address space is {size(limit)}, but mmfl needs {size(_ADDRESSES)}; "
            "raise it with ulimit -v"
        )
