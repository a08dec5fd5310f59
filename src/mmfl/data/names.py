"""What classes and features are called: kept with a data set, so that a model can say it too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.tables.columns import Column, Table
from mmfl.errors import DataError

__all__ = ["ClassNames", "Feature", "encode_features", "find_class_names", "read_features"]

ClassNames = tuple[str | int | bool, ...]


class Feature(NamedTuple):
    """A column of a table that a model gets.

    Attributes:
        name: What the column is called.
        values: Its values, if each of them becomes a column of 0 and 1; None = it holds numbers.
    """

    name: str
    values: tuple[str, ...] | None = None


def find_class_names(given: Any) -> ClassNames | None:
    """What the classes are called; None if only their number is given.

    Args:
        given: A number, a list of names, or a word with a letter for each; None = nothing.
    """
    names = np.asarray(given)
    if given is None or (names.ndim == 0 and names.dtype.kind in "iu"):
        return None
    if names.ndim == 0:
        return tuple(str(names))
    return tuple(names.tolist() if names.dtype.kind in "biuU" else map(str, names.tolist()))


def read_features(where: str, given: Any, shape: tuple[int, ...]) -> tuple[Feature, ...] | None:
    """The columns of a table, as they were given; None if nothing was.

    Args:
        where: What the data is called in messages.
        given: A name for each feature, or a name and the values that become columns of 0 and 1.
        shape: That of an example.
    """
    if given is None:
        return None
    try:
        features = tuple(
            Feature(one) if isinstance(one, str) else Feature(str(one[0]), _words(one[1]))
            for one in given
        )
    except (TypeError, IndexError, KeyError):
        raise DataError(f"{where}: features must be a list of names, got {short(given)}") from None
    width = sum(1 if one.values is None else len(one.values) for one in features)
    if shape != (width,):
        raise DataError(
            f"{where}: features must name each of the {shape[0]} features of an example, "
            f"got {width} names"
        )
    return features


def _words(values: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(map(str, values))


def encode_features(table: Table, features: Sequence[Feature]) -> npt.NDArray[np.float32]:
    """The rows of a table as a model gets them: the columns that it was trained with, by name."""
    parts = [_encode(table, feature) for feature in features]
    return np.concatenate(parts, axis=1)


def _encode(table: Table, feature: Feature) -> npt.NDArray[np.float32]:
    """A column of numbers, or a column of 0 and 1 for each of its values."""
    called = f"column {short(feature.name)}"
    if feature.name not in table.columns:
        raise DataError(f"{table.where} has no {called}, which the model was trained with")
    column = table.columns[feature.name]
    if column.missing.any():
        row = table.place(int(column.missing.argmax()))
        raise DataError(f"{table.where}: {called} has a missing value in {row}")
    if feature.values is None:
        return _read_numbers(table, column, called)
    texts = column.texts
    known = {value: place for place, value in enumerate(feature.values)}
    places = np.array([known.get(word, -1) for word in texts.words or ()], np.int64)
    if (places < 0).any():
        word = (texts.words or ())[int((places < 0).argmax())]
        few = ", ".join(map(repr, feature.values[:6])) + ", ..." * (len(known) > 6)
        raise DataError(
            f"{table.where}: {called} holds {short(word)}, which the training data did not have "
            f"(it had {few})"
        )
    made = np.zeros((table.rows, len(known)), np.float32)
    made[np.arange(table.rows), places[texts.values]] = 1
    return made


def _read_numbers(table: Table, column: Column, called: str) -> npt.NDArray[np.float32]:
    parsed = column.parsed
    if parsed.words is not None or parsed.kind:
        held = parsed.kind or short((parsed.words or ("",))[0])
        raise DataError(f"{table.where}: {called} must hold numbers, got {held}")
    return parsed.values.astype(np.float32)[:, None]
