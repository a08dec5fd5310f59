"""``mmfl run``: train, show progress, store everything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.options import AllowImports, Config, DataDir, Sets

__all__ = ["run"]


def run(
    config: Config,
    set_: Sets = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory [default: a new one in runs/].")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Short for --set engine.kind=...", metavar="KIND")
    ] = None,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Train all tasks of an experiment, and store the run."""
    from mmfl.cli.view import View
    from mmfl.experiment import Experiment
    from mmfl.runner import Run, stored_rounds
    from mmfl.store import free_folder

    sets = [*(set_ or []), *([f"engine.kind={engine}"] if engine else [])]
    experiment = Experiment.load(config, sets=sets, allow_imports=allow_imports)
    folder = out if out is not None else free_folder(Path("runs") / config.stem)
    view = View(experiment, sys.stderr if json else sys.stdout, quiet=quiet)
    done = 0
    try:
        with view, stored_rounds(experiment, folder, data_dir=data_dir) as rounds:
            for _, record in rounds:
                view.show(record)
                done = record.round
    except KeyboardInterrupt:
        typer.echo(f"mmfl: stopped after round {done} of {experiment.rounds}", err=True)
        raise typer.Exit(130) from None
    result = Run.load(folder)
    if json:
        typer.echo(result.to_json())
    elif not quiet:
        view.close_with(result)
