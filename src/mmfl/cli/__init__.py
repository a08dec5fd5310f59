"""The command line. Heavy modules are imported by the commands that need them, not here."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TextIO

import typer

from mmfl import __version__
from mmfl.cli import auction, check, compare, data, plan, profile, run, status
from mmfl.errors import MmflError, MmflWarning
from mmfl.memory import ran_out

__all__ = ["app", "main"]

app = typer.Typer(
    name="mmfl",
    help="Train several models at once over one pool of federated clients, fairly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("plan")(plan.plan)
app.command("check")(check.check)
app.command("schema")(check.schema)
app.command("status")(status.status)
app.command("profile")(profile.profile)
app.add_typer(auction.app, name="auction")
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mmfl {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    """Train several models at once over one pool of federated clients, fairly."""


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning is one line, whoever warns."""
    name = "" if issubclass(category, MmflWarning) else f"{category.__name__}: "
    typer.echo(f"mmfl: warning: {name}{' '.join(str(message).split())}", err=True)


def main() -> None:
    """Run the command line; a mistake is one sentence on standard error and exit code 2."""
    warnings.showwarning = _show_warning
    try:
        app()
    except MmflError as error:
        typer.echo(f"mmfl: {error}", err=True)
        sys.exit(2)
    except MemoryError as error:
        typer.echo(f"mmfl: {ran_out(error)}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read our output has gone: say no more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
