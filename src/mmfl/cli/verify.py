"""``mmfl verify``: is a run directory what the run wrote?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.shared.options import AllowImports, DataDir, Json, find_modules
from mmfl.cli.shared.streams import name_options
from mmfl.errors import printable

__all__ = ["verify"]


def verify(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories.", show_default=False)
    ],
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Check the rows, models, checkpoints and data of runs against their hashes.

    The exit code is 1 if anything is damaged. Nothing is changed.
    """
    from mmfl.runs import verify as verify_run

    found = []
    for folder in folders:
        if allow_imports:
            find_modules(folder / "experiment.toml")
        result = verify_run(folder, data_dir=data_dir, allow_imports=allow_imports)
        found.append(result)
        if not json:
            for part in result.parts:
                said = name_options(part.detail).removeprefix("is ")
                detail = f": {said}" if said else ""
                typer.echo(printable(f"{folder}: {part.name}: {part.verdict}{detail}"))
    if json:
        import json as format_

        runs = [
            {
                "run_dir": str(result.folder),
                "damaged": result.damaged,
                "parts": [
                    dataclasses.asdict(part) | {"detail": name_options(part.detail)}
                    for part in result.parts
                ],
            }
            for result in found
        ]
        typer.echo(format_.dumps({"runs": runs}))
    if any(result.damaged for result in found):
        raise typer.Exit(1)
