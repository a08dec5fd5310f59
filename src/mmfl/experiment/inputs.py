"""The files that an experiment names: no command may write into them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mmfl.data import CsvFile, ImageFolder, Named, Npz, ParquetFile, Reduced
from mmfl.errors import DataError
from mmfl.experiment.experiment import Experiment
from mmfl.experiment.own_code import find_own_code
from mmfl.market.bids_io import Csv

__all__ = ["find_inputs"]


def find_inputs(experiment: Experiment, data_dir: str | Path | None = None) -> list[Path]:
    """The files that decide an experiment's result, whether they exist or not.

    These are bids, files of partitions, initial weights, data sets and modules of the user's. What
    a function of the user's reads is not known.

    Args:
        experiment: The experiment.
        data_dir: Folder of data sets; by default $MMFL_DATA.
    """
    found = [path for task in experiment.tasks for path in map(Path, task.named_files().values())]
    bids = None if experiment.recruitment is None else experiment.recruitment.bids
    if isinstance(bids, Csv):
        found.append(Path(bids.path))
    for task in experiment.tasks:
        with suppress(DataError):  # without a home there is no data folder, and no such file
            if isinstance(task.dataset, Named | Npz | Reduced):
                found.append(task.dataset.find_file(data_dir))
            elif isinstance(task.dataset, CsvFile | ImageFolder | ParquetFile):
                found += task.dataset.find_files(data_dir)
    return [*found, *find_own_code(experiment)]
