"""``mmfl auction``: winners and payments from a table of bids, and who gains by lying."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl import __version__
from mmfl.cli.options import Json, stopped_by_signals

if TYPE_CHECKING:
    from mmfl.market import Bids, Mechanism

__all__ = ["app"]

app = typer.Typer(help="Auctions: run one, compare them, check one.", no_args_is_help=True)

Table = Annotated[
    Path,
    typer.Argument(
        metavar="BIDS",
        help="A CSV file of bids (a line per client, a column per task, empty = unwilling), or a "
        "TOML file that describes simulated bids.",
        show_default=False,
        readable=False,
    ),
]
Kind = Annotated[str, typer.Option("--mechanism", "-m", metavar="KIND", help="Which auction.")]
Budget = Annotated[float | None, typer.Option("--budget", "-b", help="What may be spent in all.")]
Payment = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="critical (default) or share; budget_fair, max_min_fair."),
]
Integer = Annotated[bool, typer.Option("--integer", help="No fractional clients (max_min_fair).")]
Threshold = Annotated[float | None, typer.Option(help="The posted price of value_threshold.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Of random_within_budget's order, and of simulated bids.", min=0),
]
Plot = Annotated[Path | None, typer.Option(help="Draw a figure: .png, .svg or .pdf.")]


@app.command()
def run(
    bids: Table,
    mechanism: Kind = "max_min_fair",
    budget: Budget = None,
    payment: Payment = None,
    integer: Integer = False,
    threshold: Threshold = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Write who is recruited for what and paid how much (CSV).")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Run one auction: winners, prices, take-up and spend of each task."""
    from mmfl.cli.auction_view import outcome_data, show_outcome
    from mmfl.market.sources.files import write_awards

    rule = _mechanism(mechanism, budget, payment, integer, threshold, seed)
    _check_plot(plot)
    table = _bids(bids, seed)
    outcome = rule.recruit(table)
    if out is not None:
        write_awards(outcome, out)
    if plot is not None:
        from mmfl.report.auctions import supply

        supply(outcome, plot, title=_called(rule))
    if json:
        from json import dumps

        typer.echo(dumps({"mechanism": mechanism, **outcome_data(outcome, budget)}))
        return
    fixed = mechanism in _FIXED and budget is not None
    share = budget / table.shape[1] if fixed and budget is not None else None
    show_outcome(outcome, _called(rule), budget, share)
    _wrote(out, plot)


@app.command()
def compare(
    bids: Table,
    budget: Annotated[
        str, typer.Option("--budget", "-b", metavar="LIST", help="Such as 10,20,29 or 1-60.")
    ],
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", "-m", metavar="LIST", help="Some of them; by default all."),
    ] = None,
    payment: Payment = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Posted prices, such as 0.4,0.6; by default none."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Of simulated bids, such as 0-4.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write all results as JSON into this file.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Run all auctions with several budgets, side by side."""
    from json import dumps

    from mmfl.cli.auction_view import progress, show_contest
    from mmfl.market.lab.contest import auctions, gathered

    budgets = _numbers(budget, "--budget")
    contenders = _contenders(mechanism, payment, threshold)
    _check_plot(plot)
    with stopped_by_signals(lambda: "before all auctions were run"):
        tables = _tables(bids, seeds)
        steps = len(contenders) * len(set(budgets)) * len(tables)
        with progress("auctions", steps) as followed:
            results = followed(auctions(contenders, tables, budgets))
            found = gathered(contenders, tables, budgets, results)
    data = {
        "command": _command(),
        "version": __version__,
        "options": {
            name: {key: value for key, value in _options(rule).items() if key != "budget"}
            for name, rule in contenders.items()
        },
        **found.data(),
    }
    if out is not None:
        _write(data, out)
    if plot is not None:
        from mmfl.report.auctions import comparison

        clients, tasks = next(iter(tables.values())).shape
        comparison(found, plot, title=f"{bids.stem}: {clients:,} clients, {tasks:,} tasks")
    if json:
        typer.echo(dumps(data))
        return
    show_contest(found)
    _wrote(out, plot)


@app.command()
def check(
    bids: Table,
    mechanism: Kind = "max_min_fair",
    budget: Budget = None,
    payment: Payment = None,
    integer: Integer = False,
    threshold: Threshold = None,
    seed: Seed = None,
    users: Annotated[
        int, typer.Option(help="How many clients' lies are searched; 0: everybody's.", min=0)
    ] = 20,
    tries: Annotated[
        int, typer.Option(help="How many bids of a client and task are tried, about.", min=32)
    ] = 400,
    json: Json = False,
) -> None:
    """Verify an outcome, and search for lies that pay (the bids are taken as true costs)."""
    from mmfl.cli.auction_view import audit_data, progress, show_audit
    from mmfl.market.lab.audit import audit

    rule = _mechanism(mechanism, budget, payment, integer, threshold, seed)
    table = _bids(bids, seed)
    stopped = stopped_by_signals(lambda: "before the search for lies was over")
    with stopped, progress("searching for lies that pay"):
        found = audit(rule, table, users=users or None, tries=tries, seed=seed or 0)
    if json:
        from json import dumps

        typer.echo(dumps({"mechanism": mechanism, **audit_data(found)}))
    else:
        show_audit(found)
    if found.overspent or found.irrational:
        raise typer.Exit(1)


def _mechanism(
    kind: str,
    budget: float | None,
    payment: str | None,
    integer: bool,
    threshold: float | None,
    seed: int | None,
) -> Mechanism:
    """The mechanism that the options describe; an option that it does not have is a mistake."""
    import dataclasses

    from mmfl.errors import InputError, did_you_mean
    from mmfl.market import MECHANISMS

    if kind not in MECHANISMS.table:
        raise InputError(
            f"--mechanism: {kind!r} is unknown; {did_you_mean(kind, MECHANISMS.table)}"
        )
    cls = MECHANISMS.table[kind]
    known = {field.name for field in dataclasses.fields(cls)}
    given: dict[str, Any] = {"budget": budget, "payment": payment, "threshold": threshold}
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in known:
            raise InputError(f"--{name}: {kind} has no {name}")
    if integer and "fractional" not in known:
        raise InputError(f"--integer: {kind} has no fractional clients anyway")
    for name in ("budget", "threshold"):
        if name in known and name not in options:
            raise InputError(f"--{name} is needed for {kind}")
    if integer:
        options["fractional"] = False
    if "seed" in known and seed is not None:
        options["seed"] = seed
    try:
        made: Mechanism = cls(**options)
    except InputError as error:
        raise InputError(f"--{str(error).partition(': ')[2]}") from None
    return made


def _contenders(
    kinds: str | None, payment: str | None, threshold: str | None
) -> dict[str, Mechanism]:
    """Mechanisms by the names that the tables show; their budgets are set later."""
    from mmfl.errors import InputError, did_you_mean
    from mmfl.market import MECHANISMS, ValueThreshold

    prices = _numbers(threshold, "--threshold") if threshold else []
    wanted = [kind.strip() for kind in kinds.split(",")] if kinds else list(_ORDER)
    found: dict[str, Mechanism] = {}
    for kind in wanted:
        if kind == "value_threshold":
            if kinds and not prices:
                raise InputError("--threshold is needed for value_threshold")
            found |= {f"value_threshold {p:g}": ValueThreshold(p) for p in prices}
            continue
        if kind not in MECHANISMS.table:
            near = did_you_mean(kind, MECHANISMS.table)
            raise InputError(f"--mechanism: {kind!r} is unknown; {near}")
        rule = payment if kind in ("budget_fair", "max_min_fair") else None
        found[kind] = _mechanism(kind, 1.0, rule, False, None, None)
        if kind == "max_min_fair":
            found[f"{kind} integer"] = _mechanism(kind, 1.0, rule, True, None, None)
    return found


_FIXED = ("budget_fair", "greedy_within_budget", "random_within_budget")
"""Mechanisms that give each task a fixed share of the budget."""

_ORDER = (
    "max_min_fair",
    "gmm_fair",
    "budget_fair",
    "greedy_within_budget",
    "random_within_budget",
    "value_threshold",
)


def _numbers(text: str, option: str) -> list[float]:
    """Amounts from "10,20,29", "1-60" (whole steps) or both."""
    import re

    from mmfl.errors import InputError
    from mmfl.sentences import short

    found: list[float] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,15})\s*-\s*(\d{1,15})\s*", part)
        if ends and int(ends[1]) <= int(ends[2]) < int(ends[1]) + 10_000:
            found += map(float, range(int(ends[1]), int(ends[2]) + 1))
            continue
        try:
            found.append(float(part))
        except ValueError:
            raise InputError(
                f"{option} takes amounts like 10,20,29 or 1-60, got {short(text)}"
            ) from None
    for amount in found:
        if not 0 < amount < float("inf"):
            raise InputError(f"{option} must be finite and > 0, got {amount:g}")
    return found


def _bids(path: Path, seed: int | None) -> Bids:
    """The bids of a file: a table, or drawn as it says."""
    return next(iter(_tables(path, None if seed is None else str(seed)).values()))


def _tables(path: Path, seeds: str | None) -> dict[int | None, Bids]:
    from mmfl.market.sources.files import read_bids
    from mmfl.market.sources.simulated import Market
    from mmfl.runs.variants import read_seeds

    if path.suffix.lower() != ".toml":
        return {None: read_bids(path)}
    market = Market.load(path)
    numbers = (market.seed,) if seeds is None else read_seeds(seeds)
    return {seed: market.bids(seed) for seed in numbers}


def _wrote(*paths: Path | None) -> None:
    for path in paths:
        if path is not None:
            typer.echo(f"wrote {path}")


def _check_plot(path: Path | None) -> None:
    if path is not None:
        from mmfl.report.saving import check_path

        check_path(path)


def _called(rule: Mechanism) -> str:
    """A mechanism with its options, for people."""
    from mmfl.market import MECHANISMS

    said = [f"{key} {_said(value)}" for key, value in _options(rule).items()]
    return ", ".join([MECHANISMS.kind_of(rule), *said])


def _options(rule: Mechanism) -> dict[str, Any]:
    from mmfl.config import dump

    return dict(dump(rule))


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}".removesuffix(".0") if isinstance(value, float) else str(value)


def _command() -> str:
    """What was typed."""
    import shlex
    import sys

    return shlex.join(["mmfl", *sys.argv[1:]])


def _write(data: dict[str, Any], path: Path) -> None:
    """Data as JSON, one result to a line."""
    from json import dumps

    from mmfl.errors import StoreError

    head = [f"{dumps(key)}: {dumps(value)}" for key, value in data.items() if key != "results"]
    results = ",\n  ".join(map(dumps, data["results"]))
    text = "{\n " + ",\n ".join([*head, f'"results": [\n  {results}\n ]']) + "\n}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None
