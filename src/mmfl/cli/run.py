"""``mmfl run``: train, show progress, store everything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.options import (
    AllowImports,
    Config,
    DataDir,
    Json,
    Quiet,
    Sets,
    find_modules,
    stopped_by_signals,
)

__all__ = ["run"]


def run(
    config: Config,
    set_: Sets = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; by default a new one in runs.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Short for --set engine.kind=...", metavar="KIND")
    ] = None,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train all tasks of an experiment, and store the run."""
    from mmfl.cli.view import View
    from mmfl.experiment import Experiment
    from mmfl.runs.result import Run
    from mmfl.runs.runner import stored_rounds

    if allow_imports:
        find_modules(config)
    sets = [*(set_ or []), *([f"engine.kind={engine}"] if engine else [])]
    experiment = Experiment.load(config, sets=sets, allow_imports=allow_imports)
    wanted = Path("runs") / config.stem if out is None else out
    view = View(experiment, sys.stderr if json else sys.stdout, quiet=quiet)
    stored = stored_rounds(experiment, wanted, data_dir=data_dir, renumber=out is None)
    done = 0

    def when() -> str:
        return f"after round {done} of {experiment.rounds}" if done else "before the first round"

    with stopped_by_signals(when), view, stored:
        stored.start()
        view.recruited(stored.hiring)
        for _, record in stored:
            done = record.round
            view.show(record)
    result = Run.load(stored.folder)
    if json:
        typer.echo(result.to_json())
    elif not quiet:
        view.close_with(result)
