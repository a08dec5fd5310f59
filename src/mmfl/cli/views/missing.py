"""Runs what is missing of several comparisons, and shows it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from mmfl.cli.shared.debugging import log_traces
from mmfl.cli.views.compare import CompareView, note_event
from mmfl.errors import ComparisonError

if TYPE_CHECKING:
    from rich.console import Console

    from mmfl.comparison import Comparison, Jobs

__all__ = ["run_missing"]


def run_missing(
    name: str, comparisons: Iterable[tuple[str, Comparison]], jobs: Jobs, console: Console
) -> list[str]:
    """Run what is missing, setting by setting; returns a sentence about each with failed runs.

    Args:
        name: What the settings belong to.
        comparisons: By the names of the settings.
        jobs: How many runs at the same time.
        console: Where to show it.
    """
    failed = []
    for setting, comparison in comparisons:
        if all(run.done for run in comparison.runs):
            continue
        missing = sum(run.missing for run in comparison.runs)
        if missing:
            console.print(f"{setting}: {missing} runs to do")
        with (
            log_traces() as log,
            closing(comparison.go(comparison.jobs(jobs))) as steps,
            CompareView(comparison, console) as view,
        ):
            try:
                for run, event in steps:
                    view.show(run, event)
                    note_event(log, run, event)
            except ComparisonError as error:
                failed.append(f"{name}, {setting}: {error}")
    return failed
