"""``mmfl check`` and ``mmfl schema``: what an experiment file says, before it is run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mmfl.cli.shared.debugging import show_error, show_trace
from mmfl.cli.shared.options import AllowImports, Config, DataDir, Sets, find_modules, name_file
from mmfl.cli.shared.streams import complain
from mmfl.errors import ConfigError, MmflWarning, one_line, plural, printable

if TYPE_CHECKING:
    from mmfl.experiment import Experiment
    from mmfl.loop import RecruitedClients

__all__ = ["check", "schema"]


def check(
    config: Config,
    set_: Sets = None,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
) -> None:
    """Validate an experiment: the file, its data, its partition and its models.

    Each task makes one step of training and one evaluation. Nothing is written.

    Prints one line for every mistake that it can find at once, and says whether the mistake is in
    the file or in a --set. Rules about several keys are checked once each key is valid on its own.
    Data and models are checked once the whole file is valid.
    """
    from mmfl.experiment import Experiment

    if allow_imports:
        find_modules(config)
    with name_file(config):
        with warnings.catch_warnings(record=True) as remarks:
            try:
                experiment = Experiment.load(config, sets=set_ or [], allow_imports=allow_imports)
            except ConfigError as error:
                show_error(error)
                for mistake in error.mistakes:
                    complain(mistake)
                raise typer.Exit(2) from None
            lines = _examine(experiment, config, data_dir)
        for remark in remarks:  # now that the experiment is known to be valid
            warnings.showwarning(remark.message, remark.category, remark.filename, remark.lineno)
        for line in lines:
            typer.echo(line)


def _examine(experiment: Experiment, config: Path, data_dir: Path | None) -> list[str]:
    """The lines to print, all at once: nothing is printed about an invalid experiment."""
    from mmfl.cli.views.check import describe_trial
    from mmfl.engines import InlineEngine
    from mmfl.experiment import Local, check_experiment, worker_needs
    from mmfl.loop import Population, warn_left_out
    from mmfl.runs import check_names, try_tasks
    from mmfl.system.memory import refuse

    check_experiment(experiment)
    check_names(Path("runs"), experiment)
    raises = getattr(experiment.engine, "raise_errors", False)
    engine = InlineEngine(experiment, data_dir, raise_errors=raises is True)
    experiment = experiment.resolved()
    population = Population.of(engine.federation, experiment)
    if isinstance(experiment.engine, Local):
        workers = experiment.engine.count_workers(experiment.device)
        refuse([*worker_needs(workers), *engine.needs()], workers=workers)
    params = engine.initial()
    lines, failures = [], []
    for task, trial in try_tasks(experiment, engine, params).items():
        lines += describe_trial(experiment.task(task), trial)
        if trial.failure:
            said = f"{config}: task {task!r}: one step of training failed: {trial.failure}"
            failures.append((said, trial.trace))
    for sentence, trace in failures:
        show_trace(trace)
        complain(one_line(sentence))
    if failures:
        raise typer.Exit(2)
    if experiment.device != "cpu":
        lines.append(f"device {experiment.device}: whether its memory suffices is not known")
    names = engine.federation.names
    if names:
        few = ", ".join(f"{client} = {name}" for client, name in enumerate(names[:10]))
        more = f", ... {len(names) - 1} = {names[-1]}" if len(names) > 10 else ""
        lines.append(printable(f"clients by name: {few}{more}"))
    if population.recruited is not None:
        warn_left_out(population.recruited)
        lines.append(_describe_recruited(population.recruited))
    able = engine.federation.able()
    idle = 0 if able is None else len(engine.federation.clients) - len(able)
    if idle:
        who = "1 client holds" if idle == 1 else f"{idle:,} clients hold"
        warnings.warn(
            f"{who} no data for any task, so clients.count = {experiment.clients.count} could be "
            f"{experiment.clients.count - idle}",
            MmflWarning,
            stacklevel=2,
        )
    active = population.turnout(1)
    lines.append(
        f"{config} is valid: {plural(len(params), 'task')}, {plural(population.count, 'client')} "
        f"of which {active} {'is' if active == 1 else 'are'} active in round 1, "
        f"{plural(experiment.rounds, 'round')}"
    )
    return lines


def _describe_recruited(recruited: RecruitedClients) -> str:
    """Who was recruited for what, and how many of them can train it."""
    from mmfl.report import amount

    outcome, parts = recruited.outcome, []
    for s, task in enumerate(outcome.bids.tasks):
        able, won = recruited.able[:, s].sum(), (outcome.participation[:, s] > 0).sum()
        lack = f" ({won - able:,} without data)" if able < won else ""
        parts.append(f"{task} {amount(float(outcome.take_up[s]))}{lack}")
    return f"recruited: {', '.join(parts)} clients for {amount(outcome.spent)}"


def schema() -> None:
    """Print the JSON Schema of an experiment file, for editors."""
    import json

    from mmfl.experiment import Experiment

    typer.echo(json.dumps(Experiment.json_schema(), indent=2))
