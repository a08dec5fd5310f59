"""``mmfl status``: how far a run or a comparison has got, or how it ended."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.shared.options import Json
from mmfl.cli.shared.streams import complain
from mmfl.errors import StoreError

if TYPE_CHECKING:
    from mmfl.runs import Catalog, Run

__all__ = ["status"]


def status(
    folder: Annotated[
        Path, typer.Argument(help="A run directory, or a comparison's.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Show how far a run or a comparison has got, or how it ended.

    Rows, settings and models are checked against their hashes.

    The exit code is 1 if a run is damaged, and 2 if there is no run that can be read.
    """
    from mmfl.runs import Run, find_damage

    compared = _find_comparison(folder)
    if compared is not None:
        _show_comparison(compared, json=json)
        return
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


def _find_comparison(folder: Path) -> Catalog | None:
    """The runs of a comparison; None if the folder is not one."""
    from mmfl.runs import check_folder, find_runs, is_run, place_of
    from mmfl.system.files import is_folder

    check_folder(folder)
    if not is_folder(folder) or is_run(folder):
        return None
    found = find_runs(folder)
    places = [place_of(run) for run in found.runs]
    return found if any(p is not None and p.folder == folder for p in places) else None


def _show_comparison(catalog: Catalog, *, json: bool) -> None:
    """Show the runs of a comparison; the exit code is 1 if one is damaged."""
    from json import dumps, loads

    from mmfl.cli.views.console import open_console
    from mmfl.cli.views.listing import listing_table, remarks_on
    from mmfl.runs import Run, count_runs, find_damage, place_of, read_overview

    runs = [read_overview(folder) for folder in catalog.runs]
    found: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        place = place_of(run.folder)
        where = {} if place is None else {"variant": place.variant, "seed": place.seed}
        try:
            damage = run.damage or find_damage(run.folder)
            if json and not run.damage:
                stored = replace(Run.load(run.folder, damaged=True), damage=damage)
                found.append(where | loads(stored.to_json()))
        except StoreError as error:
            damage = str(error)
        if damage:
            runs[number] = replace(run, state="damaged", damage=damage)
        if len(found) == number:
            found.append(where | runs[number].as_data() | {"status": runs[number].state})
    if json:
        typer.echo(dumps({"folder": str(catalog.folder), "runs": found}))
    else:
        typer.echo(f"{catalog.folder}: {count_runs(runs)}")
        console = open_console()
        console.print(listing_table(catalog, runs, console.width))
        for line in remarks_on(catalog, runs):
            console.print(line, soft_wrap=True)
    damaged = [run for run in runs if run.damage]
    if damaged:
        said = f"the run in {str(damaged[0].folder)!r} is damaged and should not be trusted"
        complain(f"{said}: {damaged[0].damage}")
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
