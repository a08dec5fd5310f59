"""``mmfl plan``: what alphas and budgets will do, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from mmfl.cli.shared.options import (
    AllowImports,
    Config,
    DataDir,
    Json,
    Sets,
    name_options_of,
    prepare_imports,
    stop_on_signals,
)
from mmfl.cli.shared.output import Figure, Force, check_figure
from mmfl.errors import InputError, StoreError

__all__ = ["plan"]

T = TypeVar("T")

_OPTIONS = ("alpha", "beta", "budget", "difficulty", "draws", "run", "target")


def plan(
    config: Config,
    alpha: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Values of alpha, such as 1,2,3,5 (default: the experiment's)."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="LIST",
            help="Budgets of the auction, such as 10,20,29 (default: the experiment's).",
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A run, or a folder of mmfl compare, that shows how hard each task is and how "
            "fast it learns (repeatable).",
        ),
    ] = None,
    difficulty: Annotated[
        str | None,
        typer.Option(metavar="TASK=F,...", help="How hard each task is, instead of --run."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="M or TASK=M,...",
            help="The metric to reach (default: each task's own target). Needs --run.",
        ),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            help="A round with n clients is worth n^BETA; from 0 to 1 (default: fitted to the "
            "runs if they have rounds with different numbers of clients, else 0.25).",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(help="How many times to simulate each alpha and budget.")
    ] = 50,
    figure: Figure = None,
    force: Force = False,
    set_: Sets = None,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Predict the effect of alpha and budget.

    For each alpha and budget: clients, take-up, spend, starved tasks and the rounds needed. Nothing
    is trained: the rounds are simulated.
    """
    from mmfl.cli.auction_input import parse_amounts, parse_numbers
    from mmfl.experiment import Experiment, find_inputs
    from mmfl.planning import plan as make_plan

    alphas = [] if alpha is None else parse_numbers(alpha, "--alpha", "numbers like 1,2,3,5 or 1-5")
    budgets = [] if budget is None else parse_amounts(budget, "--budget")
    rule = "--difficulty must be like fashion=0.4"
    hard = None if difficulty is None else _by_task(difficulty, rule)
    imports = prepare_imports(allow_imports, config)
    experiment = Experiment.load(config, sets=set_ or [], allow_imports=imports)
    check_figure(figure, inputs=[config, *find_inputs(experiment, data_dir)], force=force)
    with stop_on_signals(lambda: "before the plan was finished"), _values_named():
        prediction = make_plan(
            experiment,
            alphas=alphas,
            budgets=budgets,
            runs=run or (),
            difficulty=hard,
            targets=None if target is None else _target(target),
            beta=beta,
            draws=draws,
            data_dir=data_dir,
            watch=_show_progress,
        )
    if json:
        from json import dumps

        typer.echo(dumps(prediction.data()))
    else:
        from mmfl.cli.views.plan import show_plan

        show_plan(prediction)
    if figure is not None:
        from mmfl.report.figures import save_plan

        save_plan(prediction, figure, title=config.stem)
        if not json:
            typer.echo(f"wrote {figure}")


def _show_progress(trials: Iterable[T], steps: int) -> Iterator[T]:
    from mmfl.cli.views.auction import progress

    with progress("planning", steps) as follow:
        yield from follow(trials)


@contextmanager
def _values_named() -> Iterator[None]:
    """Name the option in messages about a value or a run that was given with it."""
    try:
        with name_options_of(*_OPTIONS):
            yield
    except StoreError as error:
        raise StoreError(f"--run: {error}") from error.__cause__


def _by_task(text: str, rule: str) -> dict[str, float]:
    """From "fashion=0.4,digits=0.1" to numbers by task; `rule` begins with the option."""
    values: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise InputError(f"{rule},digits=0.1, got {text!r}")
        if name in values:
            raise InputError(f"{rule.partition(' ')[0]}: task {name!r} is given twice")
        values[name] = number
    return values


def _target(text: str) -> float | dict[str, float]:
    """One number for all tasks, or one by task."""
    try:
        return float(text)
    except ValueError:
        return _by_task(text, "--target must be a number, or like fashion=0.4")
