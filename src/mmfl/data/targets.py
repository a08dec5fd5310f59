"""Targets as people have them become class numbers from 0, or stay real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import DataError

__all__ = ["repair_targets"]

Anything = npt.NDArray[Any]


def repair_targets(parts: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """The parts with class numbers from 0 without holes, or with targets that are real numbers.

    Args:
        parts: The parts of a data set by their names.
        where: What the data is called in messages.
        notes: Gets a sentence for each thing that is repaired.
    """
    names = [name for name in ("y_train", "y_test") if name in parts]
    targets = [np.asarray(parts[name]) for name in names]
    if any(one.dtype.kind in "mM" for one in targets):
        raise DataError(f"{where}: targets must be classes or numbers, not dates")
    if any(one.dtype.kind == "c" for one in targets):
        raise DataError(f"{where}: targets must be classes or real numbers, not complex numbers")
    if not targets or any(one.dtype.kind == "f" for one in targets):
        return parts
    if any(one.ndim == 2 and one.shape[1] == 1 for one in targets):
        notes.append("targets of shape (N, 1) are taken as (N,)")
        targets = [one.reshape(len(one)) for one in targets]
    parts = parts | dict(zip(names, targets, strict=True))
    if "classes" in parts or any(one.ndim != 1 for one in targets):
        return parts
    if all(one.dtype.kind == "b" for one in targets):
        _note_one_class(np.unique(np.concatenate(targets)), notes)
        return parts | {"classes": [False, True]}
    if any(one.dtype.kind == "b" for one in targets):
        return parts
    return parts | _number_classes(dict(zip(names, targets, strict=True)), where, notes)


def _number_classes(targets: dict[str, Anything], where: str, notes: list[str]) -> dict[str, Any]:
    """Class numbers from 0 for labels of any kind, with the labels as the names of the classes."""
    if any(one.dtype.kind == "O" and _has_gaps(one) for one in targets.values()):
        raise DataError(
            f"{where}: some targets are missing (None or NaN); leave out these examples"
        )
    labels = {
        name: one.astype(str) if one.dtype.kind in "OSU" else one for name, one in targets.items()
    }
    found = np.unique(np.concatenate([*labels.values()]))
    _note_one_class(found, notes)
    if found.dtype.kind in "iu" and found.min() == 0 and found.max() == len(found) - 1:
        return dict(targets)
    if len(found) > 1 and found.dtype.kind == "U":
        notes.append(f"classes are numbered in this order: {_list(found)}")
    elif len(found) > 1 and found.dtype.kind in "iu":
        notes.append(f"the labels {_list(found)} are renumbered 0 to {len(found) - 1}")
    numbers = {name: np.searchsorted(found, one) for name, one in labels.items()}
    return numbers | {"classes": found.tolist()}


def _note_one_class(found: Anything, notes: list[str]) -> None:
    if len(found) == 1:
        notes.append(f"every example has the same label, {found[0]}, so there is nothing to learn")


def _has_gaps(objects: Anything) -> bool:
    return any(one is None or one != one for one in objects)  # noqa: PLR0124


def _list(values: Sequence[Any] | Anything) -> str:
    few = [str(value) for value in values[:6]]
    return ", ".join(few) if len(values) <= 6 else f"{', '.join(few)}, ... {values[-1]}"
