"""``mmfl check`` and ``mmfl schema``: everything about an experiment file but training."""

from __future__ import annotations

import typer

from mmfl.cli.options import AllowImports, Config, DataDir, Sets, find_modules

__all__ = ["check", "schema"]


def check(
    config: Config,
    set_: Sets = None,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
) -> None:
    """Validate an experiment: the file, its data, its partition and its models. Trains nothing."""
    import numpy as np

    from mmfl.engines.inline import Inline
    from mmfl.experiment import Experiment
    from mmfl.turns import Population

    if allow_imports:
        find_modules(config)
    experiment = Experiment.load(config, sets=set_ or [], allow_imports=allow_imports)
    engine = Inline().open(experiment, data_dir=data_dir)
    population = Population.of(engine.federation, engine.experiment)
    params = engine.initial()
    some = min(1000, len(engine.federation.clients))
    sizes = engine.federation.sizes(population.ids(np.arange(some)))
    for number, (task, weights) in enumerate(params.items()):
        held = sizes[:, number]
        points = f"{held.min()} to {held.max()}" if np.ptp(held) else f"{held[0]}"
        typer.echo(
            f"task {task}: {weights.layout.size:,} weights in {len(weights)} tensors, "
            f"{points} examples per client"
        )
    if population.recruited is not None:
        outcome = population.recruited.outcome
        found = ", ".join(
            f"{task} {take_up:,.4g}"
            for task, take_up in zip(outcome.bids.tasks, outcome.take_up.tolist(), strict=True)
        )
        typer.echo(f"recruited: {found} clients for {outcome.spent:.4g}")
    typer.echo(
        f"{config}: fine; {len(params)} tasks, {population.count} clients of which "
        f"{len(population.active(1))} are active in round 1, {experiment.rounds} rounds"
    )


def schema() -> None:
    """Print the JSON Schema of an experiment file, for editors."""
    import json

    from mmfl.experiment import Experiment

    typer.echo(json.dumps(Experiment.json_schema(), indent=2))
