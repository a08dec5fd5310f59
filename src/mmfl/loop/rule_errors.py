"""Errors in code that a user may have written: one sentence that says what failed, and where."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmfl.errors import EngineError, MmflError

__all__ = ["rule_errors"]

_MMFL = str(Path(__file__).resolve().parent.parent)


@contextmanager
def rule_errors(what: str, rule: object) -> Iterator[None]:
    """Turn an error in a user's rule, `sys.exit` included, into an `EngineError`.

    An error in a rule of ours, or in no code of the user's at all, is a defect of mmfl or of a
    library, and is raised as it is.

    Args:
        what: What kind of rule it is, such as "allocator".
        rule: The rule that is called in this block.
    """
    try:
        yield
    except (MmflError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        place = _find_place(error)
        if place is None or type(rule).__module__.startswith("mmfl."):
            raise
        said = f"{type(error).__name__}: {error} ({place})"
        raise EngineError(f"the {what} {rule!r} failed: {said}") from error


def _find_place(error: BaseException) -> str | None:
    """The innermost line of the user's code that an error went through; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not _is_library(frame.filename):
            return f"{Path(frame.filename).name}, line {frame.lineno}"
    return None


def _is_library(file: str) -> bool:
    libraries = {sys.prefix, sys.base_prefix, _MMFL}
    return file.startswith("<frozen") or any(file.startswith(f"{path}/") for path in libraries)
