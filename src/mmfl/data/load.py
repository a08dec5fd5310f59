"""Load the data of all tasks of an experiment, each data set once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.data.arrays import Arrays
from mmfl.data.datasets import Dataset
from mmfl.errors import DataError

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["load_arrays"]


def load_arrays(experiment: Experiment, data_dir: Path | None) -> dict[str, Arrays]:
    """From task name to its data; tasks on the same data set share the arrays."""
    loaded: list[tuple[Dataset, Arrays]] = []
    arrays = {}
    for task in experiment.tasks:
        found = next((a for dataset, a in loaded if dataset == task.dataset), None)
        if found is None:
            try:
                found = task.dataset.load(data_dir)
            except DataError as error:
                raise DataError(f"task {task.name!r}: {error}") from None
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                raise DataError(f"task {task.name!r}: its data cannot be loaded: {said}") from error
            loaded.append((task.dataset, found))
        arrays[task.name] = found
    return arrays
