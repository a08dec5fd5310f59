"""``mmfl export``: a run's tables and models in files that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.shared.options import AllowImports, Json, find_modules
from mmfl.errors import InputError, printable

__all__ = ["export"]


def export(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="DIR", help="Write every table as a CSV file into DIR."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="DIR",
            help="Write each task's model into DIR/TASK: weights, configuration, model card.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Write a run's tables or models for other programs.

    Of a run that is not finished, it writes the rounds so far, and the models of the newest
    checkpoint.
    """
    from mmfl.runs.export import export_models, export_tables

    if csv is None and model is None:
        raise InputError("say what to export: --csv DIR, --model DIR or both")
    if allow_imports:
        find_modules(folder / "experiment.toml")
    tables = {} if csv is None else export_tables(folder, csv, force=force)
    models = (
        []
        if model is None
        else export_models(folder, model, force=force, allow_imports=allow_imports)
    )
    if json:
        import json as format_

        found = {
            "run_dir": str(folder),
            "tables": {str(path): count for path, count in tables.items()},
            "models": list(map(str, models)),
        }
        typer.echo(format_.dumps(found))
        return
    for path, count in tables.items():
        typer.echo(printable(f"{path}: {count:,} row{'s' * (count != 1)}"))
    for path in models:
        typer.echo(printable(str(path)))
