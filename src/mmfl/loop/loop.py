"""The round loop: Algorithm 1 (FedFairMMFL) of the paper. There is no other one in mmfl.

    for state, record in mmfl.rounds(experiment):
        print(record.round, record.metric)

Stopping early is `break`, logging is the loop's body, a checkpoint is the state that was yielded.
"""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.errors import InputError
from mmfl.experiment import check_experiment
from mmfl.loop.iteration import Rounds, Steps
from mmfl.loop.population import Population
from mmfl.loop.recruiting import warn_left_out
from mmfl.loop.setup import Setup, set_up
from mmfl.loop.state import RoundRecord, State, extend_chain
from mmfl.system.calls import perf_counter

if TYPE_CHECKING:
    from mmfl.experiment import Engine, Experiment

__all__ = ["Rounds", "play", "rounds"]


def rounds(
    experiment: Experiment,
    *,
    engine: Engine | None = None,
    data_dir: str | Path | None = None,
    state: State | None = None,
    population: Population | None = None,
) -> Rounds:
    """Train all tasks; yields (state, record) after every round.

    Args:
        experiment: What to do.
        engine: A running engine, which is left running; by default the experiment's own is started.
        data_dir: Folder of npz files; by default $MMFL_DATA.
        state: Continue after this state, with the same bits as a run without interruption.
        population: Who may train what, if known; the auction is then not run again.
    """
    check_experiment(experiment)
    folder = None if data_dir is None else Path(data_dir)
    return Rounds(_rounds(experiment, engine, folder, state, population))


def _rounds(
    experiment: Experiment,
    engine: Engine | None,
    data_dir: Path | None,
    state: State | None,
    population: Population | None,
) -> Steps:
    with set_up(experiment, engine=engine, data_dir=data_dir, population=population) as ready:
        first = ready.first_state() if state is None else state  # line 1
        yield from play(ready, first)


def play(ready: Setup, state: State) -> Steps:
    """The rounds after a state, one after the other."""
    experiment = ready.experiment
    warn_left_out(ready.population.recruited)
    if state.lineage != experiment.lineage:
        raise InputError("the state belongs to another experiment and cannot be resumed")
    for t in range(state.round + 1, experiment.rounds + 1):  # line 2
        with ready.hold() as engine:
            state, record = _round(t, ready, engine, state)
        yield state, record


def _round(t: int, ready: Setup, engine: Engine, state: State) -> tuple[State, RoundRecord]:
    allocation, aggregation, scoring = ready.allocation, ready.aggregation, ready.scoring
    population, start = ready.population, perf_counter()
    state, early, early_lies = aggregation.measure_losses(state, scoring, engine)
    active = population.active(t, state.offenders)  # line 3: m = C x K clients are active
    view, assignments, allocator = allocation.allocate(t, active, state)  # lines 4-5
    jobs = allocation.make_jobs(view, assignments, state)
    gate = ready.open_gate(view, state)
    params, aggregator = dict(state.params), dict(state.aggregator)
    for task, updates in gate.by_task(jobs):  # lines 6-11: each client trains its task
        new = aggregation.aggregate(task, view, state, updates)  # lines 12-13
        params[task], aggregator[task] = new
    versions = {task: v + (task in gate.trained) for task, v in state.versions.items()}
    trained, offenders = perf_counter(), state.offenders
    if population.quarantine is not None:
        offenders = population.quarantine.after(t, offenders, gate.delivered, gate.failures)
    state = state.replace(
        round=t,
        params=params,
        versions=versions,
        allocator=allocator,
        aggregator=aggregator,
        clients=state.clients.after(gate.accepted),
        stale=state.stale | gate.trained.keys(),
        offenders=offenders,
    )
    # line 14: obtain f_s
    difficulty, seen, silent, lies = scoring.score_tasks(t, engine, state, gate.trained)
    state = aggregation.keep_losses(state, seen)
    state, shown = ready.evaluation.evaluate_tasks(t, engine, state, seen)
    chain = extend_chain(state.chain, t, view.tasks, assignments, difficulty)
    state, done = state.replace(difficulty=difficulty, chain=chain), perf_counter()
    return state, RoundRecord(
        round=t,
        tasks=view.tasks,
        active=len(active),
        assignments=assignments,
        clients={task: gate.trained.get(task, 0) for task in view.tasks},
        samples=gate.samples,
        failures=(*early, *gate.failures, *silent),
        difficulty=difficulty,
        metric={task: m.metric if m else nan for task, m in shown.measured.items()},
        loss={task: m.loss if m else nan for task, m in shown.measured.items()},
        fresh=not shown.stale,
        seconds=done - start,
        seconds_train=trained - start,
        seconds_evaluate=done - trained,
        seconds_aggregate=gate.seconds_aggregate,
        seconds_clients=gate.seconds_clients,
        faults=(*early_lies, *gate.faults, *lies),
        virtual=gate.virtual,
        turns=gate.accepted,
    )
