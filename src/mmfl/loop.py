"""The round loop: Algorithm 1 (FedFairMMFL) of the paper. There is no other one in mmfl.

    for state, record in mmfl.rounds(experiment):
        print(record.round, record.metric)

Stopping early is `break`, logging is the loop's body, a checkpoint is the state that was yielded.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mmfl.errors import InputError
from mmfl.evaluate import scores, tested
from mmfl.population import Population
from mmfl.recruiting import warn_of
from mmfl.state import RoundRecord, State, chained
from mmfl.turns import Turns, allocation, jobs_of

if TYPE_CHECKING:
    from mmfl.engines.base import Engine
    from mmfl.experiment import Experiment

__all__ = ["Rounds", "rounds"]


class Rounds(Iterator[tuple[State, RoundRecord]]):
    """An iterator over rounds that closes its engine in the end: after `break`, too."""

    def __init__(self, generator: Generator[tuple[State, RoundRecord], None, None]) -> None:
        self._generator = generator

    def __next__(self) -> tuple[State, RoundRecord]:
        return next(self._generator)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the rounds and the workers."""
        self._generator.close()


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
        engine: A running engine to use, and to leave running; by default the experiment's own. It
            must have been opened for the same data, models and seed (`Experiment.world`).
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        state: Go on after this state, to the very bits of a run that was never interrupted.
        population: Who may train what, if that is known: an auction is then not held again.
    """
    known = (state, population)
    return Rounds(_rounds(experiment, engine, None if data_dir is None else Path(data_dir), *known))


def _rounds(
    experiment: Experiment,
    given: Engine | None,
    data_dir: Path | None,
    state: State | None,
    population: Population | None,
) -> Generator[tuple[State, RoundRecord], None, None]:
    engine = experiment.engine.open(experiment, data_dir=data_dir) if given is None else given
    try:
        experiment = experiment.resolved()
        experiment.refuse_world_of(engine.experiment)
        population = population or Population.of(engine.federation, experiment)
        warn_of(population.recruited)
        if state is None:
            state = State.first(engine.initial(), experiment.lineage)  # Algorithm 1, line 1
        if state.lineage != experiment.lineage:
            raise InputError("the state belongs to another experiment and cannot be continued")
        for t in range(state.round + 1, experiment.rounds + 1):  # line 2
            state, record = _round(t, experiment, engine, population, state)
            yield state, record
    finally:
        if given is None:
            engine.close()


def _round(
    t: int, experiment: Experiment, engine: Engine, population: Population, state: State
) -> tuple[State, RoundRecord]:
    start = time.perf_counter()
    tasks = engine.federation.tasks
    active = population.active(t, state.offenders)  # line 3: m = C x K clients are active
    view, assignments, allocator = allocation(t, experiment, population, active, state)  # lines 4-5

    jobs = jobs_of(population, view, assignments, state)
    turns = Turns(engine, experiment, view, state)
    params, aggregator = dict(state.params), dict(state.aggregator)
    for task, updates in turns.by_task(jobs):  # lines 6-11: each client trains its task
        params[task], aggregator[task] = experiment.aggregator.aggregate(  # lines 12-13
            state.params[task], updates, state.difficulty[task], state.aggregator[task]
        )
    versions = {task: v + (task in turns.trained) for task, v in state.versions.items()}
    trained = time.perf_counter()
    state = state.replace(
        round=t,
        params=params,
        versions=versions,
        allocator=allocator,
        aggregator=aggregator,
        clients=state.clients.after(turns.accepted),
        stale=state.stale | turns.trained.keys(),
        offenders=turns.offenders,
    )
    # line 14: obtain f_s
    difficulty, seen, silent, lies = scores(t, experiment, engine, population, state, turns.trained)
    state = tested(t, experiment, engine, state, seen)
    chain = chained(state.chain, t, tasks, assignments, difficulty)
    state, done = state.replace(difficulty=difficulty, chain=chain), time.perf_counter()
    return state, RoundRecord(
        round=t,
        tasks=tasks,
        active=len(active),
        assignments=assignments,
        clients={task: turns.trained.get(task, 0) for task in tasks},
        samples=turns.samples,
        failures=(*turns.failures, *silent),
        difficulty=difficulty,
        metric={task: m.metric if m else nan for task, m in state.measured.items()},
        loss={task: m.loss if m else nan for task, m in state.measured.items()},
        fresh=not state.stale,
        seconds=done - start,
        seconds_train=trained - start,
        seconds_evaluate=done - trained,
        seconds_aggregate=turns.seconds_aggregate,
        seconds_clients=turns.seconds_clients,
        faults=(*turns.injection.faults, *lies),
        virtual=turns.injection.virtual,
    )
