"""The jobs of an experiment's first round."""

from __future__ import annotations

from collections.abc import Mapping

from mmfl.exchange import Job, Params
from mmfl.experiment import Engine, Experiment
from mmfl.loop import set_up

__all__ = ["first_jobs"]


def first_jobs(engine: Engine, experiment: Experiment) -> tuple[list[Job], Mapping[str, Params]]:
    """All jobs of round one, and the weights before it."""
    with set_up(experiment, engine=engine) as ready:
        state, active = ready.first_state(), ready.population.active(1)
        view, assignments, _ = ready.allocation.allocate(1, active, state)
        return ready.allocation.make_jobs(view, assignments, state), state.params
