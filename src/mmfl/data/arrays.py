"""A data set in memory, and the rules that it must obey, wherever it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.config import short
from mmfl.data.names import ClassNames, Feature, find_class_names, read_features
from mmfl.errors import DataError, did_you_mean
from mmfl.exchange import Shape
from mmfl.system.user_code import pass_on

__all__ = ["PARTS", "Arrays", "Examples", "content_hash", "join_clients"]

Ints = npt.NDArray[np.int64]
PARTS = ("x_train", "y_train", "x_test", "y_test")
_KEYS = (*PARTS, "classes", "groups", "group_names", "features")


@dataclass(frozen=True, eq=False)
class Arrays:
    """A data set: examples by row, and the target of each.

    Attributes:
        x_train: Training examples: N x features, N x H x W, N x H x W x C, N x D x H x W x C
            (bytes, real numbers, or whole numbers such as tokens).
        y_train: Their targets: int64 class numbers, or float32 real numbers (N, or N x width).
        x_test: Test examples.
        y_test: Their targets.
        classes: How many classes there are; None for real targets.
        groups: (N) int64: to which group (a person, a hospital) each training example belongs; the
            partition `by_group` makes each group a client. None = there are none.
        group_names: What the groups are called, by number; None = they have no names. Groups of
            the same name are the same client in every task.
        class_names: What the classes are called; None = nothing.
        features: The columns of the table that the examples are the rows of; None = not known.
        series: Whether a user's own network gets examples of N x T x F as they are. Other models
            take them as images of one channel, or as series anyway.
    """

    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[Any]
    x_test: npt.NDArray[Any]
    y_test: npt.NDArray[Any]
    classes: int | None
    groups: Ints | None = None
    group_names: tuple[str, ...] | None = None
    class_names: ClassNames | None = None
    features: tuple[Feature, ...] | None = None
    series: bool = False

    @property
    def shape(self) -> Shape:
        """An example's shape as a built-in model sees it: (features,), (channels, height, width).

        Whole numbers, such as tokens, are seen as they are.
        """
        return self._shape_of(series=False)

    @property
    def own_shape(self) -> Shape:
        """An example's shape as a user's own network sees it."""
        return self._shape_of(series=self.series)

    def _shape_of(self, *, series: bool) -> Shape:
        sizes = self.x_train.shape[1:]
        if len(sizes) > 1 and self.x_train.dtype != np.int64 and not series:
            sizes = (1, *sizes) if len(sizes) == 2 else (sizes[-1], *sizes[:-1])
        places = () if self.classes is None else self.y_train.shape[1:]
        return Shape(sizes, vocabulary=self.vocabulary, places=places)

    @cached_property
    def vocabulary(self) -> int | None:
        """How many tokens there are, if examples are whole numbers and none is negative."""
        parts = self.x_train, self.x_test
        if self.x_train.dtype != np.int64 or any(part.min() < 0 for part in parts):
            return None
        return max(int(part.max()) for part in parts) + 1

    @property
    def outputs(self) -> int:
        """How many numbers a model gives per example: one per class, or one per real target."""
        if self.classes is not None:
            return self.classes
        return int(np.prod(self.y_train.shape[1:]))

    def to_parts(self) -> dict[str, Any]:
        """The named parts that `check` makes an equal data set of."""
        parts = {name: getattr(self, name) for name in _KEYS}
        if self.class_names is not None:
            parts["classes"] = self.class_names
        return {name: value for name, value in parts.items() if value is not None}

    def read_only(self) -> Arrays:
        """The same data set with read-only arrays."""
        views = {name: getattr(self, name).view() for name in PARTS}
        for view in views.values():
            view.flags.writeable = False
        return replace(self, **views)

    def examples(self, rows: Ints) -> Examples:
        """What a partition may know about these training rows."""
        labels = self.y_train[rows] if self.classes is not None and self.y_train.ndim == 1 else None
        groups = None if self.groups is None else self.groups[rows]
        return Examples(rows, labels, groups, len(self.y_train))

    @classmethod
    def check(cls, where: str, parts: Mapping[str, Any]) -> Arrays:
        """Arrays from named parts, or `DataError` with the first rule that is broken.

        Args:
            where: What the data is called in messages.
            parts: x_train, y_train, x_test, y_test; optionally `classes` (their number, their
                names, or a word with a letter for each), `groups`, `group_names` and `features` (a
                name for each, or a name and the values that became columns). Instead of x_train and
                y_train, `clients`: a list of one pair (x, y) per client.
        """
        parts = join_clients(where, parts)
        for name in parts:
            if name not in _KEYS:
                hint = did_you_mean(str(name), (*_KEYS, "clients"))
                raise DataError(f"{where} has an unknown key {name!r}; {hint}")
        for name in PARTS:
            if name not in parts:
                raise DataError(f"{where} has no array {name!r}")
        x_train, y_train, x_test, y_test = (_array(where, name, parts[name]) for name in PARTS)
        for part, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
            _check(where, part, x, y)
        for kind, one, other in (("x", x_train, x_test), ("y", y_train, y_test)):
            if one.shape[1:] != other.shape[1:]:
                raise DataError(
                    f"{where}: {kind}_train and {kind}_test must have examples of the same shape, "
                    f"got {one.shape[1:]} and {other.shape[1:]}"
                )
        if _kind(x_train) != _kind(x_test):
            raise DataError(
                f"{where}: x_train and x_test must both be bytes, both real or both whole numbers, "
                f"got {x_train.dtype} and {x_test.dtype}"
            )
        real = y_train.dtype.kind == "f"
        if real != (y_test.dtype.kind == "f"):
            raise DataError(
                f"{where}: y_train and y_test must both be class numbers or both real numbers, "
                f"got {y_train.dtype} and {y_test.dtype}"
            )
        classes = None if real else _classes(where, parts.get("classes"), y_train, y_test)
        target: npt.DTypeLike = np.float32 if real else np.int64
        groups = _groups(where, parts.get("groups"), len(x_train))
        return cls(
            _plain(x_train),
            np.ascontiguousarray(y_train, target),
            _plain(x_test),
            np.ascontiguousarray(y_test, target),
            classes,
            groups,
            _group_names(where, parts.get("group_names"), groups),
            None if real else find_class_names(parts.get("classes")),
            read_features(where, parts.get("features"), x_train.shape[1:]),
        )


@dataclass(frozen=True, eq=False)
class Examples:
    """What a partition may know about the examples that it distributes.

    Attributes:
        rows: Their numbers in the training data, ascending.
        labels: Their classes; None for real targets.
        groups: Their groups; None if the data has none.
        total: How many rows the training data has, the server's included; None = just these.
    """

    rows: Ints
    labels: Ints | None
    groups: Ints | None = None
    total: int | None = None

    @classmethod
    def of(cls, labels: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Examples:
        """Examples with these labels, numbered from 0."""
        classes = np.asarray(labels, np.int64)
        own = None if groups is None else np.asarray(groups, np.int64)
        return cls(np.arange(len(classes)), classes, own)

    def __len__(self) -> int:
        return len(self.rows)

    def classes(self, kind: str) -> Ints:
        """The labels, for a partition that needs them."""
        if self.labels is None:
            raise DataError(f"a {kind} partition needs one class number per example; use iid")
        return self.labels


def content_hash(arrays: Arrays) -> str:
    """SHA-256 of a data set's content, whatever file it came from.

    For each of x_train, y_train, x_test, y_test (and groups, if there are any), in this order: the
    line ``name dtype shape`` with a newline, e.g. ``x_train |u1 60000 28 28``, then the array's
    bytes, row by row, little-endian. The arrays are those of `Arrays.check`: class numbers are
    ``<i8``, real numbers ``<f4``. If the groups have names, the line ``group_names`` and a JSON
    list of them follow.
    """
    digest = hashlib.sha256()
    for name in (*PARTS, "groups"):
        array = getattr(arrays, name)
        if array is None:
            continue
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        head = " ".join([name, plain.dtype.str, *map(str, plain.shape)])
        digest.update(head.encode() + b"\n")
        digest.update(plain.data)
    if arrays.group_names is not None:
        digest.update(b"group_names\n" + json.dumps(arrays.group_names).encode())
    return digest.hexdigest()


def join_clients(where: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Per-client pairs as one array with groups."""
    parts = dict(parts)
    if "clients" not in parts:
        return parts
    clients = parts.pop("clients")
    for name in ("x_train", "y_train", "groups"):
        if name in parts:
            raise DataError(f"{where} has both clients and {name!r}; give one of them")
    pairs = isinstance(clients, Sequence) and len(clients) > 0
    if not pairs or not all(isinstance(c, Sequence) and len(c) == 2 for c in clients):
        raise DataError(f"{where}: clients must be a list of pairs (x, y), got {short(clients)}")
    xs = [_array(where, f"x of client {k}", pair[0]) for k, pair in enumerate(clients)]
    ys = [_array(where, f"y of client {k}", pair[1]) for k, pair in enumerate(clients)]
    for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
        for kind, one, first in (("x", x, xs[0]), ("y", y, ys[0])):
            if one.shape[1:] != first.shape[1:] or one.ndim == 0:
                raise DataError(
                    f"{where}: {kind} of client {k} has shape {one.shape}, "
                    f"which does not match client 0's {first.shape}"
                )
        if len(x) != len(y):
            raise DataError(f"{where}: client {k} has {len(x)} examples and {len(y)} targets")
    groups = np.repeat(np.arange(len(xs)), [len(x) for x in xs])
    full = [k for k, x in enumerate(xs) if len(x)] or [0]  # an empty array's type means nothing
    for k in full:
        if _kind(xs[k]) != _kind(xs[full[0]]):
            raise DataError(
                f"{where}: the examples of client {k} are {xs[k].dtype}, those of client {full[0]} "
                f"are {xs[full[0]].dtype}; all must be bytes, real or whole numbers"
            )
        if (ys[k].dtype.kind == "f") != (ys[full[0]].dtype.kind == "f"):
            raise DataError(
                f"{where}: the targets of client {k} are {ys[k].dtype}, those of client {full[0]} "
                f"are {ys[full[0]].dtype}; all must be class numbers or all real numbers"
            )
    parts["x_train"] = np.concatenate([xs[k] for k in full])
    parts["y_train"] = np.concatenate([ys[k] for k in full])
    return parts | {"groups": groups}


def _array(where: str, name: str, value: Any) -> npt.NDArray[Any]:
    """An array; truth values are 0.0 and 1.0, but as one target for each example, two classes."""
    try:
        found = np.asarray(value)
        if found.dtype.kind != "b":
            return found
        classes = name.startswith("y") and (found.ndim == 1 or found.shape[1:] == (1,))
        return found.astype(np.int64 if classes else np.float32)
    except Exception as error:
        pass_on(error)
        raise DataError(f"{where}: {name} cannot be converted to an array: {error}") from None


def _plain(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bytes stay bytes; real numbers become float32, whole numbers int64."""
    return np.ascontiguousarray(x.astype(_kind(x), copy=False))


def _kind(x: npt.NDArray[Any]) -> type[np.generic]:
    """What examples of this type are kept as."""
    if x.dtype == np.uint8:
        return np.uint8
    return np.float32 if x.dtype.kind == "f" else np.int64


def _check(where: str, part: str, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
    """The rules for one split of a data set."""
    if x.dtype.kind not in "fiu":
        rule = f"x_{part} must be bytes, real or whole numbers, got {x.dtype}"
    elif not 2 <= x.ndim <= 5 or 0 in x.shape[1:]:
        rule = (
            f"x_{part} must be N x features, N x H x W (x C) or N x D x H x W x C, "
            f"got shape {x.shape}"
        )
    elif y.dtype.kind not in "fiu" or y.ndim == 0 or 0 in y.shape[1:]:
        rule = (
            f"y_{part} must be integers (classes) or real numbers, got {y.dtype} of shape {y.shape}"
        )
    elif len(x) != len(y) or len(x) == 0:
        given = f"{len(x)} and {len(y)}"
        rule = f"x_{part} and y_{part} must have the same length, at least 1, got {given}"
    elif y.dtype.kind in "iu" and (y.min() < 0 or y.max() >= 2**20):
        wrong = y.min() if y.min() < 0 else y.max()
        rule = f"y_{part} must be class numbers from 0 to {2**20 - 1}, got {wrong}"
    else:
        for name, array in (("x", x), ("y", y)):
            if array.dtype.kind != "f":
                continue
            with np.errstate(over="ignore"):
                finite = np.isfinite(array.astype(np.float32, copy=False))
            if not finite.all():
                place = tuple(np.argwhere(~finite)[0].tolist())
                raise DataError(
                    f"{where}: {name}_{part} must contain only finite float32 values; "
                    f"row {place[0]} has {array[place]}"
                )
        return
    raise DataError(f"{where}: {rule}")


def _classes(where: str, names: Any, *targets: npt.NDArray[Any]) -> int:
    """How many classes: as many as are named, which must be all that occur."""
    found = max(int(y.max()) + 1 for y in targets)
    if names is None:
        return found
    given = np.asarray(names)
    if given.ndim == 0 and given.dtype.kind in "iu":
        count = int(given)
    elif given.ndim == 0 and given.dtype.kind == "U":  # one letter per class
        count = len(str(given))
    elif given.ndim == 1:
        count = len(given)
    else:
        raise DataError(f"{where}: classes must be a number, a list of names, or a word")
    if not found <= count <= 2**20:
        raise DataError(
            f"{where}: classes must be {found} to {2**20}, because there is a class {found - 1}, "
            f"got {count}"
        )
    return count


def _groups(where: str, given: Any, count: int) -> Ints | None:
    if given is None:
        return None
    groups = np.asarray(given)
    if groups.dtype.kind not in "iu" or groups.shape != (count,) or groups.min() < 0:
        raise DataError(
            f"{where}: groups must be one whole number >= 0 per training example ({count}), "
            f"got {groups.dtype} of shape {groups.shape}"
        )
    return groups.astype(np.int64)


def _group_names(where: str, given: Any, groups: Ints | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(map(str, np.asarray(given).tolist())) if np.ndim(given) == 1 else ()
    count = 0 if groups is None else int(groups.max()) + 1
    if not names or len(names) < count or len(set(names)) < len(names) or groups is None:
        raise DataError(
            f"{where}: group_names must be {count} different names or more, one for each group, "
            f"got {short(given)}"
        )
    return names
