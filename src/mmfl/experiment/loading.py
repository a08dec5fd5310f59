"""The data of an experiment's tasks, each data set loaded once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.data import (
    Arrays,
    AtNodes,
    Dataset,
    Named,
    Normalize,
    Npz,
    Synthetic,
    SyntheticRegression,
    content_hash,
)
from mmfl.errors import DataError, MmflError
from mmfl.experiment.description import (
    ModelDescription,
    Scaling,
    describe_model,
    find_scaling,
)
from mmfl.system.memory import Need, refuse
from mmfl.system.user_code import Guard, add_prefix

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["DataCache"]


_UNKNOWN: Any = object()


class DataCache:
    """Data sets in memory: those of the experiment that was served last.

    Args:
        data_dir: Folder of npz files.
        blank: Whether data that is at the nodes of a federation is replaced by zeros.
    """

    def __init__(self, data_dir: Path | None, *, blank: bool = False) -> None:
        self._data_dir, self._blank = data_dir, blank
        self._loaded: list[tuple[Dataset, Arrays]] = []
        self._hashes: list[tuple[Arrays, str]] = []
        self._scalings: list[tuple[Arrays, Normalize, Scaling]] = []

    def arrays(self, experiment: Experiment) -> dict[str, Arrays]:
        """From task name to its data; tasks on the same data set share the arrays.

        What is loaded is forgotten unless `keep` follows.
        """
        known, arrays = self._loaded, {}
        for task in experiment.tasks:
            found = next((a for dataset, a in known if dataset == task.dataset), None)
            if found is None:
                found = self._load(task.name, task.dataset)
                known = [*known, (task.dataset, found)]
            arrays[task.name] = found
        return arrays

    def keep(self, experiment: Experiment, arrays: Mapping[str, Arrays]) -> None:
        """Serve an experiment with these arrays from now on, and drop all others."""
        self._loaded = [(task.dataset, arrays[task.name]) for task in experiment.tasks]

    def hashes(self, experiment: Experiment) -> dict[str, str]:
        """From task name to the SHA-256 of its data, which is kept."""
        arrays = self.arrays(experiment)
        self.keep(experiment, arrays)
        kept = [(a, hash_) for a, hash_ in self._hashes if any(a is b for b in arrays.values())]
        for found in arrays.values():
            if not any(found is a for a, _ in kept):
                kept.append((found, content_hash(found)))
        self._hashes = kept
        return {
            task: next(hash_ for a, hash_ in kept if a is found) for task, found in arrays.items()
        }

    def describe(self, experiment: Experiment) -> dict[str, ModelDescription]:
        """From task name to how its model is built and used; scaling is computed once."""
        arrays = self.arrays(experiment)
        self.keep(experiment, arrays)
        found, scalings = {}, []
        for task in experiment.tasks:
            data, how = arrays[task.name], task.normalize
            same = (s for a, n, s in self._scalings if a is data and n == how)
            scaling = next(same, _UNKNOWN)
            scaling = find_scaling(task, data) if scaling is _UNKNOWN else scaling
            scalings.append((data, how, scaling))
            found[task.name] = describe_model(experiment, task, data, scaling)
        self._scalings = scalings
        return found

    def _load(self, task: str, dataset: Dataset) -> Arrays:
        try:
            if self._blank and isinstance(dataset, AtNodes):
                return dataset.blank()
            wanted = 0
            if isinstance(dataset, Named | Npz | Synthetic | SyntheticRegression):
                wanted = dataset.bytes_needed(self._data_dir)
            refuse([Need("its data set", wanted)])
            with Guard("its data cannot be loaded", DataError, part=dataset, always=True):
                return dataset.load(self._data_dir).read_only()
        except MmflError as error:
            raise add_prefix(error, f"task {task!r}: ", dataset) from error.__cause__
