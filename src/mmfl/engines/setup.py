"""What workers are told of an experiment and its data before anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from mmfl.config import dump, find_paths, pack
from mmfl.data import Arrays, Feature
from mmfl.experiment import hash_own_code
from mmfl.system.child import Message

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["name_arrays", "restore_arrays", "write_setup"]

_OURS = (
    *("aggregator", "allocator", "checkpoints", "engine", "faults", "local"),
    *("quarantine", "recruitment", "score"),
)
"""What is decided in this process alone: workers are not told, so it may be a script's own."""

_NAMES = ("classes", "group_names", "class_names", "features", "series")
"""What workers are told about data besides its arrays: a user's part may ask for it."""


def write_setup(experiment: Experiment) -> Message:
    """The experiment, its code and its objects in memory."""
    plain = _plain(experiment)
    objects = dict(pack(sorted(find_paths(plain))))
    return {"experiment": plain, "code": hash_own_code(plain), "objects": objects}


def name_arrays(
    arrays: Mapping[str, Arrays],
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, dict[str, Any]]]:
    """Each array once, by name; and from task to the names of its arrays, and its other fields."""
    distinct: dict[str, npt.NDArray[Any]] = {}
    names: dict[str, dict[str, Any]] = {}
    for task, data in arrays.items():
        names[task] = {name: getattr(data, name) for name in _NAMES}
        for part in ("x_train", "y_train", "x_test", "y_test", "groups"):
            array = getattr(data, part)
            if array is not None:
                names[task][part] = key = f"{id(data)}/{part}"
                distinct[key] = array
    return distinct, names


def restore_arrays(names: Mapping[str, Any], mapped: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """A task's data, in a worker.

    Args:
        names: Of its arrays, and its other fields.
        mapped: All arrays by name.
    """
    arrays: Any = {part: mapped[key] for part, key in names.items() if part not in _NAMES}
    groups, classes, features = (names[k] for k in ("group_names", "class_names", "features"))
    if features is not None:
        features = tuple(Feature(name, values and tuple(values)) for name, values in features)
    return Arrays(
        **arrays,
        classes=names["classes"],
        group_names=groups and tuple(groups),
        class_names=classes and tuple(classes),
        features=features,
        series=names["series"],
    )


def _plain(experiment: Experiment) -> Message:
    """The experiment as workers get it: they find the data in the mapped file."""
    plain: Message = dump(experiment)
    for key in _OURS:
        plain.pop(key, None)
    for task, table in zip(experiment.tasks, plain["tasks"], strict=True):
        table["dataset"] = "mapped"
        table["local"] = dump(experiment.engine_local(task))
    return plain
