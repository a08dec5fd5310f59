"""``mmfl reproduce``: the paper's experiments, each with its figure, its claims and a verdict."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.shared.options import DataDir, Json, Quiet, name_options_of, stop_on_signals
from mmfl.cli.shared.streams import NEVER_TRAINED, complain, survive_closed_output
from mmfl.cli.views.missing import run_missing
from mmfl.errors import InputError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from mmfl.report import Remark
    from mmfl.reproduce import Archive, Finding, Reproduction

__all__ = ["reproduce"]


def reproduce(
    studies: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY...", help="exp1, exp2, ..., table2, qfel, or all.", show_default=False
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), small (hours on 2 cores), or paper.")
    ] = "small",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds, from 0 on (default: the scale's).")
    ] = None,
    figures_only: Annotated[
        bool,
        typer.Option("--figures-only", help="Train nothing: use finished runs and stored curves."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for all runs; finished ones are kept.")] = Path(
        "runs/reproduce"
    ),
    folder: Annotated[
        Path | None,
        typer.Option("--studies", help="Folder of studies (default: the paper's).", readable=False),
    ] = None,
    store: Annotated[
        bool, typer.Option("--store", help="Add your runs to the results stored with the studies.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Skip runs whose results are stored with the studies.")
    ] = False,
    jobs: Annotated[
        str, typer.Option(metavar="auto|N", help="Number of runs in parallel.")
    ] = "auto",
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments, and say which of its claims hold.

    For each claim you see the paper's number, the result that is stored with mmfl, yours, how far
    the two may differ, and the verdict. The exit code is 1 if one of your results differs from the
    stored one by more than that, or if a run failed; otherwise it is 3 if a task never trained. The
    same command resumes after an interruption.
    """
    from rich.console import Console

    from mmfl.comparison import read_jobs
    from mmfl.reproduce import Reproduction, find_paper, find_studies

    with name_options_of("jobs"):
        wanted = read_jobs(jobs)
    home = find_paper() if folder is None else folder
    names = find_studies(home) if "all" in studies else list(dict.fromkeys(studies))
    todo = [Reproduction(home, name, scale, out) for name in names]
    where = sys.stderr if json else sys.stdout
    console = Console(file=where, quiet=quiet, highlight=False, markup=False)
    kept = f"(finished runs are in {out}; run the same command again to resume)"
    survive_closed_output("standard output was closed; the reproduction continues without it")
    found: dict[str, Any] = {}
    failed: list[str] = []
    for one in todo:
        console.print(printable(f"{one.name}: {one.study.title} ({one.study.paper})"))
        chosen = range(one.default_seeds() if seeds is None else seeds)
        if not figures_only:
            with stop_on_signals(lambda: kept):
                planned = one.comparisons(chosen, data_dir, missing=missing)
                failed += run_missing(one.name, planned, wanted, console)
        found[one.name] = _show(one, () if figures_only else chosen, console, store)
        console.print()
    if store:
        _write_page(home, scale, out, console)
    if json:
        typer.echo(json_.dumps(found))
    problems = [*_find_missed(found), *failed]
    broken = [f"{name}: {said}" for name, one in found.items() for said in one["broken"]]
    for sentence in (*problems, *broken):
        complain(sentence)
    if problems or broken:
        raise typer.Exit(1 if problems else NEVER_TRAINED)


def _find_missed(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A sentence about the results that are not as stored, if there are any."""
    missed = [f"{name}: {says}" for name, one in found.items() for says in one["missed"]]
    if missed:
        more = f" (and {len(missed) - 1} more)" if len(missed) > 1 else ""
        yield f"a result differs from the stored one by more than the tolerance: {missed[0]}{more}"


def _show(one: Reproduction, seeds: Sequence[int], console: Console, store: bool) -> dict[str, Any]:
    """Print the tables and draw the figure; returns what ``--json`` prints about a study."""
    from mmfl.reproduce import AuctionStudy, list_claims, make_overview, make_times

    yours = one.collect(seeds)
    findings = one.check(yours)  # before they are merged with the stored results
    if store and yours.runs:
        one.store(yours)
    shown = one.load_results() if store or not yours.runs else yours
    if not shown.runs:
        console.print("no finished runs, and no stored results at this scale")
        return {"claims": [], "missed": [], "broken": [], "figure": None}
    if not isinstance(one.study, AuctionStudy):
        console.print(make_overview(shown.variants()).draw())
        console.print()
        for unit, title in (("rounds", "rounds"), ("seconds", "virtual seconds")):
            if table := make_times(shown.variants(), unit):
                console.print(f"{title} to the target; > (1/4): 1 of 4 runs never reaches it")
                console.print(table.draw())
                console.print()
    about = _remarks(shown)
    for remark in about:
        console.print(remark.line, soft_wrap=True)
    if findings:
        console.print(list_claims(findings))
        console.print()
    path = _draw(one, shown, console, store)
    what = "your runs" if yours.runs else "stored results"
    made = printable("; ".join(shown.made))
    console.print(f"{what}: {shown.minutes:.0f} minutes; {made}", soft_wrap=True)
    return {
        "claims": [_describe(finding) for finding in findings],
        "missed": [f.claim.says for f in findings if f.match == "missed"],
        "broken": [remark.line.removeprefix("! ") for remark in about if remark.serious],
        "figure": None if path is None else str(path),
        "minutes": shown.minutes,
        "made": shown.made,
    }


def _remarks(shown: Archive) -> list[Remark]:
    """What a reader must know about runs: which never trained, or were made differently."""
    from mmfl.report import remarks

    return [
        replace(remark, variant=", ".join(filter(None, (setting, remark.variant))))
        for setting, variants in shown.variants().items()
        for remark in remarks([*variants.values()])
    ]


def _write_page(home: Path, scale: str, out: Path, console: Console) -> None:
    """Write RESULTS.md, and the tables for LaTeX, from the results of all studies."""
    from mmfl.reproduce import (
        AuctionStudy,
        Reproduction,
        find_studies,
        make_overview,
        make_results_page,
        read_summary,
    )
    from mmfl.system.files import write_file

    every = [Reproduction(home, name, scale, out) for name in find_studies(home)]
    for one in every:
        runs = one.load_results().variants()
        if runs and not isinstance(one.study, AuctionStudy):
            write_file(one.figure.with_suffix(".tex"), make_overview(runs).latex().encode())
    path = home / ("RESULTS.md" if scale == "small" else f"RESULTS-{scale}.md")
    write_file(path, make_results_page(every, scale, read_summary(home, scale)).encode())
    console.print(f"results: {path}", soft_wrap=True)


def _draw(one: Reproduction, shown: Archive, console: Console, store: bool) -> Path | None:
    """Save the figure; None if there is nothing to draw."""
    from mmfl.reproduce import draw_study

    if not one.study.panels:
        return None
    path = one.figure if store else one.folder.parent / f"{one.name}.png"
    try:
        draw_study(one.study, shown, path)
    except InputError as error:
        console.print(f"no figure: {error}")
        return None
    console.print(f"figure: {path}", soft_wrap=True)
    return path


def _describe(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    from mmfl.runs import no_nan

    def outcome(one: Any) -> Any:
        if one is None:
            return None
        return {
            "mean": one.spread.mean,
            "sd": one.spread.sd,
            "seeds": one.spread.n,
            "interval": one.interval,
            "verdict": one.verdict,
            "detail": one.detail,
        }

    table: dict[str, Any] = no_nan(
        {
            "says": finding.claim.says,
            "paper": finding.claim.paper,
            "stored": outcome(finding.stored),
            "yours": outcome(finding.yours),
            "tolerance": finding.tolerance,
            "match": finding.match,
        }
    )
    return table
