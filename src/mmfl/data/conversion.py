"""Convert the data that people have in their programs to `Arrays`.

    to_arrays       arrays, (x, y), four arrays, a dictionary, a torch Dataset or a pandas DataFrame
    from_frame      a DataFrame, with a column for the target and one for the client
    from_hugging_face   the same of a Hugging Face `Dataset`

What can be repaired without a guess is repaired, and said; everything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.arrays import PARTS, Arrays, join_clients
from mmfl.data.hugging_face import is_hugging_face, read_hugging_face
from mmfl.data.tables import Advice, Encoder, Roles, read_frame
from mmfl.data.targets import repair_targets
from mmfl.errors import DataError, text_of
from mmfl.rng import stream
from mmfl.system.user_code import describe_error, pass_on, warn_user

__all__ = ["from_frame", "from_hugging_face", "is_channels_first", "to_arrays"]

Anything = npt.NDArray[Any]

_ADVICE = Advice(
    target=('say which column is the target: mmfl.from_frame(frame, target="...", client="...")'),
    missing='fill them (frame.fillna), or drop such rows: mmfl.from_frame(..., missing="drop")',
    text='encode the column, or leave it out: mmfl.from_frame(..., ignore=["..."])',
    mixed='correct it, or leave the column out: mmfl.from_frame(..., ignore=["..."])',
    targets='set targets = "classes" or targets = "numbers"',
)

_CHANNELS = 4
"""The most channels that images have: red, green, blue, and transparency."""

HELD_OUT = 0.2
"""Share of the examples that are set aside for the test split if none is given."""


def to_arrays(value: Any, where: str) -> tuple[Arrays, list[str]]:
    """Checked arrays, and a sentence for each thing that was repaired.

    Args:
        value: `Arrays`; (x, y); (x_train, y_train, x_test, y_test); a dictionary as
            `Arrays.check` takes it, where the test split may be missing; a torch Dataset of pairs,
            or two of them (training, test); a DataFrame, see `from_frame`; a Hugging Face Dataset.
        where: What the data is called in messages.
    """
    if isinstance(value, Arrays):
        return Arrays.check(where, value.to_parts()), []
    notes: list[str] = []
    parts = join_clients(where, _name_parts(value, where, notes))
    parts = {
        name: _as_array(part, f"{where}: {name}") if name in PARTS else part
        for name, part in parts.items()
    }
    for name, part in parts.items():
        if name in PARTS and part.ndim == 0:
            raise DataError(f"{where}: {name} must have a row for each example, got {short(part)}")
    parts = repair_targets(parts, where, notes)
    parts = _put_channels_last(parts, where, notes)
    if "x_test" not in parts and "y_test" not in parts and {"x_train", "y_train"} <= parts.keys():
        parts = _hold_out(parts, where, notes)
    return Arrays.check(where, parts), notes


def from_frame(
    frame: Any,
    *,
    target: str | Sequence[str] | None = None,
    client: str | None = None,
    test: Any = None,
    targets: Literal["auto", "classes", "numbers"] = "auto",
    ignore: str | Sequence[str] = (),
    categories: str | Sequence[str] = (),
    missing: Literal["refuse", "drop"] = "refuse",
) -> Arrays:
    """A data set from a pandas DataFrame: one row per example.

    All other columns are features. A column of text becomes one column of 0 and 1 for each of its
    values.

    Args:
        frame: The DataFrame.
        target: The column of targets, or several columns of real numbers. By default the one that
            is called target, label, class or y.
        client: The column that says who holds a row; each value becomes a client, in sorted order.
        test: A DataFrame with the same columns, for the test split; by default a fifth of the
            rows, drawn at random with a fixed seed.
        targets: Whether the targets are "classes" or "numbers"; by default text, truth values and
            whole numbers are classes.
        ignore: Columns that are not used.
        categories: Columns of numbers to treat as text.
        missing: Whether to "refuse" missing values, or to "drop" rows that have some.
    """
    notes: list[str] = []
    _check_word("targets", targets, "auto", "classes", "numbers")
    _check_word("missing", missing, "refuse", "drop")
    roles = Roles(
        _list_names(target),
        None if client is None else str(client),
        _list_names(ignore),
        _list_names(categories),
        targets,
        missing,
    )
    parts = _encode_frames(frame, test, roles, "the table", notes)
    arrays, more = to_arrays(parts, "the table")
    for note in [*notes, *more]:
        warn_user(f"the table: {note}")
    return arrays


def from_hugging_face(
    dataset: Any,
    *,
    target: str | Sequence[str] | None = None,
    client: str | None = None,
    test: Any = None,
    targets: Literal["auto", "classes", "numbers"] = "auto",
) -> Arrays:
    """A data set from a `Dataset` of Hugging Face's library, or a `DatasetDict`.

    All other columns are features, as those of a table; or there is one, of images or of lists of
    equal length.

    Args:
        dataset: A `Dataset`, or a `DatasetDict` with the splits train and test.
        target: The column of targets, or several columns of real numbers. By default the one that
            is called target, label, class or y.
        client: The column that says who holds a row; each value becomes a client, in sorted order.
        test: A `Dataset` with the same columns, for the test split; by default that of the
            `DatasetDict`, or a fifth of the rows, drawn at random with a fixed seed.
        targets: Whether the targets are "classes" or "numbers"; by default text, truth values and
            whole numbers are classes.
    """
    if not is_hugging_face(dataset):
        raise DataError(f"the data set must be one of Hugging Face's library, got {short(dataset)}")
    notes: list[str] = []
    _check_word("targets", targets, "auto", "classes", "numbers")
    roles = Roles(_list_names(target), client, targets=targets)
    parts = read_hugging_face(dataset, test, roles, "the data set", notes)
    arrays, more = to_arrays(parts, "the data set")
    for note in [*notes, *more]:
        warn_user(f"the data set: {note}")
    return arrays


def _check_word(key: str, value: object, *known: str) -> None:
    if value not in known:
        raise DataError(f"{key} must be one of {', '.join(map(repr, known))}, got {short(value)}")


def _list_names(names: Any) -> tuple[str, ...]:
    """Names of columns, given as one or as several; those of a frame may be numbers."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        return () if names is None else (str(names),)
    return tuple(map(str, names))


def _encode_frames(
    frame: Any, test: Any, roles: Roles, where: str, notes: list[str]
) -> dict[str, Any]:
    """The parts of a data set in DataFrames; adds to the notes."""
    encoder = Encoder(roles, _ADVICE)
    tables = [read_frame(frame, where)]
    if test is not None:
        tables.append(read_frame(test, "the test table"))
    parts = encoder.encode(*tables)
    notes += encoder.notes
    return parts


def _name_parts(value: Any, where: str, notes: list[str]) -> dict[str, Any]:
    """The parts of a data set by their names, as `Arrays.check` has them."""
    if is_hugging_face(value):
        return read_hugging_face(value, None, Roles(), where, notes)
    if _is_frame(value):
        return _encode_frames(value, None, Roles(), where, notes)
    if isinstance(value, Mapping):
        return _name_splits(value, where, notes) if "train" in value else dict(value)
    if _is_examples(value):
        return dict(zip(PARTS, _read_examples(value, where), strict=False))
    if isinstance(value, tuple | list) and value and all(map(_is_examples, value)):
        some = [part for one in value for part in _read_examples(one, where)]
        return dict(zip(PARTS, some, strict=False))
    if isinstance(value, tuple | list) and len(value) in (2, len(PARTS)):
        return dict(zip(PARTS, value, strict=False))
    hint = ""
    if isinstance(value, str | PathLike):
        hint = "; name a file with dataset={'kind': 'csv', 'path': ...}"
    elif _is_examples(getattr(value, "dataset", None)):
        hint = "; pass its dataset"
    elif hasattr(value, "to_pandas"):
        hint = "; pass its to_pandas()"
    elif isinstance(value, Iterable) and not isinstance(value, tuple):
        hint = "; stack its examples, as in x = np.stack([x for x, y in data])"
    raise DataError(
        f"{where} must be (x, y), (x_train, y_train, x_test, y_test), a dictionary of these, a "
        f"DataFrame, a torch Dataset or a Hugging Face Dataset, got {short(value)}{hint}"
    )


def _name_splits(value: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """The parts of a dictionary with the keys train and test."""
    made: dict[str, Any] = {}
    for split, given in value.items():
        parts = _name_parts(given, f"{where}: {split}", notes)
        if split not in ("train", "test") or parts.keys() != {"x_train", "y_train"}:
            raise DataError(
                f"{where} must have the keys train and test, each (x, y) or a torch Dataset, or "
                f"the keys {', '.join(PARTS)}, got the keys {', '.join(map(str, value))}"
            )
        made |= {f"{letter}_{split}": parts[f"{letter}_train"] for letter in "xy"}
    return made


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "iloc")


def _is_examples(value: Any) -> bool:
    """Whether it is like a torch Dataset: examples by number, but not an array or a list."""
    known = (tuple, list, str, bytes, Mapping)
    indexed = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    return indexed and not isinstance(value, known) and not hasattr(value, "__array__")


def _read_examples(value: Any, where: str) -> tuple[Anything, Anything]:
    """All pairs of a torch Dataset, stacked."""
    rule = f"{where}: the data set must give a pair (x, y)"
    try:
        pairs = [value[number] for number in range(len(value))]
        odd = next((pair for pair in pairs if isinstance(pair, Mapping) or len(pair) != 2), None)
        if odd is None:
            xs, ys = zip(*pairs, strict=True)
            x, y = ([_as_array(one, name) for one in some] for name, some in (("x", xs), ("y", ys)))
            return np.stack(x), np.stack(y)
    except BaseException as error:
        pass_on(error)
        raise DataError(
            f"{rule} for each number from 0 to {len(value) - 1}: {describe_error(error, value)}"
        ) from error
    got = f"{len(odd)} values"
    if isinstance(odd, Mapping):
        got = f"a dictionary with the keys {', '.join(map(str, odd))}"
    raise DataError(f"{rule}, got {got}; wrap it in one whose __getitem__ does")


def _as_array(value: Any, where: str) -> Anything:
    """An array; of a tensor on another device, or with a gradient, too."""
    if hasattr(value, "toarray"):
        raise DataError(f"{where} is a sparse matrix; pass its toarray()")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DataError(f"{where} has masked values; fill them, or leave out these examples")
    try:
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            value = value.detach().cpu()
        found = np.asarray(value)
        if found.dtype.kind == "O" and found.ndim:
            found = _narrow(found)
    except BaseException as error:
        pass_on(error)
        raise DataError(f"{where} cannot be converted to an array: {text_of(error)}") from error
    return found


def _narrow(found: Anything) -> Anything:
    """An array of objects as one of numbers, if that is what they are."""
    if found.ndim > 1:  # of a table whose columns differ
        return found.astype(np.float64)
    types = set(map(type, found.tolist()))
    if types <= {bool} or types <= {int}:
        return np.array(found.tolist())
    return found.astype(np.float64) if types <= {int, float} else found


def _put_channels_last(parts: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """Images and volumes as `Arrays` has them, if they are as torch has them.

    Whole numbers other than bytes are tokens, which a network gets as they are.
    """
    names = [name for name in ("x_train", "x_test") if name in parts]
    sizes = {parts[name].shape[1:] for name in names}
    kinds = {parts[name].dtype for name in names}
    if len(sizes) != 1 or any(kind.kind in "iu" and kind != np.uint8 for kind in kinds):
        return parts
    (size,) = sizes
    if not is_channels_first(size):
        return parts
    letters = " x ".join("NCHW" if len(size) == 3 else "NCDHW")
    notes.append(f"its examples are taken as {letters}, as torch has images")
    return parts | {name: np.moveaxis(parts[name], 1, -1) for name in names}


def is_channels_first(size: Sequence[int]) -> bool:
    """Whether examples of this shape are images or volumes as torch has them.

    Their first dimension is 1 or 3, and the last one is too large for channels. An image that is 1
    or 3 pixels high and has so many channels is not to be expected.
    """
    return len(size) in (3, 4) and size[0] in (1, 3) and size[-1] > _CHANNELS


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
