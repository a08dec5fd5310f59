"""The command line. Heavy modules are imported by the commands that need them, not here."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import TextIO

import typer

from mmfl import __version__
from mmfl.cli import (
    auction,
    benchmark,
    check,
    compare,
    dashboard,
    data,
    export,
    flower,
    log,
    plan,
    profile,
    remove,
    report,
    reproduce,
    run,
    status,
    verify,
)
from mmfl.cli import list as listing
from mmfl.cli.shared.commands import DebugCommand, ExperimentCommand, GuardedGroup, PlainCommand
from mmfl.cli.shared.debugging import is_in_debugger
from mmfl.cli.shared.streams import (
    CLOSED,
    ClosedOutputError,
    complain,
    drop_output,
    escape_letters,
    explain,
    find_terminals,
    flush,
    leave_terminals,
    watch_output,
)
from mmfl.errors import MmflError, MmflWarning, printable
from mmfl.system.interrupts import interruptible
from mmfl.system.memory import describe_shortage
from mmfl.system.standard_streams import open_standard_files

__all__ = ["app", "main"]

app = typer.Typer(
    name="mmfl",
    cls=GuardedGroup,
    help="Train several models at once over one pool of federated clients, fairly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda word: "figure" if word == "plot" else word,  # its old name
    },
)
app.command("run", cls=ExperimentCommand)(run.run)
app.command("compare", cls=ExperimentCommand)(compare.compare)
app.command("plan", cls=ExperimentCommand)(plan.plan)
app.command("reproduce", cls=DebugCommand)(reproduce.reproduce)
app.command("benchmark", cls=DebugCommand)(benchmark.benchmark)
app.command("check", cls=ExperimentCommand)(check.check)
app.command("schema")(check.schema)
app.command("list", cls=PlainCommand)(listing.list_)
app.command("log", cls=PlainCommand)(log.log)
app.command("remove", cls=PlainCommand)(remove.remove)
app.command("report", cls=PlainCommand)(report.report)
app.command("dashboard", cls=PlainCommand)(dashboard.dashboard)
app.command("status", cls=PlainCommand)(status.status)
app.command("verify", cls=PlainCommand)(verify.verify)
app.command("export", cls=PlainCommand)(export.export)
app.command("profile", cls=ExperimentCommand)(profile.profile)
app.add_typer(auction.app, name="auction")
app.add_typer(data.app, name="data")
app.add_typer(flower.app, name="flower")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mmfl {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
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
    """Print a warning as one line, wherever it comes from."""
    name = "" if issubclass(category, MmflWarning) else f"{category.__name__}: "
    complain(printable(f"warning: {name}{' '.join(str(message).split())}"))


def main() -> None:
    """Run the command line; a mistake is one sentence on standard error and exit code 2."""
    warnings.showwarning = _show_warning
    warnings.simplefilter("default", MmflWarning)  # shown whatever PYTHONWARNINGS says
    with interruptible(partial(leave_terminals, find_terminals())) as signals:
        try:
            sys.exit(_exit_code())
        except (SystemExit, KeyboardInterrupt):
            if signals.interrupt is not None:
                sys.exit(signals.interrupt.exit_code)
            raise


def _exit_code() -> int:
    """Run a command; the exit code, unless it is raised as `SystemExit`."""
    try:
        open_standard_files()
        escape_letters()
        with watch_output():
            try:
                app()
            finally:
                flush()
    except MmflError as error:
        if is_in_debugger():
            raise
        complain(str(error))
        return 2
    except MemoryError as error:
        complain(str(describe_shortage(error)))
        return 2
    except ClosedOutputError:
        return CLOSED
    except OSError as error:
        complain(explain(error))
        drop_output()
        return 2
    return 0
