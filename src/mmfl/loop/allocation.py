"""Algorithm 1, lines 4-7: who trains what in a round, and the jobs that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.allocate import Allocator, Assignment, Assignments, View, first_fault
from mmfl.config import short
from mmfl.errors import EngineError
from mmfl.exchange import Address, Job, LocalWork
from mmfl.loop.population import Population
from mmfl.loop.state import State
from mmfl.rng import stream
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import describe_part, guard_part

__all__ = ["Allocation"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Allocation:
    """Who trains what in each round.

    Attributes:
        allocator: The rule.
        population: Who may train what.
        work: (task, v) to the work of a turn at a task that has trained in v rounds.
        weights: How much each task counts.
        rounds: T.
        seed: The experiment's.
        run_id: How jobs name the run.
        find_targets: The difficulties at which tasks reach their targets, on demand.
    """

    allocator: Allocator
    population: Population
    work: Callable[[str, int], LocalWork]
    weights: Mapping[str, float]
    rounds: int
    seed: int
    run_id: str
    find_targets: Callable[[], npt.NDArray[np.float64]] | None = None

    def allocate(self, t: int, places: Ints, state: State) -> tuple[View, Assignments, Any]:
        """Algorithm 1, lines 4-5: each active client's task, and the allocator's next state."""
        view = self._make_view(t, places, state)
        rng = stream(self.seed, "allocate", t)
        with guard_part("allocator", self.allocator):
            answer: Any = self.allocator.allocate(view, state.allocator, rng=rng)
        if not isinstance(answer, tuple) or len(answer) != 2:
            said = f"{self._name} must return (assignments, state), got {short(answer)}"
            raise EngineError(f"{said}{self._place}")
        given, after = answer
        with guard_part("allocator", self.allocator):
            given = list(given) if isinstance(given, Iterator) else given  # user code, too
            assignments = given if isinstance(given, Assignments) else self._pack(given)
        fault = first_fault(assignments, view)
        if fault is not None:
            raise EngineError(f"{self._name} broke a rule: {fault}{self._place}")
        return view, assignments, after

    def make_jobs(self, view: View, assignments: Assignments, state: State) -> list[Job]:
        """One job per assignment: task after task, each by ascending client."""
        t, tasks, versions = view.round, view.tasks, state.versions
        work = {task: self.work(task, versions[task]) for task in tasks}
        order = np.lexsort((assignments.clients, assignments.tasks))
        shares = self.population.work_shares(view, assignments)[order].tolist()
        return [
            Job(
                Address(self.run_id, t, tasks[column], client, versions[tasks[column]]),
                self.seed,
                work[tasks[column]] if share == 1 else replace(work[tasks[column]], share=share),
                probability,
            )
            for (client, column, probability), share in zip(assignments[order], shares, strict=True)
        ]

    def _make_view(self, t: int, places: Ints, state: State) -> View:
        """What the allocator may know; it cannot change the arrays, which its answer must match."""
        population, federation = self.population, self.population.federation
        clients = population.ids(places)
        sizes = federation.sizes(clients)
        view = View(
            round=t,
            rounds=self.rounds,
            tasks=federation.tasks,
            difficulty=np.array([state.difficulty[task] for task in federation.tasks]),
            clients=clients,
            positions=places,
            population=len(federation.clients),
            sizes=sizes,
            eligible=population.eligible(t, places, clients, sizes),
            capacity=np.ones(len(clients), dtype=np.int64),
            remembered=state.clients,
            weights=np.array([self.weights[task] for task in federation.tasks]),
            find_targets=self.find_targets,
            aggregation=state.aggregator,
        )
        arrays = (view.difficulty, view.weights, clients, places, sizes, view.eligible)
        for array in (*arrays, view.capacity):
            array.flags.writeable = False
        return view

    @property
    def _name(self) -> str:
        return f"the allocator {describe_part(self.allocator)}"

    @property
    def _place(self) -> str:
        return describe_place(self.allocator)

    def _pack(self, given: Iterable[Assignment]) -> Assignments:
        try:
            rows = [(int(c), int(s), float(p)) for c, s, p in given]
        except (TypeError, ValueError):
            raise EngineError(
                f"{self._name} must return its assignments as (client, task, probability) each, "
                f"got {short(given)}{self._place}"
            ) from None
        clients, tasks, p = zip(*rows, strict=True) if rows else ((), (), ())
        return Assignments(
            np.array(clients, np.int64), np.array(tasks, np.int64), np.array(p, float)
        )
