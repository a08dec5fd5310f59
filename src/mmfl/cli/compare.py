"""``mmfl compare``: variants of an experiment over seeds, as a table, a picture and data."""

from __future__ import annotations

import json as json_
import math
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.compare_view import CompareView
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

    from mmfl.experiment import Experiment
    from mmfl.report import Variant
    from mmfl.sweeps.compare import Comparison
    from mmfl.sweeps.sweep import Jobs

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
    jobs: Annotated[
        str,
        typer.Option(
            metavar="auto|N",
            help="Runs at the same time, each with its share of the workers (and the data in "
            "memory); auto: about one for each worker of the local engine. No influence on "
            "results.",
        ),
    ] = "auto",
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
    from mmfl.sweeps.variants import read_jobs, read_seeds, read_vary

    _refuse_figure(figure)
    wanted = read_jobs(jobs)
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
        _go(comparison, console, wanted)
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
    from mmfl.sweeps.compare import Comparison, OtherRunError

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


def _go(comparison: Comparison, console: Console, jobs: Jobs) -> None:
    """Run what is missing, and show how far it is."""
    number = comparison.jobs(jobs)
    kept = sum(run.done for run in comparison.runs)
    if kept:
        console.print(f"{kept} of {len(comparison.runs)} runs are there already")
    if not comparison.todo:
        return
    if number > 1:
        console.print(f"{number} runs at a time")
    with closing(comparison.go(number)) as steps, CompareView(comparison, console) as view:
        for run, step in steps:
            view.show(run, step)


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
