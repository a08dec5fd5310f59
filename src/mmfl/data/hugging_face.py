"""Data sets of the Hugging Face library `datasets`, which is not imported: they are recognised.

Columns are used as those of a table; or one column of images, or of lists of equal length, is what
a model sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.pictures import match_channels, read_pixels, stack
from mmfl.data.tables import Advice, Column, Encoder, Roles, Table, number_clients, read_arrow
from mmfl.errors import DataError, MmflError
from mmfl.system.user_code import describe_error, pass_on

__all__ = ["ADVICE", "is_hugging_face", "read_hugging_face"]

Anything = npt.NDArray[Any]

ADVICE = Advice(
    target=(
        "say which column is the target: "
        'mmfl.from_hugging_face(dataset, target="...", client="...")'
    ),
    missing="leave out such rows with dataset.filter, or fill them with dataset.map",
    text="encode it with dataset.map, or leave it out with dataset.remove_columns",
    mixed="correct it with dataset.map",
    targets='set targets = "classes" or targets = "numbers"',
)

_UNLABELLED = -1
"""The label of examples without one, in this library."""


def is_hugging_face(value: Any) -> bool:
    """Whether it is a data set of that library, or several by split."""
    names = {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(value).__mro__}
    return any(
        f"datasets.{name}" in names
        for name in ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    )


def read_hugging_face(
    value: Any, test: Any, roles: Roles, where: str, notes: list[str]
) -> dict[str, Any]:
    """The parts of a data set, as `Arrays.check` takes them; adds to the notes.

    Args:
        value: A `Dataset`, or a `DatasetDict` with the splits train and test (or validation).
        test: Another `Dataset` for the test split; None = there is none.
        roles: Which column is what.
        where: What it is called in messages.
        notes: A sentence for each thing that was repaired.
    """
    try:
        return _read(_find_splits(value, test, where, notes), roles, where, notes)
    except MmflError:
        raise
    except Exception as error:  # that library decodes images, and calls functions of the user's
        pass_on(error)
        raise DataError(f"{where} cannot be read: {describe_error(error)}") from error


def _read(splits: Mapping[str, Any], roles: Roles, where: str, notes: list[str]) -> dict[str, Any]:
    """The same, of splits by what to add to their name."""
    tables = [_read_scalars(split, f"{where}{name}") for name, split in splits.items()]
    encoder = Encoder(roles, ADVICE)
    targets = encoder.find_targets(tables[0])
    client = [] if roles.client is None else [roles.client]
    names = [name for name in tables[0].columns if name not in (*targets, *client)]
    if not names:
        raise DataError(f"{where} has no feature columns")
    for table in tables[1:]:
        for name in (*names, *targets):
            if name not in table.columns:
                raise DataError(f"{table.where} has no column {short(name)}")
    whole = [name for name in names if tables[0].columns[name].kind]
    if whole and len(names) > 1:
        other = next(name for name in names if name != whole[0])
        raise DataError(
            f"{where}: column {short(whole[0])} holds {tables[0].columns[whole[0]].kind}, which "
            f"cannot be features together with column {short(other)}; choose columns with "
            "dataset.select_columns"
        )
    used = [*targets, *([] if whole else names)]
    tables = [
        encoder.drop_rows(table, [*used, *(client if place == 0 else [])])
        for place, table in enumerate(tables)
    ]
    parts = _encode_targets(encoder, list(splits.values()), tables, targets)
    if whole:
        xs: Sequence[Anything] = [
            _read_whole(split, whole[0], f"{table.where}: column {short(whole[0])}")
            for split, table in zip(splits.values(), tables, strict=True)
        ]
        if len(xs) == 2 and tables[0].columns[whole[0]].kind == "images":
            xs = match_channels(xs[0], xs[1])
    else:
        words = encoder.find_words(tables, names)
        xs = encoder.encode_features(tables, words)
        parts["features"] = list(words.items())
    parts |= dict(zip(("x_train", "x_test"), xs, strict=False))
    if client:
        parts |= number_clients(tables[0], client[0])
    notes += encoder.notes
    return parts


def _find_splits(value: Any, test: Any, where: str, notes: list[str]) -> dict[str, Any]:
    """The training data and, if there is any, the test data, by what to add to their name."""
    if isinstance(value, Mapping):
        if "train" not in value:
            raise DataError(f"{where} has no split 'train', only {', '.join(map(short, value))}")
        named = next((name for name in ("test", "validation") if name in value), None)
        if test is None and named == "validation":
            notes.append("the split 'validation' is used as the test split")
        unused = [short(name) for name in value if name not in ("train", named)]
        if unused:
            notes.append(f"not used: the splits {', '.join(unused)}")
        splits = {" (train)": value["train"]}
        if test is None and named is not None:
            splits |= {f" ({named})": value[named]}
    else:
        splits = {"": value}
    if test is not None:
        splits |= {" (test)": test}
    for name, split in splits.items():
        if not hasattr(split, "with_format") or not hasattr(split, "__len__"):
            raise DataError(f"{where}{name} is a stream; load it with streaming=False")
        if split.format["type"] == "custom":
            raise DataError(f"{where}{name} has a transform; apply it with dataset.map instead")
        if not len(split):
            raise DataError(f"{where}{name} has no rows")
    return splits


def _names(split: Any) -> list[str]:
    """The columns that the user sees."""
    return list(split.format["columns"])


def _read_scalars(split: Any, where: str) -> Table:
    """A table of all columns; those of images and lists only say what they are."""
    rows = len(split)
    features = {name: split.features[name] for name in _names(split)}
    nothing = np.zeros(rows), np.zeros(rows, bool)
    columns = {
        name: Column(*nothing, kind=_name_kind(feature)) for name, feature in features.items()
    }
    plain = [name for name, column in columns.items() if not column.kind]
    if plain:
        read = read_arrow(split.select_columns(plain).with_format("arrow")[:], where).columns
        columns |= {name: _name_classes(read[name], features[name]) for name in plain}
    return Table(where, columns, rows)


def _name_kind(feature: Any) -> str:
    """What a column holds, if that is not one value for each row."""
    name = type(feature).__name__
    if name in ("Value", "ClassLabel"):
        return ""
    if name == "Image":
        return "images"
    if name in ("List", "LargeList", "Sequence", "list") or name.startswith("Array"):
        return "lists"
    return f"values of type {name}"


def _name_classes(column: Column, feature: Any) -> Column:
    """A column of class numbers as words, if these have names; -1 is missing."""
    if type(feature).__name__ != "ClassLabel" or column.words is not None:
        return column
    missing = column.missing | (column.values == _UNLABELLED)
    return Column(np.where(missing, -1, column.values), missing, tuple(feature.names))


def _encode_targets(
    encoder: Encoder, splits: Sequence[Any], tables: Sequence[Table], names: tuple[str, ...]
) -> dict[str, Any]:
    """The targets: classes by their own numbers, lists as they are, anything else as of a table."""
    parts = ("y_train", "y_test")
    columns = [table.columns[names[0]] for table in tables]
    features = [split.features[names[0]] for split in splits]
    if len(names) == 1 and type(features[0]).__name__ == "ClassLabel":
        known = list(features[0].names)
        if any(list(getattr(feature, "names", [])) != known for feature in features):
            raise DataError(
                f"{tables[0].where}: the classes of column {short(names[0])} differ between splits"
            )
        return dict(zip(parts, (one.values for one in columns), strict=False)) | {"classes": known}
    if len(names) == 1 and columns[0].kind == "lists":
        found = [
            _read_whole(split, names[0], f"{table.where}: column {short(names[0])}")
            for split, table in zip(splits, tables, strict=True)
        ]
        return dict(zip(parts, found, strict=False))
    return encoder.encode_targets(tables, names)


def _read_whole(split: Any, name: str, where: str) -> Anything:
    """All of a column of images or lists, as one array."""
    alone = split.select_columns([name])
    if type(split.features[name]).__name__ == "Image":
        pictures = [
            read_pixels(row[name], f"{where}: the image of row {number}")
            for number, row in enumerate(alone.with_format(None))
        ]
        sizes = {pixels.shape[:2] for pixels in pictures}
        if len(sizes) > 1:
            one, other = (f"{h} x {w}" for h, w in sorted(sizes)[:2])
            raise DataError(
                f"{where} holds images of different sizes, such as {one} and {other}; resize them "
                "with dataset.map"
            )
        return stack(pictures)
    found = np.asarray(alone.with_format("numpy")[:][name])
    if found.dtype.kind not in "biuf" or found.ndim < 2:
        raise DataError(
            f"{where} must hold lists of numbers, all of the same length; pad or cut them with "
            "dataset.map"
        )
    return found.astype(np.uint8) if _is_bytes(split.features[name]) else found


def _is_bytes(feature: Any) -> bool:
    """Whether a column of lists holds bytes, which that library reads as int64."""
    while not hasattr(feature, "dtype") or feature.dtype in ("list", "large_list"):
        inner = getattr(feature, "feature", None)
        if inner is None:
            return False
        feature = inner
    return str(feature.dtype) == "uint8"
