"""The runs of a comparison, and whether a folder already holds them."""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmfl.config import dump
from mmfl.errors import MmflError, StoreError, one_line
from mmfl.experiment import DataCache, Experiment, describe_change, differences, read_stored
from mmfl.runs import DATABASE, Run, find_damage, is_marked, is_owned, is_unsigned
from mmfl.system.files import exists, is_folder, list_folder
from mmfl.system.user_code import add_prefix, describe_error

__all__ = [
    "BusyRunError",
    "DamagedRunError",
    "Event",
    "Failed",
    "Hashes",
    "OtherRunError",
    "PlannedRun",
    "Step",
    "firsts",
    "load_finished",
    "name_error",
    "refuse_other_seeds",
]


class OtherRunError(StoreError):
    """A folder holds something else."""


class BusyRunError(StoreError):
    """A folder holds a run that is in use by another process."""


class DamagedRunError(StoreError):
    """A folder holds a run that is not what the run wrote, or that cannot be read."""


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison.

    Attributes:
        variant: The variant's name.
        experiment: With its seed.
        folder: Where it is, or will be, stored.
        done: Whether it was finished before.
        damage: Why what the folder holds cannot be used: it is damaged, or in use by another
            process. None if it can. The run then counts as failed, and its folder is left
            unchanged.
    """

    variant: str
    experiment: Experiment
    folder: Path
    done: bool
    damage: Exception | None = None

    @property
    def missing(self) -> bool:
        """Whether it is still to be run."""
        return not self.done and self.damage is None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"{self.variant}, seed {self.experiment.seed}"


def firsts(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """The first run of each variant."""
    found: dict[str, PlannedRun] = {}
    for run in runs:
        found.setdefault(run.variant, run)
    return list(found.values())


@dataclasses.dataclass(frozen=True)
class Step:
    """What is reported about a round of a run; the run directory has everything.

    Attributes:
        round: t.
        metric: By task: its metric on the test split as last measured; NaN before.
        traces: Tracebacks of turns that failed, if they lead through other lines than those before.
    """

    round: int
    metric: Mapping[str, float]
    traces: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Failed:
    """A run failed; the others go on.

    Attributes:
        error: Why; its message names the run.
    """

    error: Exception


Event = Step | Failed | None
"""What happens to a run: a round is done, the run failed, or (None) the run is over."""


def name_error(run: PlannedRun, error: Exception) -> Exception:
    """The error of a run, with the run's name; with its traceback if the error is not mmfl's."""
    if isinstance(error, MmflError):
        return add_prefix(error, f"{run.name}: ")
    named = RuntimeError(one_line(f"{run.name}: {describe_error(error)}"))
    named.add_note("".join(traceback.format_exception(error)))
    return named


class Hashes:
    """The hashes of experiments' data; each data set is read once, and only if it is needed."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._known: list[tuple[tuple[object, ...], dict[str, str]]] = []

    def of(self, experiment: Experiment, needed: Container[str]) -> dict[str, str]:
        """From task name, or the key that names a file, to SHA-256.

        `InputError` if a file cannot be read whose key is among those needed.
        """
        sets = tuple((task.name, task.dataset) for task in experiment.tasks)
        found = next((hashes for known, hashes in self._known if known == sets), None)
        if found is None:
            found = DataCache(self._data_dir).hashes(experiment)
            self._known.append((sets, found))
        return found | experiment.hash_files(needed)


def load_finished(folder: Path, experiment: Experiment, hashes: Hashes) -> Run | None:
    """The finished run of this experiment in a folder, or None; anything else is refused.

    `DamagedRunError` if the run is not what was written, `BusyRunError` if another process runs it.
    """
    busy = BusyRunError(f"{str(folder)!r} is in use by another process")
    if not exists(folder) or (is_unsigned(folder) and not is_owned(folder)):
        return None
    try:
        found = Run.load(folder)
    except StoreError as error:
        if not is_marked(folder) and not exists(folder / DATABASE):
            raise
        if is_owned(folder):
            raise busy from None
        raise DamagedRunError(f"{error}; it is left unchanged") from None
    if found.status == "running":
        raise busy
    _refuse_other_experiment(folder, experiment)
    if found.status != "finished":
        return None
    damage = find_damage(folder)
    if damage:
        raise DamagedRunError(
            f"the run in {str(folder)!r} is damaged: {damage}; it is left unchanged"
        )
    _refuse_other_data(found, experiment, hashes)
    return found


def _refuse_other_data(run: Run, experiment: Experiment, hashes: Hashes) -> None:
    """Refuse a run that used other data or files than the experiment would use now."""
    now = hashes.of(experiment, run.data)
    changed = [name for name, was in run.data.items() if was != now.get(name)]
    if changed:
        raise OtherRunError(
            f"{str(run.folder)!r} holds a run that used different data for "
            f"{_what(changed[0], experiment)}; choose another folder"
        )


def refuse_other_seeds(folder: Path, experiment: Experiment, seeds: Collection[int]) -> None:
    """Refuse a variant's folder if it holds another experiment with a seed that is not wanted now.

    Args:
        folder: Holds the runs of a variant.
        experiment: The variant's.
        seeds: Those that are wanted; `load_finished` looks at their runs.
    """
    if not is_folder(folder):
        return
    for path in sorted(list_folder(folder)):
        name = re.fullmatch(r"seed-(\d{1,18})", path.name)
        if name is None or int(name[1]) in seeds or is_unsigned(path):
            continue
        with suppress(DamagedRunError):  # it is left as it is, and out of the tables
            _refuse_other_experiment(path, dataclasses.replace(experiment, seed=int(name[1])))


def _refuse_other_experiment(folder: Path, experiment: Experiment) -> None:
    """Refuse a folder with a run of another experiment; the first thing that differs is named."""
    changed = differences(_read_stored(folder), dump(experiment.resolved()))
    for key, (was, now) in changed.items():
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise OtherRunError(
            f"{str(folder)!r} holds a run of another experiment: "
            f"{describe_change(key, was, now)}{more}; choose another folder"
        )


def _what(name: str, experiment: Experiment) -> str:
    """The name of data in messages: its task, or the key that names a file."""
    return f"task {name!r}" if any(task.name == name for task in experiment.tasks) else name


def _read_stored(folder: Path) -> dict[str, Any]:
    try:
        return read_stored(folder / "experiment.toml")
    except StoreError as error:
        raise DamagedRunError(str(error)) from None
