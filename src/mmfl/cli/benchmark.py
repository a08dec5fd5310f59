"""``mmfl benchmark``: allocation rules in settings that make allocation hard."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.shared.options import (
    DataDir,
    Json,
    Quiet,
    find_modules,
    name_options_of,
    stop_on_signals,
)
from mmfl.cli.shared.streams import NEVER_TRAINED, complain, survive_closed_output
from mmfl.cli.views.missing import run_missing
from mmfl.errors import InputError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from mmfl.benchmark import Benchmark, RuleScore
    from mmfl.report import Remark
    from mmfl.reproduce import Archive, Finding

__all__ = ["benchmark"]


def benchmark(
    rules: Annotated[
        str | None, typer.Option(metavar="A,B", help="Rules of the suite (default: all).")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Your own allocator, which is imported; or a table such as "
            "{kind='fed_fair',alpha=5}. Repeat the option for several.",
        ),
    ] = None,
    settings: Annotated[
        str | None, typer.Option(metavar="A,B", help="Settings of the suite (default: all).")
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            metavar="0-4", help="Seeds. Tune a rule on 0-4 and report it on 5-9, once it is frozen."
        ),
    ] = "0-4",
    scale: Annotated[str, typer.Option(help="full, or smoke (seconds): does it run?")] = "full",
    jobs: Annotated[
        str, typer.Option(metavar="auto|N", help="Number of runs in parallel.")
    ] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for all runs; finished ones are kept.")] = Path(
        "runs/benchmark"
    ),
    suite: Annotated[
        Path | None,
        typer.Option(help="Folder of a suite (default: mmfl's own).", readable=False),
    ] = None,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="Skip runs whose results are stored, and show these."),
    ] = False,
    store: Annotated[
        bool, typer.Option("--store", help="Add your runs to the results stored with the suite.")
    ] = False,
    figures_only: Annotated[
        bool,
        typer.Option("--figures-only", help="Train nothing: use finished runs, else stored ones."),
    ] = False,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare allocation rules in settings that make allocation hard.

    You see every rule in every setting, ranks over all settings with their uncertainty, and a
    picture. Your numbers are compared with those that are stored with the suite. The exit code is 1
    if one of them differs by more than the tolerance, or if a run failed; otherwise it is 3 if all
    turns of a task failed. The same command resumes after an interruption.
    """
    from rich.console import Console

    from mmfl.benchmark import Benchmark, find_suite, load_suite
    from mmfl.comparison import read_jobs, read_seeds

    home = find_suite() if suite is None else suite
    known = load_suite(home)
    with name_options_of("jobs", "rule", "rules", "scale", "seeds", "settings"):
        wanted, numbers = read_jobs(jobs), read_seeds(seeds)
        chosen = known.select("rules", rules)
        for text in rule or ():
            find_modules(home / "suite.toml")
            known, name = known.add_rule(text)
            chosen = tuple(dict.fromkeys([*chosen, name]))
        part = known.select("settings", settings)
        todo = Benchmark(known, scale, chosen, part, numbers, out, data_dir)
        todo.check()
    where = sys.stderr if json else sys.stdout
    console = Console(file=where, quiet=quiet, highlight=False, markup=False)
    failed: list[str] = []
    if not figures_only:
        if settings is None:
            todo, without = todo.drop_without_data()
            for setting in without:
                text = f"{setting} is left out: its data sets are missing (see mmfl data list)"
                console.print(text, soft_wrap=True)
        kept = f"(finished runs are in {out}; run the same command again to resume)"
        survive_closed_output("standard output was closed; the benchmark continues without it")
        with stop_on_signals(lambda: kept):
            failed = run_missing("benchmark", todo.comparisons(missing=missing), wanted, console)
    found = _show(todo, console, missing=missing, store=store)
    if json:
        typer.echo(json_.dumps(found))
    problems = [*_find_missed(found["expected"]), *failed]
    for sentence in (*problems, *found["broken"]):
        complain(sentence)
    if problems or found["broken"]:
        raise typer.Exit(1 if problems else NEVER_TRAINED)


def _show(todo: Benchmark, console: Console, *, missing: bool, store: bool) -> dict[str, Any]:
    """Print tables, draw the picture, store results; returns what ``--json`` prints."""
    from mmfl.benchmark import (
        QUANTITIES,
        find_common,
        make_matrix,
        make_page,
        make_prices,
        make_ranking,
        name_seeds,
        score_rules,
    )
    from mmfl.report import Grid
    from mmfl.system.files import write_file

    yours = todo.collect()
    findings = todo.compare(yours)  # before they are merged with the stored results
    if store and yours.runs:
        todo.store(yours)
    shown = todo.load_results() if missing or store or not yours.runs else yours
    if missing or store:
        shown.update(yours)
    if not shown.runs:
        console.print("no finished runs, and no stored results of these rules and settings")
        return {"out": str(todo.folder), "settings": {}, "rules": [], "expected": [], "broken": []}
    runs = shown.variants()
    rules = [rule for rule in todo.rules if any(rule in by_rule for by_rule in runs.values())]
    scores = score_rules(runs, rules, todo.suite.baseline)
    matrices = [make_matrix(runs, rules, title) for title in QUANTITIES]
    for columns in (*matrices, make_prices(runs, rules, todo.suite.baseline)):
        console.print(Grid(columns))
        console.print()
    if scores:
        console.print(Grid(make_ranking(scores)))
        console.print()
    about = _remarks(shown)
    for remark in about:
        console.print(remark.line, soft_wrap=True)
    if findings:
        met = sum(finding.match == "met" for finding in findings)
        console.print(f"{met} of {len(findings)} numbers are as stored with the suite")
    made = f"{shown.minutes:.0f} minutes of runs: {'; '.join(shown.made)}."
    page = make_page(todo, runs, scores, made).encode()
    homes = [todo.folder, *([todo.suite.folder / "results" / todo.scale] if store else [])]
    note = f"{len(find_common(runs, rules))} settings, {name_seeds(runs)}."
    for folder in homes:
        write_file(folder / "benchmark.md", page)
        _draw(todo, scores, folder / "benchmark.png", note, console)
    console.print(printable(f"tables: {homes[-1] / 'benchmark.md'}"), soft_wrap=True)
    console.print(printable(made), soft_wrap=True)
    broken = [remark.line.removeprefix("! ") for remark in about if remark.serious]
    return _describe(todo, shown, scores, findings) | {"broken": broken}


def _draw(
    todo: Benchmark, scores: Sequence[RuleScore], path: Path, note: str, console: Console
) -> None:
    """Draw the picture, or say why there is none."""
    from mmfl.benchmark import draw_rules

    try:
        draw_rules(scores, path, baseline=todo.suite.baseline, note=note)
    except InputError as error:
        console.print(f"no picture: {error}")
        return
    console.print(printable(f"picture: {path}"), soft_wrap=True)


def _remarks(shown: Archive) -> list[Remark]:
    """What a reader must know about runs, such as tasks that never trained."""
    from mmfl.report import remarks

    return [
        replace(remark, variant=", ".join(filter(None, (setting, remark.variant))))
        for setting, by_rule in shown.variants().items()
        for remark in remarks([*by_rule.values()])
    ]


def _find_missed(expected: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence about the numbers that are not as stored, if there are any."""
    missed = [one for one in expected if one["match"] == "missed"]
    if not missed:
        return []
    first = missed[0]
    more = f" (and {len(missed) - 1} more)" if len(missed) > 1 else ""
    said = f"{first['what']} is {first['yours']:.3f}, stored {first['stored']:.3f}"
    return [f"a result differs from the stored one by more than the tolerance: {said}{more}"]


def _describe(
    todo: Benchmark, shown: Archive, scores: Sequence[RuleScore], findings: Sequence[Finding]
) -> dict[str, Any]:
    """Everything as plain values."""
    from mmfl.benchmark import QUANTITIES
    from mmfl.report import spread
    from mmfl.reproduce import find_quantity
    from mmfl.runs import no_nan

    def values(variant: Any) -> dict[str, Any]:
        found = {
            title: spread(variant.values(find_quantity(what)).values())
            for title, what in QUANTITIES.items()
        }
        numbers = {title: {"mean": one.mean, "sd": one.sd} for title, one in found.items()}
        return {"seeds": list(variant.seeds), **numbers}

    table: dict[str, Any] = no_nan(
        {
            "out": str(todo.folder),
            "minutes": shown.minutes,
            "settings": {
                setting: {rule: values(variant) for rule, variant in by_rule.items()}
                for setting, by_rule in shown.variants().items()
            },
            "rules": [
                {
                    "rule": one.rule,
                    "price": one.price,
                    **{
                        key: {title: list(estimate) for title, estimate in table.items()}
                        for key, table in (
                            ("means", one.means),
                            ("ranks", one.ranks),
                            ("gains", one.gains),
                        )
                    },
                }
                for one in scores
            ],
            "expected": [
                {
                    "what": finding.claim.says,
                    "stored": finding.stored.spread.mean if finding.stored else None,
                    "yours": finding.yours.spread.mean if finding.yours else None,
                    "tolerance": finding.tolerance,
                    "match": finding.match,
                }
                for finding in findings
            ],
        }
    )
    return table
