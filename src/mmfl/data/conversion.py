"""Convert the data that people have in their programs to `Arrays`.

    to_arrays       arrays, (x, y), four arrays, a dictionary, a torch Dataset or a pandas DataFrame
    from_frame      a DataFrame, with a column for the target and one for the client

What can be repaired without a guess is repaired, and said; everything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.arrays import PARTS, Arrays
from mmfl.errors import DataError, did_you_mean, plural
from mmfl.rng import stream
from mmfl.system.user_code import describe_error, pass_on, warn_user

__all__ = ["from_frame", "to_arrays"]

Anything = npt.NDArray[Any]

HELD_OUT = 0.2
"""Share of the examples that are set aside for the test split if none is given."""

TARGETS = ("target", "label", "class", "y")
"""What a column of targets may be called if nobody names it."""


def to_arrays(value: Any, where: str) -> tuple[Arrays, list[str]]:
    """Checked arrays, and a sentence for each thing that was repaired.

    Args:
        value: `Arrays`; (x, y); (x_train, y_train, x_test, y_test); a dictionary as
            `Arrays.check` takes it, where the test split may be missing; a torch Dataset of pairs,
            or two of them (training, test); a DataFrame, see `from_frame`.
        where: What the data is called in messages.
    """
    if isinstance(value, Arrays):
        return value, []
    notes: list[str] = []
    parts = _name_parts(value, where)
    parts = {name: _as_array(part) if name in PARTS else part for name, part in parts.items()}
    if "clients" not in parts:
        parts = _repair_targets(parts, notes)
    if "x_test" not in parts and "y_test" not in parts and {"x_train", "y_train"} <= parts.keys():
        parts = _hold_out(parts, where, notes)
    return Arrays.check(where, parts), notes


def from_frame(
    frame: Any,
    *,
    target: str | Sequence[str] | None = None,
    client: str | None = None,
    test: Any = None,
) -> Arrays:
    """A data set from a pandas DataFrame: one row per example.

    All other columns are features and must be numbers. Targets are classes if they are whole
    numbers, text or truth values, and real numbers otherwise.

    Args:
        frame: The DataFrame.
        target: The column of targets, or several columns of real numbers. By default the one that
            is called target, label, class or y.
        client: The column that says who holds a row; each value becomes a client, in sorted order.
        test: A DataFrame with the same columns, for the test split; by default a fifth of the
            rows, drawn at random with a fixed seed.
    """
    arrays, notes = to_arrays(_split_frame(frame, target, client, test), "the table")
    for note in notes:
        warn_user(f"the table: {note}")
    return arrays


def _name_parts(value: Any, where: str) -> dict[str, Any]:
    """The parts of a data set by their names, as `Arrays.check` has them."""
    if _is_frame(value):
        return _split_frame(value, None, None, None)
    if isinstance(value, Mapping):
        return dict(value)
    if _is_examples(value):
        return dict(zip(PARTS, _read_examples(value, where), strict=False))
    if isinstance(value, tuple | list) and value and all(map(_is_examples, value)):
        some = [part for one in value for part in _read_examples(one, where)]
        return dict(zip(PARTS, some, strict=False))
    if isinstance(value, tuple | list) and len(value) in (2, len(PARTS)):
        return dict(zip(PARTS, value, strict=False))
    raise DataError(
        f"{where} must be (x, y), (x_train, y_train, x_test, y_test), a dictionary of these, a "
        f"DataFrame or a torch Dataset, got {short(value)}"
    )


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "iloc")


def _is_examples(value: Any) -> bool:
    """Whether it is like a torch Dataset: examples by number, but not an array or a list."""
    known = (tuple, list, str, bytes, Mapping)
    indexed = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    return indexed and not isinstance(value, known) and not hasattr(value, "__array__")


def _read_examples(value: Any, where: str) -> tuple[Anything, Anything]:
    """All pairs of a torch Dataset, stacked."""
    try:
        pairs = [value[number] for number in range(len(value))]
        xs, ys = zip(*((pair[0], pair[1]) for pair in pairs), strict=True)
        return np.stack([_as_array(x) for x in xs]), np.stack([_as_array(y) for y in ys])
    except Exception as error:
        pass_on(error)
        raise DataError(
            f"{where}: the data set must give a pair (x, y) for each number from 0 to "
            f"{len(value) - 1}: {describe_error(error, value)}"
        ) from error


def _as_array(value: Any) -> Anything:
    """An array; of a tensor on another device, or with a gradient, too."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    found = np.asarray(value)
    return found.astype(np.float32) if found.dtype.kind == "b" else found


def _repair_targets(parts: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Targets as class numbers from 0 without holes, or as they are if they are real numbers."""
    names = [name for name in ("y_train", "y_test") if name in parts]
    targets = [np.asarray(parts[name]) for name in names]
    if not targets or any(one.dtype.kind == "f" for one in targets):
        return parts
    if any(one.ndim == 2 and one.shape[1] == 1 for one in targets):
        notes.append("targets of shape (N, 1) are taken as (N,)")
        targets = [one.reshape(len(one)) for one in targets]
    if "classes" in parts or any(one.ndim != 1 for one in targets):
        return parts | dict(zip(names, targets, strict=True))
    found = np.unique(np.concatenate([one.astype(str) if one.dtype.kind in "OSU" else one
                                      for one in targets]))  # fmt: skip
    if found.dtype.kind in "iu" and found.min() == 0 and found.max() == len(found) - 1:
        return parts | dict(zip(names, targets, strict=True))
    if found.dtype.kind == "U" and len(found) > 1:
        notes.append(f"classes are numbered in this order: {_list(found)}")
    elif found.dtype.kind in "iu":
        notes.append(f"the labels {_list(found)} are renumbered 0 to {len(found) - 1}")
    targets = [
        np.searchsorted(found, one.astype(str) if one.dtype.kind in "OSU" else one)
        for one in targets
    ]
    return parts | dict(zip(names, targets, strict=True)) | {"classes": [str(v) for v in found]}


def _list(values: Anything) -> str:
    few = [str(value) for value in values[:6]]
    return ", ".join(few) if len(values) <= 6 else f"{', '.join(few)}, ... {values[-1]}"


def _hold_out(parts: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """Set a share of the examples aside for the test split, at random with a fixed seed."""
    total = len(parts["x_train"])
    count = round(total * HELD_OUT)
    if total != len(parts["y_train"]) or count < 1 or count == total:
        raise DataError(
            f"{where} must have as many targets as examples, at least 3, or a test split, "
            f"got {len(parts['y_train'])} and {total}"
        )
    order = stream(0, "held out", total).permutation(total)
    train, test = np.sort(order[count:]), np.sort(order[:count])
    notes.append(
        f"no test data was given; {count:,} of {total:,} examples, drawn at random with a fixed "
        "seed, are set aside as the test split"
    )
    made = dict(parts)
    for letter in "xy":
        both = np.asarray(parts[f"{letter}_train"])
        made |= {f"{letter}_train": both[train], f"{letter}_test": both[test]}
    if parts.get("groups") is not None:
        made["groups"] = np.asarray(parts["groups"])[train]
    return made


def _split_frame(
    frame: Any, target: str | Sequence[str] | None, client: str | None, test: Any
) -> dict[str, Any]:
    """Features, targets and clients of a DataFrame."""
    wanted = [target] if isinstance(target, str) else list(target or _guess_target(frame))
    for name in [*wanted, *([client] if client else [])]:
        if name not in frame.columns:
            raise DataError(
                f"the table has no column {name!r}; {did_you_mean(name, map(str, frame.columns))}"
            )
    features = [name for name in frame.columns if name not in (*wanted, client)]
    parts = {"x_train": _numbers(frame, features), "y_train": _targets(frame, wanted)}
    if test is not None:
        parts |= {"x_test": _numbers(test, features), "y_test": _targets(test, wanted)}
    if client is not None:
        parts["groups"] = np.unique(frame[client].astype(str), return_inverse=True)[1]
    return parts


def _guess_target(frame: Any) -> list[str]:
    found = [str(name) for name in frame.columns if str(name).lower() in TARGETS]
    if len(found) != 1:
        raise DataError(
            "say which column of the table is the target: "
            'mmfl.from_frame(frame, target="...", client="...")'
        )
    return found


def _numbers(frame: Any, names: Sequence[Any]) -> Anything:
    """Columns of features as float32."""
    columns = []
    for name in names:
        if name not in frame.columns:
            raise DataError(f"the test table has no column {str(name)!r}")
        column = frame[name]
        try:
            numbers = np.asarray(column, np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"column {str(name)!r} holds {short(column.iloc[0])}, not numbers; leave it out, "
                "or encode it, e.g. with pandas.get_dummies"
            ) from None
        missing = int(np.isnan(numbers).sum())
        if missing:
            raise DataError(
                f"column {str(name)!r} has {plural(missing, 'missing value')}; fill or drop these "
                "rows, e.g. with frame.fillna or frame.dropna"
            )
        columns.append(numbers.astype(np.float32))
    if not columns:
        raise DataError("the table has no feature columns")
    return np.stack(columns, axis=1)


def _targets(frame: Any, names: Sequence[str]) -> Anything:
    if len(names) > 1:
        return _numbers(frame, names)
    found = np.asarray(frame[names[0]])
    if found.dtype.kind == "b":
        return found.astype(np.int64)
    return found.astype(str) if found.dtype.kind in "OSU" else found
