"""Whether a data set is the one that its name promises."""

from __future__ import annotations

from mmfl.data.arrays import Arrays, content_hash
from mmfl.data.sources.catalogue import Entry
from mmfl.errors import DataError

__all__ = ["check_content"]


def check_content(entry: Entry, arrays: Arrays) -> str:
    """The content hash of `arrays`, or `DataError` if they are not the catalogue's data set."""
    for part, count in (("train", entry.train), ("test", entry.test)):
        found = getattr(arrays, f"x_{part}").shape
        if found != (count, *entry.shape):
            raise DataError(f"x_{part} has shape {found} instead of {(count, *entry.shape)}")
    if arrays.classes != entry.classes:
        raise DataError(f"it has {arrays.classes} classes instead of {entry.classes}")
    found_hash = content_hash(arrays)
    if entry.content not in (None, found_hash):
        raise DataError(f"its content has sha256 {found_hash} instead of {entry.content}")
    return found_hash
