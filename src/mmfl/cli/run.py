"""``mmfl run``: train, show progress, store everything."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.shared.debugging import log_traces
from mmfl.cli.shared.options import (
    AllowImports,
    Config,
    DataDir,
    Json,
    Quiet,
    Sets,
    find_modules,
    stop_on_signals,
)
from mmfl.cli.shared.streams import NEVER_TRAINED, complain, survive_closed_output
from mmfl.errors import ConfigError, MmflError

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["run"]


def run(
    config: Config,
    set_: Sets = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: a new one in runs/).")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Shorthand for --set engine.kind=...", metavar="KIND")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume the run in the directory (default: the last one with this name) from its "
            "newest checkpoint, or start it if there is no run yet.",
        ),
    ] = False,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train all tasks of an experiment and store the run.

    If a task never trained, because all its turns failed or no client could train it, the run is
    still stored and the exit code is 3.
    """
    from mmfl.cli.views.progress import ProgressView
    from mmfl.loop import find_new_traces
    from mmfl.runs import Run, stored_rounds

    if allow_imports:
        find_modules(config)
    experiment = _load(config, set_ or [], engine, allow_imports=allow_imports)
    wanted = Path("runs") / config.stem if out is None else out
    view = ProgressView(experiment, sys.stderr if json else sys.stdout, quiet=quiet)
    stored = stored_rounds(
        experiment, wanted, data_dir=data_dir, renumber=out is None, resume=resume
    )
    survive_closed_output("standard output was closed; the run continues without it")
    found = resume  # whether the folder holds this run, not another one

    def where() -> str:
        return _describe_stop(stored.folder) if found else "before the first round"

    seen = set[str]()
    with log_traces() as log, stop_on_signals(where), view, stored:
        stored.start()
        found = True
        view.show_start(stored.folder, stored.after)
        view.show_recruitment(stored.recruitment)
        for _, record in stored:
            view.show(record)
            for trace in find_new_traces(record.failures, seen):
                log.note(trace)
    result = Run.load(stored.folder)
    if json:
        typer.echo(result.to_json())
    elif not quiet:
        view.close_with(result)
    failed = [
        f"task {name!r} never trained: {turns.why}"
        for name, turns in result.outcomes.items()
        if turns.broken
    ]
    if failed:
        complain("; ".join(failed), loud=True)
        raise typer.Exit(NEVER_TRAINED)


def _load(
    config: Path, sets: Sequence[str], engine: str | None, *, allow_imports: bool
) -> Experiment:
    """Load the experiment; a mistake in the engine's kind names --engine, not --set."""
    from mmfl.experiment import Experiment

    load = partial(Experiment.load, config, allow_imports=allow_imports)
    if not engine:
        return load(sets=sets)
    try:
        return load(sets=[*sets, f"engine.kind={engine}"])
    except ConfigError as error:
        said = str(error).removeprefix("sets: engine.kind: ")
        if said == str(error):
            raise
        load(sets=sets)  # raises if the mistake is in a --set
        raise ConfigError(f"--engine: {said}") from error.__cause__


def _describe_stop(folder: Path) -> str:
    """Where a run was stopped, according to its directory, and the command that resumes it."""
    from mmfl.runs import Run

    try:
        run = Run.load(folder)
    except (MmflError, OSError):
        return "before the first round"
    if not run.rounds:
        return "before the first round"
    if not run.saved:
        return f"after round {run.rounds} of {run.planned}, without a checkpoint"
    return f"after round {run.saved} of {run.planned}; resume with: {_resume_command(folder)}"


def _resume_command(folder: Path) -> str:
    """This command, with the options that resume the run."""
    given = [word for word in sys.argv[1:] if word != "--resume"]
    named = any(word == "--out" or word.startswith("--out=") for word in given)
    return shlex.join(["mmfl", *given, "--resume", *([] if named else ["--out", str(folder)])])
