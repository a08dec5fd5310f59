"""``mmfl list``: the runs and comparisons in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.shared.options import Json

if TYPE_CHECKING:
    from mmfl.runs import Catalog, Overview

__all__ = ["list_"]


def list_(
    folder: Annotated[
        Path, typer.Argument(help="A folder with runs, or a run.", show_default=True)
    ] = Path("runs"),
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Show each run of a comparison, not its variants.")
    ] = False,
    json: Json = False,
) -> None:
    """List runs and comparisons: state, rounds, worst, mean, age and size.

    The small curve is the merit of the worst task over the rounds. Numbers of a comparison's
    variants are means over seeds.

    Hashes are not checked, which takes time: mmfl status and mmfl verify check them. A run that
    cannot be read, or that contradicts itself, is listed as damaged.
    """
    from mmfl.runs import find_runs, read_overview

    catalog = find_runs(folder)
    found = [read_overview(run) for run in catalog.runs]
    if json:
        _print_json(catalog, found)
    else:
        _print_table(catalog, found, every=every)


def _print_json(catalog: Catalog, found: list[Overview]) -> None:
    import json as format_

    from mmfl.runs import no_nan, place_of

    runs = []
    for run in found:
        place = place_of(run.folder)
        where = (
            {"comparison": None, "variant": None, "seed": None}
            if place is None
            else {"comparison": str(place.folder), "variant": place.variant, "seed": place.seed}
        )
        runs.append(run.as_data() | where)
    data = {
        "folder": str(catalog.folder),
        "runs": runs,
        "not_runs": list(map(str, catalog.others)),
        "not_read": list(map(str, catalog.unread)),
    }
    typer.echo(format_.dumps(no_nan(data)))


def _print_table(catalog: Catalog, found: list[Overview], *, every: bool) -> None:
    from mmfl.cli.views.console import open_console
    from mmfl.cli.views.listing import listing_table, remarks_on

    console = open_console()
    if found:
        console.print(listing_table(catalog, found, console.width, every=every))
    else:
        typer.echo(f"no runs in {catalog.folder}")
    for line in remarks_on(catalog, found):
        console.print(line, soft_wrap=True)
