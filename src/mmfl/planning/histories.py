"""Runs as planning reads them: from run directories to the histories of an experiment's tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.config import dump
from mmfl.errors import InputError, StoreError
from mmfl.experiment import Experiment, Task, differences, read_table
from mmfl.objectives import METRICS
from mmfl.planning.learning import History, Learning
from mmfl.runs import RunStore, check_folder
from mmfl.system.files import is_file, is_folder

__all__ = ["RunFit", "fit_runs", "histories_in", "run_folders"]


@dataclass(frozen=True, eq=False)
class RunFit:
    """What runs tell of an experiment's tasks.

    Attributes:
        folders: The run directories.
        tasks: By task, how it learns.
        notes: What a person should know about it, a sentence each.
    """

    folders: tuple[Path, ...]
    tasks: dict[str, Learning]
    notes: tuple[str, ...]


def run_folders(given: str | Path) -> list[Path]:
    """A run directory itself, or those in a folder of `mmfl compare` (or in a folder of runs)."""
    folder = Path(given)
    check_folder(folder / "run.sqlite")
    if is_file(folder / "run.sqlite") or not is_folder(folder):
        return [folder]
    runs = [path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/run.sqlite")]
    if not runs:
        raise StoreError(
            f"{str(folder)!r} does not contain a run (neither it nor its folders have run.sqlite)"
        )
    return sorted(runs)


def fit_runs(
    experiment: Experiment, runs: Iterable[str | Path], *, beta: float | None = None
) -> RunFit:
    """Read runs, finished or not, and fit how each task of the experiment learns.

    Args:
        experiment: Whose tasks; a run must have them all, with the same metrics and score.
        runs: Run directories, or folders of several.
        beta: The power of a round's clients in the work that they do; by default what runs tell.
    """
    experiment = experiment.resolved()
    folders = tuple(dict.fromkeys(folder for given in runs for folder in run_folders(given)))
    histories: dict[str, list[History]] = {task.name: [] for task in experiment.tasks}
    unlike: dict[str, list[str]] = {}
    for folder in folders:
        stored = _experiment_in(folder)
        if stored.get("score") != dump(experiment)["score"]:
            raise InputError(
                f"run {str(folder)!r} scored tasks by {_kind(stored.get('score'))}, but the "
                f"experiment uses {_kind(dump(experiment)['score'])}, so difficulties differ"
            )
        for name, keys in _differences(stored, dump(experiment)).items():
            unlike.setdefault(name, []).extend(keys)
        for name, history in histories_in(folder, experiment).items():
            histories[name].append(history)
    tasks = {
        task.name: _fit_task(task, histories[task.name], beta, len(folders))
        for task in experiment.tasks
    }
    notes = [
        f"Task {name} was trained with a different {' and '.join(dict.fromkeys(keys))} in the runs "
        "than in the experiment, so its curve may differ."
        for name, keys in unlike.items()
    ]
    return RunFit(folders, tasks, tuple(notes))


def _fit_task(task: Task, histories: list[History], beta: float | None, runs: int) -> Learning:
    """How a task learns, from its history in each of the runs in which it trained."""
    assert task.metric is not None  # the experiment is resolved
    better, bounds = task.metric.better, task.metric.bounds
    try:
        return Learning.of(histories, better=better, bounds=bounds, beta=beta)
    except InputError:
        none = f"none of the {runs} runs trained it"
        why = "the run never trained it" if runs == 1 else none
        raise InputError(f"run: task {task.name!r} has no curve: {why}") from None


def _experiment_in(folder: Path) -> dict[str, Any]:
    """The stored experiment as plain tables."""
    RunStore.open(folder).close()  # says what is wrong with it
    return read_table(folder / "experiment.toml")


def _differences(stored: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, list[str]]:
    """By task, the keys that decide how it learns and are not the same."""
    theirs = {task.get("name"): task for task in stored.get("tasks", [])}
    unlike = {}
    for task in ours["tasks"]:
        other = theirs.get(task["name"], task)
        keys = differences(_learning(stored, other), _learning(ours, task))
        if keys:
            unlike[task["name"]] = list(dict.fromkeys(_shorten(key) for key in keys))
    return unlike


def _learning(experiment: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """What decides how a task learns."""
    keys = ("dataset", "model", "loss", "normalize", "augment", "warm_start", "partition")
    local = {**experiment["local"], **task.get("local", {})}
    return {key: task.get(key) for key in keys} | {"local": local}


def _shorten(key: str) -> str:
    """A key as people call it: the part of a task, or of its local training."""
    part, _, rest = key.partition(".")
    return f"local.{rest.partition('.')[0]}" if part == "local" else part


def _kind(score: Any) -> str:
    return repr(score["kind"] if isinstance(score, Mapping) and "kind" in score else score)


def histories_in(folder: Path, experiment: Experiment) -> dict[str, History]:
    """From task to its history in a run; the experiment is resolved."""
    with closing(RunStore.open(folder)) as store:
        known = {name: (number, kind) for number, name, kind, _ in store.tasks()}
        rows = _rows_by_task(store)
        histories = {}
        for task in experiment.tasks:
            wanted = METRICS.kind_of(task.metric)
            if task.name not in known:
                raise InputError(f"run {str(folder)!r} has no task {task.name!r}")
            number, kind = known[task.name]
            if kind != wanted:
                raise InputError(
                    f"run {str(folder)!r} evaluates task {task.name!r} by {kind}, but the "
                    f"experiment uses {wanted}"
                )
            if number not in rows:
                raise StoreError(f"the run in {str(folder)!r} has no finished round yet")
            clients, difficulty, metric = zip(*rows[number], strict=True)
            histories[task.name] = History(
                np.array(clients, np.int64), _floats(difficulty), _floats(metric)
            )
    return histories


def _rows_by_task(store: RunStore) -> dict[int, list[tuple[Any, ...]]]:
    """From a task's number to clients, difficulty and metric (None if it is old) by round."""
    rows: dict[int, list[tuple[Any, ...]]] = {}
    for task, *values in store.rows(
        "SELECT task, clients, difficulty, CASE fresh WHEN 1 THEN metric END FROM round_task "
        "JOIN round USING (round) ORDER BY round"
    ):
        rows.setdefault(task, []).append(tuple(values))
    return rows


def _floats(values: Iterable[float | None]) -> Any:
    return np.array([math.nan if value is None else value for value in values], np.float64)
