"""``mmfl status``: how far a run has got, or how it ended."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.shared.options import Json
from mmfl.cli.shared.streams import complain
from mmfl.errors import StoreError

if TYPE_CHECKING:
    from mmfl.runs import Run

__all__ = ["status"]


def status(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    json: Json = False,
) -> None:
    """Show how far a run has got, or how it ended.

    Rows, settings and models are checked against their hashes.

    The exit code is 1 if the run is damaged, and 2 if there is no run that can be read.
    """
    from mmfl.runs import Run, find_damage

    run = replace(Run.load(folder, damaged=True), damage=find_damage(folder))
    if json:
        typer.echo(run.to_json())
    else:
        _show(run, folder)
    if run.damage:
        damage = StoreError(
            f"the run in {str(folder)!r} is damaged and should not be trusted: {run.damage}"
        )
        complain(str(damage))
        raise typer.Exit(1)


def _show(run: Run, folder: Path) -> None:
    from mmfl.cli.views.console import open_console
    from mmfl.cli.views.progress import (
        faults_table,
        merits_line,
        recruitment_line,
        results_table,
        troubles,
    )

    console = open_console()
    mark = ", DAMAGED" if run.damage else ""
    typer.echo(f"{folder}: {run.status}, {run.rounds} of {run.planned} rounds{mark}")
    if run.rounds:
        console.print(results_table(run))
        if merits_line(run):
            typer.echo(merits_line(run))
    if run.recruitment is not None:
        typer.echo(recruitment_line(run.recruitment))
    if run.faults:
        console.print(faults_table(run))
    for line in troubles(run):
        typer.echo(line)
    if run.fingerprint:
        typer.echo(f"fingerprint {run.fingerprint}")
    elif run.status != "running" and not run.damage:
        config = folder / "experiment.toml"
        words = ["mmfl", "run", str(config), "--resume", "--out", str(folder)]
        words += ["--allow-imports"] if _imports_code(config) else []
        where = f"after round {run.saved}" if run.saved else "from the start"
        typer.echo(f"resume {where} with: {shlex.join(words)}")


def _imports_code(config: Path) -> bool:
    """Whether an experiment can be read only if imports are allowed."""
    from mmfl.errors import ConfigError
    from mmfl.experiment import Experiment
    from mmfl.system.files import SETTINGS, read_text

    try:
        Experiment.from_toml(read_text(config, limit=SETTINGS))
    except ConfigError as error:
        return "would import code" in str(error)
    except (OSError, UnicodeError):  # a pipe, for example: resuming says what is wrong with it
        return False
    return False
