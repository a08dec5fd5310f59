"""Runs one after another on one engine, which keeps its workers and the data that runs share."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.comparison.planned import Hashes, Step, load_finished
from mmfl.experiment import Local, guard_engine, open_engine
from mmfl.loop import find_new_traces, set_up
from mmfl.runs import clear_unfinished, stored_rounds
from mmfl.system.files import keep_current_folder

if TYPE_CHECKING:
    from mmfl.experiment import Engine, Experiment

__all__ = ["Series"]


class Series:
    """The engine is opened for the first run, and serves all others."""

    def __init__(self, data_dir: Path | None, *, workers: int | None = None) -> None:
        """Nothing is opened yet.

        Args:
            data_dir: Folder of npz files; by default what MMFL_DATA says.
            workers: How many the local engine gets instead of what its settings say, which are
                stored as they are.
        """
        self._data_dir = data_dir
        self._workers = workers
        self._hashes = Hashes(data_dir)
        self._engine: Engine | None = None
        self._checked: list[dict[str, Any]] = []

    def check(self, experiment: Experiment) -> None:
        """Do everything that can fail before the first round."""
        with keep_current_folder(), set_up(experiment, engine=self._open(experiment)) as ready:
            table = ready.experiment.engine_table
            if table not in self._checked:  # else its models are known to be sound
                ready.first_state()
                self._checked.append(table)

    def run(self, experiment: Experiment, folder: Path) -> Generator[Step, None, None]:
        """Run or resume it to its end, unless the folder holds the finished run.

        A run whose code changes the current folder changes it for no other run.
        """
        with closing(self._run(experiment, folder)) as steps:
            while True:
                with keep_current_folder():
                    step = next(steps, None)
                if step is None:
                    return
                yield step

    def _run(self, experiment: Experiment, folder: Path) -> Generator[Step, None, None]:
        if load_finished(folder, experiment, self._hashes) is not None:
            return  # another process was faster
        engine = self._open(experiment)
        try:
            with stored_rounds(experiment, folder, engine=engine, resume=True) as todo:
                seen = set[str]()
                for _, record in todo:
                    traces = tuple(find_new_traces(record.failures, seen))
                    yield Step(record.round, record.metric, traces)
        except (GeneratorExit, KeyboardInterrupt):
            clear_unfinished(folder)
            raise
        except BaseException:
            self.close()  # the next run must not get an engine in an unknown state
            raise

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            with guard_engine(engine):
                engine.close()

    def _open(self, experiment: Experiment) -> Engine:
        if self._engine is None:
            settings = experiment.engine
            if self._workers is not None and isinstance(settings, Local):
                settings = dataclasses.replace(settings, workers=self._workers)
            self._engine = open_engine(experiment, self._data_dir, settings)
        return self._engine
