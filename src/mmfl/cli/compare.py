"""``mmfl compare``: variants of an experiment over seeds, as a table, a picture and data."""

from __future__ import annotations

import json as json_
import math
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.options import (
    AllowImports,
    Config,
    DataDir,
    Json,
    Quiet,
    Sets,
    find_modules,
    stopped_by_signals,
)
from mmfl.errors import ConfigError, InputError, StoreError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from mmfl.experiment import Experiment
    from mmfl.report import Variant
    from mmfl.runs.compare import Comparison, Planned
    from mmfl.state import RoundRecord

__all__ = ["compare"]


def compare(
    config: Config,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="Values to compare; repeat it for a grid."),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="0-3", help="Seeds: a range or a list.")] = "0-3",
    set_: Sets = None,
    target: Annotated[
        float | None,
        typer.Option(help="Count the rounds until the worst task reaches this metric."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for all runs; by default runs/NAME-compare, or -2, -3, ..."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw the picture; by default into the folder.")
    ] = None,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run variants of an experiment over several seeds and compare them with the first one.

    Runs that are finished in the folder are kept: the same command again goes on where it was.
    """
    from rich.console import Console

    from mmfl.experiment import Experiment
    from mmfl.report import variants
    from mmfl.runs.variants import read_seeds, read_vary

    _refuse_figure(figure)
    if target is not None and not math.isfinite(target):
        raise ConfigError(f"--target must be a number, got {target}")
    if allow_imports:
        find_modules(config)
    base = list(set_ or [])
    experiments = {
        name: Experiment.load(config, sets=[*base, *sets], allow_imports=allow_imports)
        for name, sets in read_vary(vary or []).items()
    }
    if any(item.partition("=")[0].strip() == "seed" for item in [*base, *(vary or [])]):
        raise ConfigError("seeds are given as --seeds, not as --set seed=... or --vary seed=...")
    comparison = _planned(experiments, read_seeds(seeds), config.stem, out, data_dir)
    where = sys.stderr if json else sys.stdout
    console = Console(file=where, quiet=quiet, highlight=False, markup=False)
    kept = f"(what is finished is kept in {comparison.out}; the same command goes on from there)"
    with stopped_by_signals(lambda: kept):
        _go(comparison, console)
    compared = variants(comparison.results())
    found = _write(compared, comparison, console, target)
    console.print(_draw(compared, comparison, figure), soft_wrap=True)
    console.print(f"tables and runs: {comparison.out}", soft_wrap=True)
    if json:
        typer.echo(json_.dumps(found))


def _planned(
    experiments: dict[str, Experiment],
    seeds: tuple[int, ...],
    name: str,
    out: Path | None,
    data_dir: Path | None,
) -> Comparison:
    """The comparison in the folder that is wanted, or in the first of ours that can take it."""
    from mmfl.runs.compare import Comparison, OtherRunError

    if out is not None:
        return Comparison(experiments, seeds, out, data_dir=data_dir)
    number = 1
    while True:
        folder = Path("runs") / f"{name}-compare{'' if number == 1 else f'-{number}'}"
        try:
            return Comparison(experiments, seeds, folder, data_dir=data_dir)
        except OtherRunError as error:
            if number >= 999:
                raise
            typer.echo(f"mmfl: passing over {folder}: {error}", err=True)
            number += 1


def _go(comparison: Comparison, console: Console) -> None:
    """Run what is missing, and show how far it is."""
    kept = sum(run.done for run in comparison.runs)
    if kept:
        console.print(f"{kept} of {len(comparison.runs)} runs are there already")
    if not comparison.todo:
        return
    live = console.is_terminal and not console.quiet
    with closing(comparison.go()) as steps:
        if live:
            with _bar(console) as progress:
                _follow(steps, comparison, console, progress)
        else:
            _follow(steps, comparison, console, None)


def _bar(console: Console) -> Progress:
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


def _follow(
    steps: Iterable[tuple[Planned, RoundRecord | None]],
    comparison: Comparison,
    console: Console,
    progress: Progress | None,
) -> None:
    start, rounds, ended = time.monotonic(), 0, 0
    line = progress.add_task("starting", total=comparison.todo) if progress else None
    last: RoundRecord | None = None
    for run, record in steps:
        what = f"{run.variant}, seed {run.experiment.seed}"
        if record is not None:
            rounds, last = rounds + 1, record
            if progress is not None and line is not None:
                progress.update(line, completed=rounds, description=what)
            continue
        ended, shown, last = ended + 1, last, None
        if shown is None:  # it was there before, or another process was faster
            continue
        gone = time.monotonic() - start
        left = gone / rounds * (comparison.todo - rounds)
        told = "  ".join(f"{task} {value:.3f}" for task, value in shown.metric.items())
        clock = f"  ({gone:.0f} s, {left:.0f} s left)" if progress is None else ""
        console.print(f"run {ended}/{len(comparison.runs)}  {what}: {told}{clock}", soft_wrap=True)


def _refuse_figure(path: Path | None) -> None:
    """A picture that cannot be drawn in the end is refused in the beginning."""
    from mmfl.report.saving import check_path

    if path is not None:
        check_path(path)


def _draw(variants: list[Variant], comparison: Comparison, figure: Path | None) -> str:
    """Draw the picture; where it is, or why there is none."""
    from mmfl.objectives import METRICS
    from mmfl.report import comparison as draw

    first = comparison.runs[0].experiment.resolved()
    kinds = {METRICS.kind_of(task.metric) for task in first.tasks}
    active = first.clients.active
    busy = ""
    if isinstance(active, float) and active < 1:
        some = round(active * first.clients.count)
        share = f"{some}" if first.recruitment is None else f"{active:.0%} of those recruited"
        busy = f", {share} active in a round"
    seeds = [str(seed) for seed in variants[0].seeds]
    note = (
        f"{first.rounds} rounds, {first.clients.count} clients{busy}, "
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}."
    )
    path = comparison.out / "comparison.png" if figure is None else figure
    metric = kinds.pop() if len(kinds) == 1 else "metric"
    try:
        return f"picture: {draw(variants, path, subtitle=note, metric=metric)}"
    except InputError as error:
        if figure is not None:
            raise
        return f"no picture: {error}"


def _write(
    variants: list[Variant], comparison: Comparison, console: Console, target: float | None
) -> dict[str, Any]:
    """Print the tables, and put them beside the runs as Markdown and as data."""
    from mmfl.report import Differences, Results, data, quantities

    tables: list[Results | Differences] = [Results(variants, target)]
    if len(variants) > 1:
        tables.append(Differences(variants, quantities(variants[0], target)))
    found = {"out": str(comparison.out), **data(variants, target)}
    for table in tables:
        console.print(table)
        console.print()
    text = "\n\n".join(table.markdown() for table in tables) + "\n"
    try:
        (comparison.out / "comparison.md").write_text(text, encoding="utf-8")
        (comparison.out / "comparison.json").write_text(json_.dumps(found, indent=1) + "\n")
    except OSError as error:
        raise StoreError(f"cannot write into {str(comparison.out)!r}: {error.strerror}") from None
    return found
