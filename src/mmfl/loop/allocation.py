"""Algorithm 1, lines 4-5: who trains what in a round, and the jobs that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.allocate import Allocator, Assignment, Assignments, View, first_fault
from mmfl.config import short
from mmfl.errors import EngineError
from mmfl.exchange import Address, Job
from mmfl.loop.population import Population
from mmfl.loop.state import State
from mmfl.rng import stream
from mmfl.system.user_code import describe_part, guard_part

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["allocate_clients", "make_jobs"]

Ints = npt.NDArray[np.int64]


def allocate_clients(
    t: int, experiment: Experiment, population: Population, places: Ints, state: State
) -> tuple[View, Assignments, Any]:
    """Algorithm 1, lines 4-5: each active client's task, and the allocator's next state."""
    federation = population.federation
    clients = population.ids(places)
    sizes = federation.sizes(clients)
    view = View(
        round=t,
        rounds=experiment.rounds,
        tasks=federation.tasks,
        difficulty=np.array([state.difficulty[task] for task in federation.tasks]),
        clients=clients,
        positions=places,
        population=len(federation.clients),
        sizes=sizes,
        eligible=population.eligible(t, places, clients, sizes),
        capacity=np.ones(len(clients), dtype=np.int64),
        remembered=state.clients,
    )
    for array in (view.difficulty, clients, places, sizes, view.eligible, view.capacity):
        array.flags.writeable = False  # the answer is checked against them
    rng = stream(experiment.seed, "allocate", t)
    allocator = experiment.allocator
    with guard_part("allocator", allocator):
        answer: Any = allocator.allocate(view, state.allocator, rng=rng)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise EngineError(
            f"{_name(allocator)} must return (assignments, state), got {short(answer)}"
        )
    given, after = answer
    with guard_part("allocator", allocator):
        given = list(given) if isinstance(given, Iterator) else given  # user code, too
        assignments = given if isinstance(given, Assignments) else _pack(allocator, given)
    fault = first_fault(assignments, view)
    if fault is not None:
        raise EngineError(f"{_name(allocator)} broke a rule: {fault}")
    return view, assignments, after


def _name(allocator: Allocator) -> str:
    return f"the allocator {describe_part(allocator)}"


def _pack(allocator: Allocator, given: Iterable[Assignment]) -> Assignments:
    try:
        rows = [(int(c), int(s), float(p)) for c, s, p in given]
    except (TypeError, ValueError):
        raise EngineError(
            f"{_name(allocator)} must return its assignments as (client, task, probability) each, "
            f"got {short(given)}"
        ) from None
    clients, tasks, p = zip(*rows, strict=True) if rows else ((), (), ())
    return Assignments(np.array(clients, np.int64), np.array(tasks, np.int64), np.array(p, float))


def make_jobs(
    experiment: Experiment,
    population: Population,
    view: View,
    assignments: Assignments,
    state: State,
) -> list[Job]:
    """One job per assignment: task after task, each by ascending client."""
    t, tasks, run = view.round, view.tasks, experiment.run_id
    work = {task: experiment.work(task, state.versions[task]) for task in tasks}
    order = np.lexsort((assignments.clients, assignments.tasks))
    shares = population.work(view, assignments)[order].tolist()
    return [
        Job(
            Address(run, t, tasks[column], client, state.versions[tasks[column]]),
            experiment.seed,
            work[tasks[column]] if share == 1 else replace(work[tasks[column]], share=share),
            probability,
        )
        for (client, column, probability), share in zip(assignments[order], shares, strict=True)
    ]
