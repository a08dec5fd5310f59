"""The jobs of an experiment's first round."""

from __future__ import annotations

from collections.abc import Mapping

from mmfl.exchange import Job, Params
from mmfl.experiment import Engine, Experiment
from mmfl.loop import allocate_clients, make_jobs, set_up

__all__ = ["first_jobs"]


def first_jobs(engine: Engine, experiment: Experiment) -> tuple[list[Job], Mapping[str, Params]]:
    """All jobs of round one, and the weights before it."""
    with set_up(experiment, engine=engine) as ready:
        state, population = ready.first_state(), ready.population
        view, assignments, _ = allocate_clients(
            1, ready.experiment, population, population.active(1), state
        )
        return make_jobs(ready.experiment, population, view, assignments, state), state.params
