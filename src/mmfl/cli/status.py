"""``mmfl status``: how far a run is, or how it ended."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.options import Json

__all__ = ["status"]


def status(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    json: Json = False,
) -> None:
    """Show how far a run is, or how it ended."""
    from rich.console import Console

    from mmfl.cli.view import faults_table, hiring_line, results_table, troubles
    from mmfl.runs.result import Run

    run = Run.load(folder)
    if json:
        typer.echo(run.to_json())
        return
    console = Console(highlight=False, markup=False)
    typer.echo(f"{folder}: {run.status}, {run.rounds} of {run.planned} rounds")
    if run.rounds:
        console.print(results_table(run))
    if run.hiring is not None:
        typer.echo(hiring_line(run.hiring))
    if run.faults:
        console.print(faults_table(run))
    for line in troubles(run):
        typer.echo(line)
    if run.fingerprint:
        typer.echo(f"fingerprint {run.fingerprint}")
    elif run.status != "running":
        words = ["mmfl", "run", str(folder / "experiment.toml"), "--resume", "--out", str(folder)]
        where = f"after round {run.saved}" if run.saved else "from the start"
        typer.echo(f"it can go on {where}: {shlex.join(words)}")
