"""The local engine: one single-threaded worker process per core (the default)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.engines.processes import LocalLauncher
from mmfl.engines.shared_memory.mapped import MappedFiles
from mmfl.engines.workers import WorkersEngine
from mmfl.experiment import worker_needs
from mmfl.system.memory import refuse

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["open_local"]


def open_local(
    experiment: Experiment, data_dir: Path | None, workers: int, timeout: float | None = None
) -> WorkersEngine:
    """The local engine: worker processes on this machine, one per core by default."""
    refuse(worker_needs(workers), workers=workers)
    files = MappedFiles()
    launcher = LocalLauncher(files.files)
    return WorkersEngine(experiment, data_dir, workers, timeout, transport=files, launcher=launcher)
