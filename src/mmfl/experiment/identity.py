"""Is it the same experiment? Every answer in mmfl comes from this module.

An experiment is compared as the plain table that its TOML file holds. What does not decide the
result, the engine and the checkpoints, is left out of every comparison.

    decisive_table      all that decides the result (`Experiment.digest`, `Experiment.lineage`)
    engine_table        the part that an engine depends on (`Experiment.engine_table`)
    differences         the keys in which two tables differ
    describe_change     one of them, in words

`mmfl.experiment.stored` reads the table of a stored experiment.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mmfl.config import are_equal, dump, short
from mmfl.devices import get_device_type

if TYPE_CHECKING:
    from mmfl.experiment.experiment import Experiment

__all__ = [
    "decisive_table",
    "describe_change",
    "differences",
    "engine_table",
    "hash_table",
]

ASIDE = ("engine", "checkpoints")
"""What may differ between two runs of the same experiment."""

UNWRITTEN = {"device": "cpu"}
"""What a table means that does not have one of these keys."""


def decisive_table(experiment: Experiment, *without: str) -> dict[str, Any]:
    """All that decides an experiment's result, as a plain table."""
    aside = (*ASIDE, *without)
    return {
        key: _get_decisive(key, value)
        for key, value in dump(experiment).items()
        if key not in aside
    }


def engine_table(experiment: Experiment) -> dict[str, Any]:
    """The part that an engine depends on: experiments that agree in it can share one."""
    return {
        "seed": experiment.seed,
        "precision": experiment.precision,
        "device": experiment.device,
        "kernel": experiment.kernel,
        "clients.count": experiment.clients.count,
        "tasks": tuple(
            dataclasses.replace(task, local=experiment.engine_local(task), weight=1.0)
            for task in experiment.tasks
        ),
        "validation": experiment.validation if experiment.holds_validation else None,
        "checks": experiment.checks,
        "evaluate.batch_size": experiment.evaluate.batch_size,
        "partition files": [task.files("partition") for task in experiment.tasks],
    }


def hash_table(table: Mapping[str, Any]) -> str:
    """SHA-256 of a plain table."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """From key to its two values, where two experiments' tables differ; None = not set."""
    old, new = ({**UNWRITTEN, **_flatten(table), **_task_order(table)} for table in (was, now))
    keys = [*old, *(key for key in new if key not in old)]
    return {
        key: (old.get(key), new.get(key))
        for key in keys
        if not _are_alike(key, old.get(key), new.get(key)) and key.partition(".")[0] not in ASIDE
    }


def _are_alike(key: str, one: Any, other: Any) -> bool:
    return are_equal(_get_decisive(key, one), _get_decisive(key, other))


def _get_decisive(key: str, value: Any) -> Any:
    """What of a value decides the result: which of its GPUs a machine uses does not.

    Which model of GPU that is counts as a version does: see `Engine.numerics`.
    """
    return get_device_type(value) if key == "device" and isinstance(value, str) else value


def describe_change(key: str, was: Any, now: Any) -> str:
    """A key and its two values, as `differences` has them, in words."""
    old = "was not set" if was is None else f"was {short(was)}"
    return f"{key} {old} and is now {'not set' if now is None else short(now)}"


def _task_order(table: Mapping[str, Any]) -> dict[str, Any]:
    """The order of the tasks, which decides a result, too."""
    tasks = table.get("tasks")
    if not isinstance(tasks, list) or not all(isinstance(task, Mapping) for task in tasks):
        return {}
    return {"order of tasks": [task.get("name") for task in tasks]}


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys; tasks go by name."""
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        value = {str(item.get("name", number)): item for number, item in enumerate(value)}
    if not isinstance(value, Mapping):
        return {path: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(inner, f"{path}.{key}" if path else str(key))
    return flat
