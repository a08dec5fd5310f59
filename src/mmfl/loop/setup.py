"""All that rounds need, set up once, for the round loop and for stored runs alike.

Mistakes in data, clients or models are found here, before the first round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.experiment import guard_engine, use_engine
from mmfl.loop.aggregation import Aggregation
from mmfl.loop.allocation import Allocation
from mmfl.loop.gate import Gate, open_gate
from mmfl.loop.population import Population
from mmfl.loop.scoring import RegularEvaluation, Scoring
from mmfl.loop.state import State
from mmfl.system.turns import hold

if TYPE_CHECKING:
    from mmfl.allocate import View
    from mmfl.experiment import Engine, Experiment, Federation

__all__ = ["Setup", "set_up"]

_NESTED = "the engine is computing a round; code that runs within a round needs another engine"


@dataclass(eq=False)
class Setup:
    """All that rounds need; others may use the engine between two rounds, also in other threads.

    Attributes:
        experiment: What to do, resolved.
        engine: To be used while it is held.
        population: Who may train what.
        allocation: Who trains what in each round.
        aggregation: How updates become weights.
        scoring: How f_s is obtained.
        evaluation: When the test split is evaluated.
        federation: The clients, as long as the engine serves this experiment.
    """

    experiment: Experiment
    engine: Engine
    population: Population
    allocation: Allocation
    aggregation: Aggregation
    scoring: Scoring
    evaluation: RegularEvaluation
    federation: Federation

    @contextmanager
    def hold(self) -> Iterator[Engine]:
        """Hold the engine for this thread, ready for this experiment; never across a yield."""
        with hold(self.engine, alone=_NESTED), guard_engine(self.engine):
            if self.engine.federation is not self.federation:  # it served another one since
                self.engine.prepare(self.experiment)
            follow: Any = getattr(self.engine, "follow_clients", None)
            if follow is not None:
                follow()
                self._follow(self.engine.federation)
            self.federation = self.engine.federation
            yield self.engine

    def _follow(self, federation: Federation) -> None:
        """Go on with the clients that are there now."""
        if federation is not self.population.federation:
            self.population = population = self.population.follow(federation)
            self.allocation = dataclasses.replace(self.allocation, population=population)
            self.scoring = dataclasses.replace(self.scoring, population=population)

    def first_state(self) -> State:
        """The state before round one: Algorithm 1, line 1."""
        with self.hold() as engine:
            return State.first(engine.initial(), self.experiment.lineage)

    def open_gate(self, view: View, state: State) -> Gate:
        """The gate of a round."""
        return open_gate(
            self.engine,
            view,
            state,
            checks=self.experiment.checks,
            mergeable=self.experiment.aggregator.mergeable,
            faults=self.experiment.faults,
            seed=self.experiment.seed,
        )


@contextmanager
def set_up(
    experiment: Experiment,
    *,
    engine: Engine | None = None,
    data_dir: Path | None = None,
    population: Population | None = None,
) -> Iterator[Setup]:
    """Open an engine, and hold the auction if there is one.

    Args:
        experiment: What to do.
        engine: A running engine to use, and to leave running; by default the experiment's own,
            which is closed at the end of the block.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        population: Who may train what, if that is known: an auction is then not held again.
    """
    experiment = dataclasses.replace(experiment)  # its lineage is of the files as they are now
    if engine is None:
        with use_engine(experiment, data_dir) as own:
            with guard_engine(own):
                ready = _make_setup(experiment, own, population)
            yield ready
    else:
        with hold(engine, alone=_NESTED), guard_engine(engine):
            engine.prepare(experiment)
            ready = _make_setup(experiment, engine, population)
        yield ready


def _make_setup(experiment: Experiment, engine: Engine, population: Population | None) -> Setup:
    experiment, federation = experiment.resolved(), engine.federation
    population = population or Population.of(federation, experiment)
    seed, run_id, rounds = experiment.seed, experiment.run_id, experiment.rounds
    weights = {task.name: task.weight for task in experiment.tasks}
    split = experiment.score_split if experiment.score_source == "server" else None
    scoring = Scoring(
        experiment.score,
        {task.name: task for task in experiment.tasks},
        split,
        population,
        experiment.faults,
        seed,
        run_id,
    )
    return Setup(
        experiment,
        engine,
        population,
        Allocation(
            experiment.allocator,
            population,
            experiment.work,
            weights,
            rounds,
            seed,
            run_id,
            scoring.find_targets,
        ),
        Aggregation(experiment.aggregator, experiment.work),
        scoring,
        RegularEvaluation(
            experiment.evaluate.every,
            rounds,
            scored=split == "test",
            metrics={task.name: task.metric for task in experiment.tasks},
        ),
        federation,
    )
