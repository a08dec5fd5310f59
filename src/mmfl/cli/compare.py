"""``mmfl compare``: variants of an experiment over seeds, as a table, a figure and data."""

from __future__ import annotations

import json as json_
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.compared import compare_stored, find_config
from mmfl.cli.shared.debugging import log_traces
from mmfl.cli.shared.options import (
    AllowImports,
    DataDir,
    Json,
    Quiet,
    Sets,
    find_modules,
    name_options_of,
    stop_on_signals,
)
from mmfl.cli.shared.output import check_figure, check_out_folder
from mmfl.cli.shared.streams import NEVER_TRAINED, complain, survive_closed_output
from mmfl.cli.views.compare import CompareView, note_event
from mmfl.errors import ComparisonError, ConfigError, InputError, MmflError

if TYPE_CHECKING:
    from rich.console import Console

    from mmfl.cli.shared.own_files import OwnFiles
    from mmfl.comparison import Comparison, Jobs
    from mmfl.experiment import Experiment
    from mmfl.report import Remark, Variant

__all__ = ["compare"]


def compare(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="CONFIG|RUN...",
            help="The experiment (a TOML file). Or finished runs, comparisons, or folders of runs: "
            "they are compared as they are, and nothing is trained.",
            show_default=False,
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="Values to compare; repeat the option for a grid."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="0-3", help="Seeds: a range or a list (default: 0-3)."),
    ] = None,
    set_: Sets = None,
    target: Annotated[
        float | None,
        typer.Option(help="Count the rounds until the worst task's metric reaches this value."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for all runs (default: runs/NAME-compare, or -2, -3, ...). Of finished "
            "runs: folder for the tables (default: they are only printed)."
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where to save the figure (default: in the folder).")
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="auto|N",
            help="Number of runs in parallel. They share the workers; each loads its own copy of "
            "the data. auto (the default): about one for each worker of the local engine. The "
            "results do not depend on this.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace tables and figures that mmfl compare did not write, or that belong "
            "to another comparison.",
        ),
    ] = False,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run variants of an experiment over several seeds and compare them with the first one.

    Given runs instead of an experiment, compare these. Those that differ only in their seed are one
    variant.

    Finished runs in the folder are kept: the same command resumes an interrupted comparison, even
    with more seeds or variants. If a run failed, or a task never trained, the tables say so. The
    exit code is then 1, or 3 if no run failed.
    """
    from rich.console import Console

    from mmfl.cli.shared.own_files import COMPARISON_FILES, REPORT, OwnFiles
    from mmfl.comparison import read_jobs, read_seeds, read_vary
    from mmfl.experiment import Experiment, find_inputs
    from mmfl.report import variants

    given = {"vary": vary, "seeds": seeds, "set": set_, "jobs": jobs, "data-dir": data_dir}
    config = find_config(sources, given | {"allow-imports": allow_imports})
    if config is None:
        return compare_stored(
            sources, target=target, out=out, figure=figure, force=force, json=json, quiet=quiet
        )
    with name_options_of("jobs", "seeds", "vary"):
        wanted, numbers = (
            read_jobs("auto" if jobs is None else jobs),
            read_seeds("0-3" if seeds is None else seeds),
        )
        changes = read_vary(vary or [])
    if allow_imports:
        find_modules(config)
    base = list(set_ or [])
    load = partial(Experiment.load, config, allow_imports=allow_imports)
    experiments = {name: _load_variant(load, base, sets) for name, sets in changes.items()}
    if any(item.partition("=")[0].strip() == "seed" for item in [*base, *(vary or [])]):
        raise ConfigError("choose seeds with --seeds, not with --set seed=... or --vary seed=...")
    _check_target(target, experiments.values())
    named = (find_inputs(experiment, data_dir) for experiment in experiments.values())
    inputs = [config, *dict.fromkeys(chain.from_iterable(named))]
    check_figure(figure, inputs=inputs, force=True)  # `OwnFiles` says what may be replaced
    plan = partial(_plan, experiments, numbers, data_dir, force)
    comparison = _find_folder(plan, config.stem) if out is None else plan(out)
    check_out_folder(comparison.out, COMPARISON_FILES, inputs=inputs)
    own = OwnFiles(comparison.out, force=force)
    own.check([] if figure is None else [figure])
    if comparison.todo or own.recorded:  # else they may be what an older version wrote: see `write`
        names = [f"comparison.{kind}" for kind in ("md", "json", *([] if figure else ["png"]))]
        own.check(comparison.out / name for name in (*names, REPORT))
    where = sys.stderr if json else sys.stdout
    console = Console(file=where, quiet=quiet, highlight=False, markup=False)
    kept = f"(finished runs are in {comparison.out}; run the same command again to resume)"
    survive_closed_output("standard output was closed; the comparison continues without it")
    with stop_on_signals(lambda: kept):
        failed = _go(comparison, console, wanted, partial(own.note_variants, experiments))
    compared = variants({name: runs for name, runs in comparison.results().items() if runs})
    if failed is not None and not compared:
        raise failed
    about = _remarks(compared, comparison)
    found = _write(compared, comparison, console, target, about, own)
    for line in (
        _draw(compared, comparison, figure, about, own),
        _report(comparison, target, own),
        f"tables and runs: {comparison.out}",
    ):
        console.print(line, soft_wrap=True)
    if json:
        typer.echo(json_.dumps(found))
    serious = [remark for remark in about if remark.serious]
    if serious:
        complain(str(failed or _first_of(serious)), loud=True)
        raise typer.Exit(NEVER_TRAINED if failed is None else 1)


def _load_variant(
    load: Callable[..., Experiment], base: Sequence[str], changes: Sequence[str]
) -> Experiment:
    """Load one variant; a mistake in a varied key names --vary, not --set."""
    try:
        return load(sets=[*base, *changes])
    except ConfigError as error:
        if not changes or not str(error).startswith("sets: "):
            raise
        load(sets=base)  # raises if the mistake is in a --set
        raise ConfigError(f"--vary: {str(error).removeprefix('sets: ')}") from error.__cause__


def _check_target(target: float | None, experiments: Iterable[Experiment]) -> None:
    """Refuse a target that no run can reach."""
    from mmfl.objectives import METRICS, best_value, find_merit

    if target is None:
        return
    if not math.isfinite(target):
        raise ConfigError(f"--target must be a number, got {target}")
    for task in (task for experiment in experiments for task in experiment.resolved().tasks):
        assert task.metric is not None
        merit = find_merit(METRICS.kind_of(task.metric), task.metric.better)
        best = merit(best_value(task.metric))
        if target > best:
            rule = f"must be at most {best:g}, the best that task {task.name!r} can reach"
            raise ConfigError(f"--target {rule}, got {target:g}")


def _plan(
    experiments: dict[str, Experiment],
    seeds: tuple[int, ...],
    data_dir: Path | None,
    force: bool,
    folder: Path,
) -> Comparison:
    """The comparison in a folder; without force, tables of other variants are refused."""
    from mmfl.cli.shared.own_files import OwnFiles
    from mmfl.comparison import Comparison, OtherRunError

    other = OwnFiles(folder, force=force).describe_other(experiments)
    if other and not force:
        raise OtherRunError(
            f"{str(folder)!r} {other}; choose another folder, or replace its tables with --force"
        )
    return Comparison(experiments, seeds, folder, data_dir=data_dir)


def _find_folder(plan: Callable[[Path], Comparison], name: str) -> Comparison:
    """The comparison in the first numbered folder that can take it."""
    from mmfl.comparison import OtherRunError

    number = 1
    while True:
        folder = Path("runs") / f"{name}-compare{'' if number == 1 else f'-{number}'}"
        try:
            return plan(folder)
        except OtherRunError as error:
            if number >= 999:
                raise
            complain(f"skipping {folder}: {str(error).partition('; choose another folder')[0]}")
            number += 1


def _go(
    comparison: Comparison, console: Console, jobs: Jobs, note: Callable[[], None]
) -> ComparisonError | None:
    """Run what is missing and show the progress; returns remarks on the runs that failed.

    Args:
        comparison: What to run.
        console: Where to show it.
        jobs: How many runs at the same time.
        note: Called once runs are stored in the folder; until then the folder is unchanged.
    """
    from mmfl.comparison import Step

    noted = False
    number = comparison.jobs(jobs)
    kept = sum(run.done for run in comparison.runs)
    if kept:
        console.print(f"{kept} of {len(comparison.runs)} runs are already finished")
    if all(run.done for run in comparison.runs):
        return None
    if number > 1:
        console.print(f"{number} runs at a time")
    with (
        log_traces() as log,
        closing(comparison.go(number)) as steps,
        CompareView(comparison, console) as view,
    ):
        try:
            for run, event in steps:
                if isinstance(event, Step) and not noted:
                    noted = True
                    note()
                view.show(run, event)
                note_event(log, run, event)
        except ComparisonError as error:
            return error
    return None


def _remarks(variants: list[Variant], comparison: Comparison) -> list[Remark]:
    """What a reader must know: what failed, never trained, or cannot be paired."""
    from mmfl.report import Remark, failed_runs, remarks, select_comparable

    alone = [v for v in variants if not any(v is one for one in select_comparable(variants))]
    said = f"shares no seed with {variants[0].name}, so there are no differences"
    unpaired = [Remark(variant.name, said) for variant in alone]
    return [*failed_runs(comparison.failed), *remarks(variants), *unpaired]


def _first_of(serious: list[Remark]) -> str:
    """One sentence about remarks: the first, and how many more there are."""
    more = f" (and {len(serious) - 1} more: see the tables)" if len(serious) > 1 else ""
    about, text = serious[0].variant, serious[0].text
    return f"{about}: {text}{more}"


def _draw(
    variants: list[Variant],
    comparison: Comparison,
    figure: Path | None,
    about: list[Remark],
    own: OwnFiles,
) -> str:
    """Draw the figure; returns where it is, or why there is none."""
    from mmfl.objectives import METRICS
    from mmfl.report.figures import draw_comparison, render

    first = comparison.runs[0].experiment.resolved()
    kinds = {METRICS.kind_of(task.metric) for task in first.tasks}
    active = first.clients.active
    busy = ""
    if isinstance(active, float) and active < 1:
        some = round(active * first.clients.count)
        share = f"{some}" if first.recruitment is None else f"{active:.0%} of those recruited"
        busy = f", {share} active in a round"
    seeds = [str(seed) for seed in sorted({seed for v in variants for seed in v.seeds})]
    note = (
        f"{first.rounds} rounds, {first.clients.count} clients{busy}, "
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}."
    )
    if any(remark.serious for remark in about):
        note += " Some runs failed, or a task never trained: see the tables."
    path = comparison.out / "comparison.png" if figure is None else figure
    metric = kinds.pop() if len(kinds) == 1 else "metric"
    try:
        content = render(draw_comparison(variants, subtitle=note, metric=metric), path)
    except InputError as error:
        if figure is not None:
            raise
        return f"no figure: {error}"
    own.write(path, content)
    return f"figure: {path}"


def _report(comparison: Comparison, target: float | None, own: OwnFiles) -> str:
    """Write the report; returns where it is, or why there is none."""
    from mmfl.cli.shared.own_files import REPORT
    from mmfl.report.document import gather, render_html

    folders = [
        run.folder
        for run in comparison.runs
        if (run.variant, run.experiment.seed) not in comparison.failed
    ]
    title = f"Report on {comparison.out.resolve().name}"
    path = comparison.out / REPORT
    try:
        content = render_html(gather(folders, target=target, title=title))
    except MmflError as error:
        return f"no report: {error}"
    own.write(path, content.encode())
    return f"report: {path}"


def _write(
    variants: list[Variant],
    comparison: Comparison,
    console: Console,
    target: float | None,
    about: list[Remark],
    own: OwnFiles,
) -> dict[str, Any]:
    """Write the tables next to the runs, as Markdown and as data, and print them."""
    from mmfl.report import Differences, Results, data, quantities, select_comparable

    tables: list[Results | Differences] = [Results(variants, target, about)]
    paired = select_comparable(variants)
    if len(paired) > 1:
        tables.append(Differences(paired, quantities(paired[0], target), about))
    found = {
        "out": str(comparison.out),
        **data(variants, target),
        "failed_runs": [
            {"variant": variant, "seed": seed, "error": str(error)}
            for (variant, seed), error in comparison.failed.items()
        ],
        "remarks": [remark.line for remark in about],
    }
    text = "\n\n".join(table.markdown() for table in tables) + "\n"
    try:  # stored first: the reader of our output may be gone
        own.write(comparison.out / "comparison.md", text.encode())
        own.write(comparison.out / "comparison.json", f"{json_.dumps(found, indent=1)}\n".encode())
    finally:
        for table in tables:
            console.print(table)
            console.print()
    return found
