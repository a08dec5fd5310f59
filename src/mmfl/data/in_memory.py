"""Data that a program passes itself: arrays, a pandas DataFrame, a torch Dataset.

It is converted once, checked, and kept for as long as its task exists. A stored experiment has only
its hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from mmfl.config import Text, component
from mmfl.data.arrays import PARTS, Arrays, content_hash
from mmfl.data.conversion import to_arrays
from mmfl.errors import DataError
from mmfl.system.user_code import warn_user

__all__ = ["InMemory", "keep_data"]

_kept: WeakValueDictionary[str, Arrays] = WeakValueDictionary()
"""By content hash."""


@component
class InMemory:
    """Data that was passed as an object.

    Attributes:
        hash: The SHA-256 of its content.
    """

    hash: Text

    def __post_init__(self) -> None:
        object.__setattr__(self, "_arrays", _kept.get(self.hash))  # it exists as long as this does

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what is sent to another process, is a name for the same data."""
        return InMemory, (self.hash,)

    def load(self, data_dir: Path | None) -> Arrays:
        """The data, if this program has it."""
        arrays: Arrays | None = getattr(self, "_arrays", None) or _kept.get(self.hash)
        if arrays is None:
            raise DataError(
                "the data was passed in memory, and this program does not have it; pass the same "
                f"data again (its SHA-256 begins with {self.hash[:12]})"
            )
        return arrays


def keep_data(value: Any, where: str) -> InMemory:
    """Convert, check and keep data; what is repaired in it is a warning.

    Args:
        value: See `to_arrays`.
        where: What it is called in messages.
    """
    arrays, notes = to_arrays(value, where)
    for note in notes:
        warn_user(f"{where}: {note}")
    arrays = _own_memory(arrays, value)
    real = arrays.x_train.dtype.kind == "f"
    arrays = replace(arrays, series=real and arrays.x_train.ndim == 3)
    digest = _hash(arrays)
    arrays = _kept.setdefault(digest, arrays)
    return InMemory(digest)


def _own_memory(arrays: Arrays, value: Any) -> Arrays:
    """The data in memory that the program cannot change any more: its hash stays true."""
    given = [] if hasattr(value, "iloc") else [*_find_arrays(value)]  # a table is read into new
    parts = {name: getattr(arrays, name) for name in PARTS}
    copies = {
        name: part.copy()
        for name, part in parts.items()
        if any(np.may_share_memory(part, one) for one in given)
    }
    return replace(arrays, **copies)


def _find_arrays(value: Any) -> Iterator[npt.NDArray[Any]]:
    """The arrays, and the tensors as arrays of the same memory, that a program has given."""
    if isinstance(value, Arrays):
        value = [getattr(value, name) for name in PARTS]
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, tuple | list):
        for one in value:
            if isinstance(one, float | int | np.generic):
                return
            yield from _find_arrays(one)
    elif isinstance(value, np.ndarray) or hasattr(value, "detach") or hasattr(value, "iloc"):
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            value = value.detach().cpu()
        yield np.asarray(value)


def _hash(arrays: Arrays) -> str:
    """The hash of the content, and of the names of classes and features if there are any."""
    digest = content_hash(arrays)
    names = [arrays.class_names, arrays.features]
    if names == [None, None]:
        return digest
    return hashlib.sha256(f"{digest} {json.dumps(names)}".encode()).hexdigest()
