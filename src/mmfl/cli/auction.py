"""``mmfl auction``: winners and payments from a table of bids, and who gains by lying."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl import __version__
from mmfl.cli.shared.commands import DebugCommand
from mmfl.cli.shared.options import AllowImports, Json, prepare_imports, stop_on_signals
from mmfl.cli.shared.output import Figure, Force, check_figure, check_out, output
from mmfl.errors import InputError
from mmfl.system.user_code import guard_part

if TYPE_CHECKING:
    from mmfl.market import Mechanism

__all__ = ["app"]

app = typer.Typer(help="Run, compare and check auctions.", no_args_is_help=True)

Table = Annotated[
    Path,
    typer.Argument(
        metavar="BIDS",
        help="A CSV file of bids (one line per client, one column per task, empty = unwilling), or "
        "a TOML file: a description of simulated bids, or an experiment with \\[recruitment].",
        show_default=False,
        readable=False,
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--mechanism", "-m", metavar="KIND", help="The mechanism to run (default: max_min_fair)."
    ),
]
Budget = Annotated[float | None, typer.Option("--budget", "-b", help="The total budget.")]
Payment = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="Payment rule of budget_fair and max_min_fair: critical (default) or share.",
    ),
]
Integer = Annotated[
    bool, typer.Option("--integer", help="Recruit whole clients only (max_min_fair).")
]
Threshold = Annotated[float | None, typer.Option(help="The price that value_threshold posts.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed of simulated bids, and of the order in random_within_budget.", min=0),
]


@app.command(cls=DebugCommand)
def run(
    bids: Table,
    mechanism: Kind = None,
    budget: Budget = None,
    payment: Payment = None,
    integer: Integer = False,
    threshold: Threshold = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Write winners and payments to this CSV file.")
    ] = None,
    force: Force = False,
    figure: Figure = None,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Run one auction: winners, prices, take-up and spend of each task."""
    from mmfl.cli.auction_input import FIXED, Options, Source, kind_of
    from mmfl.cli.views.auction import outcome_data, show_outcome
    from mmfl.market.bids_io import write_rows

    source = Source.of(bids, allow_imports=prepare_imports(allow_imports, bids))
    check_out(out, inputs=source.inputs, force=force)
    check_figure(figure, inputs=source.inputs, force=force, out=out)
    given = Options(budget, payment, integer, threshold, seed)
    rule = source.mechanism(mechanism, given)
    table = source.bids(seed, needed=hasattr(rule, "seed"))
    with guard_part("mechanism", rule, kind=InputError):
        outcome = rule.recruit(table)
    money: float | None = getattr(rule, "budget", None)
    if out is not None:
        with output(out, force=force) as file:
            write_rows(outcome, file)
    if figure is not None:
        from mmfl.report.figures import save_supply

        save_supply(outcome, figure, title=_describe_rule(rule))
    if json:
        from json import dumps

        typer.echo(dumps({"mechanism": kind_of(rule), **outcome_data(outcome, money)}))
        return
    share = money / table.shape[1] if kind_of(rule) in FIXED and money is not None else None
    show_outcome(outcome, _describe_rule(rule), money, share)
    _say_written(out, figure)


@app.command(cls=DebugCommand)
def compare(
    bids: Table,
    budget: Annotated[
        str,
        typer.Option("--budget", "-b", metavar="LIST", help="Budgets, such as 10,20,29 or 1-60."),
    ],
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism", "-m", metavar="LIST", help="The mechanisms to run (default: all)."
        ),
    ] = None,
    payment: Payment = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Prices that value_threshold posts, such as 0.4,0.6."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Seeds of simulated bids, such as 0-4.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write all results to this JSON file.")] = None,
    force: Force = False,
    figure: Figure = None,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Run all auctions with several budgets and compare them side by side."""
    from json import dumps

    from mmfl.cli.auction_input import Source, contenders, parse_amounts
    from mmfl.cli.views.auction import progress, show_contest
    from mmfl.market.truthfulness import auctions, make_contest

    budgets = parse_amounts(budget, "--budget")
    rules = contenders(mechanism, payment, threshold)
    source = Source.of(bids, allow_imports=prepare_imports(allow_imports, bids))
    check_out(out, inputs=source.inputs, force=force)
    check_figure(figure, inputs=source.inputs, force=force, out=out)
    with stop_on_signals(lambda: "before all auctions were run"):
        tables = source.tables(seeds)
        steps = len(rules) * len(set(budgets)) * len(tables)
        with progress("auctions", steps) as followed:
            results = followed(auctions(rules, tables, budgets))
            comparison = make_contest(rules, tables, budgets, results)
    data = {
        "command": _command(),
        "version": __version__,
        "options": {
            name: {key: value for key, value in _options(rule).items() if key != "budget"}
            for name, rule in rules.items()
        },
        **comparison.data(),
    }
    if out is not None:
        with output(out, force=force, folders=True) as file:
            file.write(_text(data))
    if figure is not None:
        from mmfl.report.figures import save_auctions

        clients, tasks = next(iter(tables.values())).shape
        title = f"{bids.stem}: {clients:,} clients, {tasks:,} tasks"
        save_auctions(comparison, figure, title=title)
    if json:
        typer.echo(dumps(data))
        return
    show_contest(comparison)
    _say_written(out, figure)


@app.command(cls=DebugCommand)
def check(
    bids: Table,
    mechanism: Kind = None,
    budget: Budget = None,
    payment: Payment = None,
    integer: Integer = False,
    threshold: Threshold = None,
    seed: Seed = None,
    clients: Annotated[
        int, typer.Option(help="How many clients to check for profitable lies; 0: all.", min=0)
    ] = 20,
    tries: Annotated[
        int, typer.Option(help="Approximate number of bids to try per client and task.", min=32)
    ] = 400,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Verify an outcome and search for profitable lies (bids are taken to be the true costs).

    The exit code is 1 if the auction overspends, or pays a client less than it bid.
    """
    from mmfl.cli.auction_input import Options, Source, kind_of
    from mmfl.cli.views.auction import audit_data, progress, show_audit
    from mmfl.market import audit

    source = Source.of(bids, allow_imports=prepare_imports(allow_imports, bids))
    rule = source.mechanism(mechanism, Options(budget, payment, integer, threshold, seed))
    table = source.bids(seed, needed=True)
    stopped = stop_on_signals(lambda: "before the search for lies was finished")
    with stopped, progress("searching for profitable lies"):
        result = audit(rule, table, users=clients or None, tries=tries, seed=seed or 0)
    if json:
        from json import dumps

        typer.echo(dumps({"mechanism": kind_of(rule), **audit_data(result)}))
    else:
        show_audit(result)
    if result.overspent or result.irrational:
        raise typer.Exit(1)


def _say_written(*paths: Path | None) -> None:
    for path in paths:
        if path is not None:
            typer.echo(f"wrote {path}")


def _describe_rule(rule: Mechanism) -> str:
    """Describe a mechanism and its options in words."""
    from mmfl.cli.auction_input import kind_of

    options = [f"{key} {_describe(value)}" for key, value in _options(rule).items()]
    return ", ".join([kind_of(rule), *options])


def _options(rule: Mechanism) -> dict[str, Any]:
    from mmfl.config import dump

    return dict(dump(rule))


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}".removesuffix(".0") if isinstance(value, float) else str(value)


def _command() -> str:
    """The command line as it was typed."""
    import shlex
    import sys

    return shlex.join(["mmfl", *sys.argv[1:]])


def _text(data: dict[str, Any]) -> str:
    """Data as JSON, with one result per line."""
    from json import dumps

    head = [f"{dumps(key)}: {dumps(value)}" for key, value in data.items() if key != "results"]
    results = ",\n  ".join(map(dumps, data["results"]))
    return "{\n " + ",\n ".join([*head, f'"results": [\n  {results}\n ]']) + "\n}\n"
