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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.config import short
from mmfl.data import Arrays, Cut
from mmfl.errors import DataError, InputError
from mmfl.experiment import DataCache, Experiment, SimulatedFederation, hold_shards, simulate
from mmfl.system.user_code import Guard

__all__ = ["NodeSettings", "describe_data", "open_data"]

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


def describe_data(arrays: Mapping[str, Arrays]) -> dict[str, Any]:
    """What a node must know of the data that models are built for, as plain values."""
    return {
        task: {
            "shape": list(data.x_train.shape[1:]),
            "type": data.x_train.dtype.name,
            "classes": data.classes,
            "vocabulary": data.vocabulary,
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
        arrays = DataCache(settings.data_dir).arrays(experiment)
        return arrays, simulate(experiment, arrays)
    arrays, shards = {}, {}
    for task in experiment.tasks:
        arrays[task.name], held = _load_own(task.name, settings.data, known[task.name])
        rows = np.arange(held, dtype=np.int64)
        shards[task.name] = Cut(rows, np.full(held, settings.client), count)
    return arrays, hold_shards(experiment, arrays, shards)


def _load_own(task: str, path: str, known: Mapping[str, Any]) -> tuple[Arrays, int]:
    """The node's own data of a task, and how many examples that are."""
    from mmfl.config import OwnFunction

    where = f"the node's data of task {task!r}"
    with Guard(f"{where}: the function {path} failed", DataError, always=True):
        given = OwnFunction(path)(task)
    if given is None:
        return make_blank(known), 0
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DataError(f"{where}: {path} must return (x, y) or None, got {short(given)}")
    x, y = given
    parts = {"x_train": x, "y_train": y, "x_test": x[:1], "y_test": y[:1]}
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
    return found, len(found.x_train)


def make_blank(known: Mapping[str, Any]) -> Arrays:
    """One example of zeros for each class: enough to build a model for such data."""
    classes, vocabulary = known["classes"], known["vocabulary"]
    count = max(classes or 2, 2)
    x = np.zeros((count, *known["shape"]), known["type"])
    if vocabulary is not None:
        x.reshape(-1)[0] = vocabulary - 1
    y = np.arange(count) if classes is not None else np.zeros((count, 1), np.float32)
    return Arrays.check("no data", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})
