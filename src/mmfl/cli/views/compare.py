"""Shows a comparison: bars on a terminal, elsewhere a line for each run that has ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.cli.views.console import is_live

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from mmfl.cli.shared.debugging import TraceLog
    from mmfl.comparison import Comparison, Event, PlannedRun, Step

__all__ = ["CompareView", "note_event"]


class CompareView:
    """Shows rounds as they come; a context, so that a terminal is always left in order.

    Several runs may be in progress: each has a bar below the one for all of them.
    """

    def __init__(self, comparison: Comparison, console: Console) -> None:
        self._console = console
        self._runs = len(comparison.runs)
        self._rounds = comparison.todo
        self._steps: dict[Path, Step] = {}
        self._before = 0  # rounds of runs that have ended
        self._ended = 0
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._bars: dict[Path | None, TaskID] = {}

    def __enter__(self) -> CompareView:
        if is_live(self._console):
            self._progress = _progress(self._console)
            self._progress.__enter__()
            self._bar(None, self._whole(), 0, self._rounds)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._progress is not None:
            self._progress.__exit__(None, None, None)

    def show(self, run: PlannedRun, event: Event) -> None:
        """Show that a run has done a round, has failed or has ended."""
        from mmfl.comparison import Failed, Step

        if isinstance(event, Step):
            self._steps[run.folder] = event
            self._bar(run.folder, run.name, event.round, run.experiment.rounds)
        else:
            self._ended += 1
            self._before += run.experiment.rounds if run.missing else 0
            last = self._steps.pop(run.folder, None)
            if isinstance(event, Failed):
                self._say(f"{event.error} (failed)")
            elif last is not None:  # otherwise it was already there, or another process was faster
                self._print(run, last)
            if self._progress is not None and run.folder in self._bars:
                self._progress.remove_task(self._bars.pop(run.folder))
        self._bar(None, self._whole(), self._rounds_done, self._rounds)

    @property
    def _rounds_done(self) -> int:
        return self._before + sum(step.round for step in self._steps.values())

    def _whole(self) -> str:
        return f"{self._ended} of {self._runs} runs"

    def _print(self, run: PlannedRun, last: Step) -> None:
        gone = time.monotonic() - self._start
        left = gone / self._rounds_done * (self._rounds - self._rounds_done)
        metrics = "  ".join(f"{task} {value:.3f}" for task, value in last.metric.items())
        clock = f"  ({gone:.0f} s, {left:.0f} s left)" if self._progress is None else ""
        self._say(f"{run.name}: {metrics}{clock}")

    def _say(self, text: str) -> None:
        from mmfl.report import make_text

        line = f"run {self._ended}/{self._runs}  {text}"
        self._console.print(make_text(line), soft_wrap=True)

    def _bar(self, key: Path | None, text: str, done: int, of: int) -> None:
        if self._progress is None:
            return
        if key not in self._bars:
            self._bars[key] = self._progress.add_task(text, total=of)
        self._progress.update(self._bars[key], description=text, completed=done)


def note_event(log: TraceLog, run: PlannedRun, event: Event) -> None:
    """Keep the tracebacks of turns that failed, and of a run that failed."""
    from mmfl.comparison import Failed, Step

    if isinstance(event, Step):
        for trace in event.traces:
            log.note(f"{run.name}, {trace}")
    elif isinstance(event, Failed):
        log.note_error(run.name, event.error)


def _progress(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), TextColumn("{task.percentage:.0f}%"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(*columns, *times, console=console)
