"""Shows a run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mmfl.cli.views.console import is_live, open_console
from mmfl.errors import plural, printable
from mmfl.objectives import METRICS, describe_merits, find_merit
from mmfl.report import Grid, amount, make_text

if TYPE_CHECKING:
    from mmfl.experiment import Experiment
    from mmfl.loop import RoundRecord
    from mmfl.runs import Run, StoredRecruitment

__all__ = [
    "ProgressView",
    "faults_table",
    "merits_line",
    "recruitment_line",
    "recruitment_table",
    "results_table",
    "troubles",
]


class ProgressView:
    """Shows records as they come; a context, so that a terminal is always left in order."""

    def __init__(self, experiment: Experiment, stream: TextIO, *, quiet: bool) -> None:
        self._rounds = experiment.rounds
        self._console = open_console(stream, quiet=quiet)
        self._live: Live | None = None
        self._turns = {task.name: 0 for task in experiment.tasks}
        metrics = {task.name: task.metric for task in experiment.resolved().tasks}
        kinds = {name: METRICS.kind_of(metric) for name, metric in metrics.items()}
        self._title = _title(set(kinds.values()))
        self._merits = {
            name: find_merit(kinds[name], metric.better)
            for name, metric in metrics.items()
            if metric is not None
        }
        self._turns_failed = self._evaluations_failed = 0
        self._start = time.monotonic()
        self._after = 0

    def __enter__(self) -> ProgressView:
        if is_live(self._console):
            self._live = Live(Text("starting ..."), console=self._console, refresh_per_second=8)
            self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def show_start(self, folder: Path, after: int) -> None:
        """Show that a run starts, or resumes after a round."""
        self._start, self._after = time.monotonic(), after
        if after >= self._rounds:
            self._console.print(f"{folder} is already finished", soft_wrap=True)
        elif after:
            self._console.print(f"resuming {folder} after round {after}", soft_wrap=True)

    def show_recruitment(self, recruitment: StoredRecruitment | None) -> None:
        """Show what the auction decided, before the first round."""
        if recruitment is not None:
            self._console.print(recruitment_table(recruitment))
            self._console.print(recruitment_line(recruitment), soft_wrap=True)

    def show(self, record: RoundRecord) -> None:
        """Show one more round."""
        failed = [failure.turn for failure in record.failures if failure.reason != "duplicate"]
        self._turns_failed += sum(failed)
        self._evaluations_failed += len(failed) - sum(failed)
        for task, clients in record.clients.items():
            self._turns[task] += clients
        if self._live is not None:
            self._live.update(self._picture(record))
        else:
            self._console.print(self._line(record), soft_wrap=True)

    def close_with(self, run: Run) -> None:
        """Show the result, after the last round."""
        self._console.print(results_table(run))
        if merits_line(run):
            self._console.print(make_text(merits_line(run)), soft_wrap=True)
        if run.recruitment is not None:
            self._console.print(recruitment_line(run.recruitment), soft_wrap=True)
        if run.faults:
            self._console.print(faults_table(run))
        for line in troubles(run):
            self._console.print(line, soft_wrap=True)
        self._console.print(
            f"{run.rounds} rounds in {run.seconds:.1f} s (training {run.seconds_train:.1f} s, "
            f"evaluation {run.seconds_evaluate:.1f} s) after {run.seconds_setup:.1f} s of setup"
            f"\nstored in {run.folder}, fingerprint {run.fingerprint[:16]}",
            soft_wrap=True,
        )

    def _line(self, record: RoundRecord) -> str:
        width = len(str(self._rounds))
        tasks = "  ".join(
            f"{task} {_share(record.metric[task])} ({record.clients[task]})"
            for task in record.tasks
        )
        failed = f"  failed {_count_failed(record)}" if _count_failed(record) else ""
        return (
            f"round {record.round:>{width}}/{self._rounds}  {tasks}  {record.seconds:.2f} s{failed}"
        )

    def _picture(self, record: RoundRecord) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("task")
        for title in (self._title, "difficulty", "clients", "turns"):
            table.add_column(title, justify="right")
        wide = self._console.width >= 80
        for task in record.tasks:
            metric = record.metric[task]
            row = (_share(metric), _share(record.difficulty[task]))
            turns = (str(record.clients[task]), str(self._turns[task]))
            merit = float(self._merits[task](metric))
            part = 0.0 if math.isnan(merit) else min(max(merit, 0.0), 1.0)
            bar = (ProgressBar(total=1, completed=part, width=24),) if wide else ()
            table.add_row(make_text(task), *row, *turns, *bar)
        gone = time.monotonic() - self._start
        left = gone / (record.round - self._after) * (self._rounds - record.round)
        failed = _describe_failed(self._turns_failed, self._evaluations_failed)
        head = f"round {record.round} of {self._rounds}, {gone:.0f} s, {left:.0f} s left"
        head += f", {failed}" if failed else ""
        return Group(Text(head), table)


def results_table(run: Run) -> Grid:
    """Per task and over tasks, on the test split."""
    metric = _title({kind for kind, _ in run.metrics.values()})
    rows = [
        (name, _share(task["metric"]), _share(task["loss"]), str(task["clients"]))
        for name, task in run.tasks.items()
    ]
    whole = {"worst": run.worst, "mean": run.mean, "variance": run.variance}
    rows += [(name, _share(value), "", "") for name, value in whole.items()]
    return Grid.of(("task", metric, "loss", "turns"), rows)


def merits_line(run: Run) -> str:
    """What the table counts for metrics where lower is better; "" without any."""
    rule = describe_merits(run.metrics)
    return printable(f"over all tasks, {rule}") if rule else ""


def faults_table(run: Run) -> Grid:
    """The injected faults and their outcomes."""
    rows = [
        (kind, *(f"{n:,}" for n in (tally.injected, tally.lost, tally.refused, tally.accepted)))
        for kind, tally in run.faults.items()
    ]
    return Grid.of(("fault", "injected", "lost", "refused", "accepted"), rows)


def recruitment_table(recruitment: StoredRecruitment) -> Grid:
    """What the auction did for each task."""
    rows = []
    for name, task in recruitment.tasks.items():
        price = "its bid" if task.price is None and task.winners else _share(task.price)
        rows.append((name, f"{task.willing:,}", amount(task.take_up), price, amount(task.spend)))
    return Grid.of(("recruited for", "willing", "take-up", "price", "spend"), rows)


def recruitment_line(recruitment: StoredRecruitment) -> str:
    """What the auction cost, in one line."""
    of = "" if recruitment.budget is None else f" of {amount(recruitment.budget)}"
    paid = "" if recruitment.paid is None else f"; {amount(recruitment.paid)} was paid"
    return printable(
        f"{recruitment.mechanism}: {amount(recruitment.spent)}{of} is committed, min take-up "
        f"{amount(recruitment.min_take_up)}{paid}"
    )


def _title(kinds: Set[str]) -> str:
    """The title of a column of metrics: their kind, if all have the same kind."""
    return next(iter(kinds)) if len(kinds) == 1 else "metric"


def troubles(run: Run) -> list[str]:
    """Lines about what a user should know besides the results."""
    lines = []
    if run.reason:
        lines.append(f"failed: {run.reason}")
    if run.inexact:
        lines.append(f"not bit-exact: {run.inexact}")
    if run.failed:
        lost = run.failed  # older versions did not tell turns and evaluations apart
        if run.verifiable:
            lost = min(lost, sum(turns.failed for turns in run.outcomes.values()))
        failed = _describe_failed(lost, run.failed - lost)
        lines.append(f"{failed}; most common reason: {run.complaint}")
    if run.quarantined:
        are = "is" if run.quarantined == 1 else "are"
        clients = plural(run.quarantined, "client")
        lines.append(f"{clients} {are} in quarantine after the last round")
    for name, turns in run.outcomes.items():
        if run.rounds and not turns.trained:
            lines.append(f"task {name!r} never trained: {turns.why}")
    if not run.verifiable:
        lines.append("cannot be verified (written by an older version of mmfl)")
    return [printable(line) for line in lines]


def _describe_failed(turns: int, evaluations: int) -> str:
    """How many turns and evaluations failed; "" if none did."""
    counts = {"client turn": turns, "client evaluation": evaluations}
    words = [plural(number, what) for what, number in counts.items() if number]
    return f"{' and '.join(words)} failed" if words else ""


def _count_failed(record: RoundRecord) -> int:
    """Count the failed turns and evaluations; a duplicate is no failure."""
    return sum(failure.reason != "duplicate" for failure in record.failures)


def _share(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"
