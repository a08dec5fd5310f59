"""``mmfl profile``: where a round's time goes, and which kernel would be fastest."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.options import AllowImports, Config, DataDir, Json, Sets, allowed, stopped_by_signals

if TYPE_CHECKING:
    from rich.table import Table

    from mmfl.runs import Profile

__all__ = ["profile"]

_WORDS = {
    "train": "workers train",
    "dispatch": "workers wait",
    "aggregate": "check and aggregate",
    "evaluate": "evaluate",
    "store": "store",
}


def profile(
    config: Config,
    set_: Sets = None,
    rounds: Annotated[
        int, typer.Option(min=2, help="How many rounds to run; the first is not counted.")
    ] = 4,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
) -> None:
    """Show where a round's time goes, and which kernel trains each task fastest here."""
    from mmfl.experiment import Experiment
    from mmfl.runs import profile as profile_run

    imports = allowed(allow_imports, config)
    experiment = Experiment.load(config, sets=set_ or [], allow_imports=imports)
    with stopped_by_signals(lambda: "while measuring; nothing was saved"):
        found = profile_run(experiment, rounds=rounds, data_dir=data_dir)
    if json:
        import json as format_

        table = dataclasses.asdict(found) | {"fastest": found.fastest, "pin": found.pins}
        typer.echo(format_.dumps(table))
        return
    _show(found, config.name)


def _show(found: Profile, config: str) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    shares = found.shares
    console.print(
        f"a round takes {shares.whole:.3g} s with {found.workers} workers "
        f"({found.samples / shares.whole:,.0f} training examples a second), "
        f"after {found.setup:.1f} s of set-up"
    )
    console.print(_parts(found))
    console.print("\ntraining examples a second, one worker")
    console.print(_kernels(found))
    changed = {t: k for t, k in found.fastest.items() if k != found.kernels[t]}
    how = "would be fastest here" if changed else "is what is used now; no other is faster"
    console.print(f"\nto pin in {config} ({how}):\n{found.pins}")
    if shares.dispatch > 0.3 * shares.whole and found.workers > 1:
        console.print(
            "\nworkers wait for a good part of a round: several runs at once "
            "(mmfl compare --jobs) would use the cores better"
        )


def _parts(found: Profile) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("a round")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    for name, seconds in dataclasses.asdict(found.shares).items():
        share = seconds / found.shares.whole
        table.add_row(_WORDS[name], f"{seconds:.4f}", f"{100 * share:.1f}%")
    return table


def _kernels(found: Profile) -> Table:
    from rich.table import Table

    names = sorted({kernel for pace in found.pace.values() for kernel in pace})
    table = Table(box=None, pad_edge=False)
    table.add_column("task")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("used")
    for task, pace in found.pace.items():
        cells = [f"{pace[name]:,.0f}" if name in pace else "-" for name in names]
        table.add_row(task, *cells, found.kernels[task])
    return table
