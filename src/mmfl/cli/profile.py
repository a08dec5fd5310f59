"""``mmfl profile``: where a round's time goes, and which kernel would be fastest."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.shared.options import (
    AllowImports,
    Config,
    DataDir,
    Json,
    Sets,
    prepare_imports,
    stop_on_signals,
)

if TYPE_CHECKING:
    from mmfl.report import Grid
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
    """Show where a round's time goes, and which kernel trains each task fastest."""
    from mmfl.experiment import Experiment
    from mmfl.runs import profile as profile_run

    imports = prepare_imports(allow_imports, config)
    experiment = Experiment.load(config, sets=set_ or [], allow_imports=imports)
    with stop_on_signals(lambda: "while measuring; nothing was saved"):
        measured = profile_run(experiment, rounds=rounds, data_dir=data_dir)
    if json:
        import json as format_

        table = dataclasses.asdict(measured) | {"fastest": measured.fastest, "pin": measured.pins}
        typer.echo(format_.dumps(table))
        return
    _show(measured, config.name)


def _show(measured: Profile, config: str) -> None:
    from mmfl.cli.views.console import open_console

    console = open_console()
    shares = measured.shares
    console.print(
        f"a round takes {shares.whole:.3g} s with {measured.workers} workers "
        f"({measured.samples / shares.whole:,.0f} training examples per second), "
        f"after {measured.setup:.1f} s of setup"
    )
    console.print(_parts(measured))
    console.print("\ntraining examples per second, one worker")
    console.print(_kernels(measured))
    changed = {t: k for t, k in measured.fastest.items() if k != measured.kernels[t]}
    how = "would be fastest here" if changed else "already in use; no other is faster"
    console.print(f"\nto pin in {config} ({how}):\n{measured.pins}")
    if shares.dispatch > 0.3 * shares.whole and measured.workers > 1:
        console.print(
            "\nworkers spend much of a round waiting: running several experiments at once "
            "(mmfl compare --jobs) would use the cores better"
        )


def _parts(measured: Profile) -> Grid:
    from mmfl.report import Grid

    rows = []
    for name, seconds in dataclasses.asdict(measured.shares).items():
        share = seconds / measured.shares.whole
        rows.append((_WORDS[name], f"{seconds:.4f}", f"{100 * share:.1f}%"))
    return Grid.of(("a round", "seconds", "share"), rows)


def _kernels(measured: Profile) -> Grid:
    from mmfl.report import Column, Grid

    names = sorted({kernel for pace in measured.pace.values() for kernel in pace})
    columns = [
        Column.of(
            name, [f"{pace[name]:,.0f}" if name in pace else "-" for pace in measured.pace.values()]
        )
        for name in names
    ]
    tasks = Column.of("task", measured.pace, "left")
    used = Column.of("used", [measured.kernels[task] for task in measured.pace], "left")
    return Grid([tasks, *columns, used])
