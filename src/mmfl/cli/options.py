"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AllowImports", "Config", "DataDir", "Sets"]

Config = Annotated[Path, typer.Argument(help="The experiment, a TOML file.", show_default=False)]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="A.B=C", help="Change a key, e.g. allocator.alpha=5 (repeatable)."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of npz data sets [default: what MMFL_DATA says]."),
]
AllowImports = Annotated[
    bool,
    typer.Option("--allow-imports", help="Let the experiment name classes of yours (module:Name)."),
]
