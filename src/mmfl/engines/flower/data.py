"""What a node trains with, by its own configuration: ``flower-supernode --node-config ...``.

    partition-id = 3             which client this node is: always needed
    mmfl-data = "hospital:load"  a function from a task's name to the node's own (x, y), or None
    mmfl-bids = "heart=2.5"      what the node asks for each task, if there is an auction
    mmfl-data-dir = "/data"      folder of npz files; by default MMFL_DATA
    mmfl-allow-imports = true    whether the server's experiment may name installed code

Without `mmfl-data`, a node holds its shard of the experiment's data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.config import OwnFunction, short
from mmfl.data import PARTS, Arrays, Cut, make_blank
from mmfl.errors import DataError, InputError
from mmfl.experiment import DataCache, Experiment, SimulatedFederation, hold_shards, simulate
from mmfl.rng import Stream, stream
from mmfl.system.user_code import Guard

__all__ = ["NodeSettings", "describe_data", "open_data"]

_TEST = 0.2
"""The share of its examples that a node holds back for the test, where the server has none."""

_KEYS = ("mmfl-data", "mmfl-bids", "mmfl-data-dir", "mmfl-allow-imports")


@dataclass(frozen=True)
class NodeSettings:
    """A node's own configuration.

    Attributes:
        client: Which client it is.
        data: ``module:function`` of its own data; "" = its shard of the experiment's.
        bids: What it asks, by task.
        data_dir: Folder of npz files.
        allow_imports: Whether the server's experiment may name code that is installed here.
    """

    client: int
    data: str = ""
    bids: Mapping[str, float] = field(default_factory=dict, hash=False)
    data_dir: Path | None = None
    allow_imports: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> NodeSettings:
        """Settings from a node's configuration; `InputError` if they make no sense."""
        unknown = [key for key in config if key.startswith("mmfl-") and key not in _KEYS]
        if unknown:
            raise InputError(
                f"the node's configuration has an unknown key {unknown[0]!r}; "
                f"known: {', '.join(_KEYS)}"
            )
        client = config.get("partition-id")
        if type(client) is not int or client < 0:
            raise InputError(
                "the node's configuration needs partition-id, the number of its client from 0, "
                f"got {'nothing' if client is None else short(client)}"
            )
        data, allow = config.get("mmfl-data", ""), config.get("mmfl-allow-imports", False)
        if not isinstance(data, str) or (data and ":" not in data):
            raise InputError(f'mmfl-data must be "module:function", got {short(data)}')
        if not isinstance(allow, bool):
            raise InputError(f"mmfl-allow-imports must be true or false, got {short(allow)}")
        folder = config.get("mmfl-data-dir")
        bids = _read_bids(config.get("mmfl-bids", ""))
        return cls(client, data, bids, None if folder is None else Path(str(folder)), allow)


def _read_bids(text: Any) -> dict[str, float]:
    """Bids by task, from text such as "heart=2.5 skin=3"."""
    bids = {}
    for word in str(text).replace(",", " ").split():
        task, _, number = word.partition("=")
        try:
            bids[task] = float(number)
        except ValueError:
            bids[task] = math.nan
        if not bids[task] > 0:
            raise InputError(
                f'mmfl-bids must be "task=bid" with bids above 0 (inf = unwilling), got {word!r}'
            )
    return bids


def describe_data(arrays: Mapping[str, Arrays], afar: Collection[str]) -> dict[str, Any]:
    """What a node must know of the data that models are built for, as plain values.

    Args:
        arrays: The server's, by task.
        afar: Tasks of which only the nodes have data.
    """
    return {
        task: {
            "shape": list(data.x_train.shape[1:]),
            "type": data.x_train.dtype.name,
            "classes": data.classes,
            "vocabulary": data.vocabulary,
            "afar": task in afar,
        }
        for task, data in arrays.items()
    }


def open_data(
    experiment: Experiment, settings: NodeSettings, known: Mapping[str, Any]
) -> tuple[dict[str, Arrays], SimulatedFederation]:
    """From task to the data, and which rows of it are the client's.

    Args:
        experiment: The server's.
        settings: The node's.
        known: What `describe_data` says of the server's data.
    """
    count = experiment.clients.count
    if settings.client >= count:
        raise InputError(
            f"partition-id = {settings.client}, but the experiment has clients 0 to {count - 1}"
        )
    if not settings.data:
        afar = [task for task, one in known.items() if one["afar"]]
        if afar:
            raise InputError(f"the node has no data of task {afar[0]!r}: mmfl-data must name it")
        arrays = DataCache(settings.data_dir).arrays(experiment)
        return arrays, simulate(experiment, arrays)
    arrays, shards, tests = {}, {}, {}
    for task in experiment.tasks:
        rng = stream(experiment.seed, "node test", task.name, settings.client)
        data, held, tested = _load_own(task.name, settings.data, known[task.name], rng)
        arrays[task.name], tests[task.name] = data, np.arange(tested, dtype=np.int64)
        rows = np.arange(held, dtype=np.int64)
        shards[task.name] = Cut(rows, np.full(held, settings.client), count)
    return arrays, hold_shards(experiment, arrays, shards, tests)


def _load_own(
    task: str, path: str, known: Mapping[str, Any], rng: Stream
) -> tuple[Arrays, int, int]:
    """The node's own data of a task, and how many examples it has for training and for the test."""
    where = f"the node's data of task {task!r}"
    with Guard(f"{where}: the function {path} failed", DataError, always=True):
        given = OwnFunction(path)(task)
    if given is None:
        blank = make_blank(known["shape"], known["type"], known["classes"], known["vocabulary"])
        return blank, 0, 0
    if not isinstance(given, tuple | list) or len(given) not in (2, 4):
        raise DataError(
            f"{where}: {path} must return (x, y), (x, y, x_test, y_test) or None, "
            f"got {short(given)}"
        )
    parts: dict[str, Any] = dict(zip(PARTS, given, strict=False))
    if len(given) == 2:
        parts = _split(parts, rng, where) if known["afar"] else parts
        parts |= {} if "x_test" in parts else {"x_test": given[0][:1], "y_test": given[1][:1]}
    if known["classes"] is not None:
        parts["classes"] = known["classes"]
    found = Arrays.check(where, parts)
    for name, value, wanted in (
        ("shape", list(found.x_train.shape[1:]), known["shape"]),
        ("type", found.x_train.dtype.name, known["type"]),
        ("number of classes", found.classes, known["classes"]),
    ):
        if value != wanted:
            raise DataError(f"{where} has the {name} {value}, the server's has {wanted}")
    return found, len(found.x_train), len(found.x_test) if known["afar"] else 0


def _split(parts: Mapping[str, Any], rng: Stream, where: str) -> dict[str, Any]:
    """The same examples, some of them held back for the test."""
    x, y = np.asarray(parts["x_train"]), np.asarray(parts["y_train"])
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y) or len(x) < 2:
        raise DataError(f"{where}: x and y must have the same length, at least 2")
    order = rng.permutation(len(x))
    test, train = np.split(order, [max(1, round(_TEST * len(x)))])
    train.sort()
    return {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}
