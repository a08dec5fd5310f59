"""What a comparison is to run, and whether a folder holds it already."""

from __future__ import annotations

import dataclasses
import time
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from mmfl.config import dump
from mmfl.data.load import Shelf
from mmfl.errors import ConfigError, StoreError
from mmfl.experiment import Experiment
from mmfl.runs.result import Run
from mmfl.runs.resume import unsigned

__all__ = ["Hashes", "OtherRunError", "Planned", "Step", "firsts", "holds"]


class OtherRunError(StoreError):
    """A folder holds a run of something else."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run of a comparison.

    Attributes:
        variant: The variant's name.
        experiment: With its seed.
        folder: Where it is, or will be, stored.
        done: Whether it was finished before.
    """

    variant: str
    experiment: Experiment
    folder: Path
    done: bool

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"{self.variant}, seed {self.experiment.seed}"


def firsts(runs: Iterable[Planned]) -> list[Planned]:
    """The first run of each variant."""
    found: dict[str, Planned] = {}
    for run in runs:
        found.setdefault(run.variant, run)
    return list(found.values())


@dataclasses.dataclass(frozen=True)
class Step:
    """What is told of a run's round; everything is in the run's directory.

    Attributes:
        round: t.
        metric: By task: its metric on the test split as last measured; NaN before.
    """

    round: int
    metric: Mapping[str, float]


class Hashes:
    """The hashes of experiments' data, each data set read once and only if it is asked for."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._known: list[tuple[tuple[object, ...], dict[str, str]]] = []

    def of(self, experiment: Experiment) -> dict[str, str]:
        """From task name (and "recruitment.bids") to SHA-256."""
        sets = tuple((task.name, task.dataset) for task in experiment.tasks)
        found = next((hashes for known, hashes in self._known if known == sets), None)
        if found is None:
            found = Shelf(self._data_dir).hashes(experiment)
            self._known.append((sets, found))
        return found | experiment.files()


def holds(folder: Path, experiment: Experiment, hashes: Hashes) -> bool:
    """Whether a folder holds this run, finished; what is not this experiment's is refused."""
    if not folder.exists() or (unsigned(folder) and _left_alone(folder)):
        return False
    found = Run.load(folder)
    if found.status == "running":
        raise StoreError(f"{str(folder)!r} is being run by another process")
    if not _stored_is(experiment, folder / "experiment.toml"):
        raise OtherRunError(
            f"{str(folder)!r} holds a run of another experiment; choose another folder (--out)"
        )
    if found.status != "finished":
        return False
    ours = hashes.of(experiment)
    other = [name for name, was in found.data.items() if was != ours.get(name)]
    if other:
        raise OtherRunError(
            f"{str(folder)!r} holds a run on other data than {_what(other[0])} has now; choose "
            "another folder (--out)"
        )
    return True


def _what(name: str) -> str:
    return name if name == "recruitment.bids" else f"task {name!r}"


def _left_alone(folder: Path) -> bool:
    """Whether nobody can be about to put a run there: nothing happened for a minute."""
    return time.time() - folder.stat().st_mtime > 60 or not any(folder.iterdir())


def _stored_is(experiment: Experiment, path: Path) -> bool:
    """Whether a stored file describes this experiment (engines aside)."""
    experiment = experiment.resolved()
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
        aside = {"engine": None, "checkpoints": None}
        if {**table, **aside} == {**dump(experiment), **aside}:
            return True
        stored = Experiment.from_toml(text)
        stored = dataclasses.replace(stored, engine=experiment.engine)
        return dataclasses.replace(stored, checkpoints=experiment.checkpoints) == experiment
    except (OSError, ValueError, ConfigError):
        return False
