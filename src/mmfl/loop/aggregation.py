"""Algorithm 1, lines 12-13: updates become weights, checked before they become a state.

An aggregator may want to know more than the protocol says: see `mmfl.aggregate.WANTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.aggregate import wanted_by
from mmfl.config import short
from mmfl.errors import EngineError, describe_type
from mmfl.exchange import ClientFailure, Params
from mmfl.faults import Fault
from mmfl.loop.population import Population
from mmfl.loop.scoring import score_tasks
from mmfl.loop.state import State
from mmfl.objectives import Measured
from mmfl.system.user_code import describe_part, guard_part, is_own

if TYPE_CHECKING:
    from mmfl.experiment import Engine, Experiment

__all__ = ["aggregate_updates", "keep_losses", "measure_losses"]


def measure_losses(
    experiment: Experiment, engine: Engine, population: Population, state: State
) -> tuple[State, list[ClientFailure], list[Fault]]:
    """The state with the losses of the initial models, if the aggregator wants them.

    Returns:
        The state, clients that did not deliver, and injected lies.
    """
    if state.round or "loss" not in wanted_by(experiment.aggregator):
        return state, [], []
    _, seen, failures, lies = score_tasks(0, experiment, engine, population, state, ())
    return keep_losses(experiment, state, seen), failures, lies


def keep_losses(experiment: Experiment, state: State, seen: Mapping[str, Measured]) -> State:
    """The state with the losses that were measured, if the aggregator wants them."""
    if "loss" not in wanted_by(experiment.aggregator):
        return state
    return state.replace(loss={**state.loss, **{task: m.loss for task, m in seen.items()}})


def aggregate_updates(
    experiment: Experiment, task: str, state: State, updates: Iterable[Any]
) -> tuple[Params, Any]:
    """A task's new weights, and the aggregator's state.

    Args:
        experiment: Whose aggregator is asked.
        task: For which task.
        state: The state before the round.
        updates: What its clients did.
    """
    aggregator: Any = experiment.aggregator
    told: dict[str, float] = {}
    for word in wanted_by(aggregator):
        if word == "loss":
            told[word] = state.loss.get(task, nan)
        else:
            told[word] = experiment.work(task, state.versions[task]).lr
    with guard_part("aggregator", aggregator, task=task):
        answer = aggregator.aggregate(
            state.params[task], updates, state.difficulty[task], state.aggregator[task], **told
        )
    return _check_answer(experiment, task, state, answer)


def _check_answer(
    experiment: Experiment, task: str, before: State, answer: Any
) -> tuple[Params, Any]:
    """The new weights and the aggregator's state, or an error that names the aggregator.

    A model that diverges under a built-in aggregator is a result. All updates are finite, so with a
    user's aggregator, weights that are not finite are a mistake.

    Args:
        experiment: Whose aggregator gave the answer.
        task: For which task.
        before: The state before the round.
        answer: What it returned.
    """
    fault = _find_fault(answer, before.params[task], own=is_own(experiment.aggregator))
    if fault:
        who = f"task {task!r}: the aggregator {describe_part(experiment.aggregator)}"
        raise EngineError(f"{who} must return {fault}")
    weights, state = answer
    return weights, state


def _find_fault(answer: Any, old: Params, *, own: bool) -> str:
    """What should have been returned, and what was; "" if all is well."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        return f"(params, state), got {short(answer)}"
    weights, _ = answer
    if not isinstance(weights, Params):
        return f"its weights as Params(params.layout, flat), got {short(weights)}"
    flat: Any = weights.flat
    if type(flat) is not np.ndarray or flat.dtype != np.float32:
        given = f"{getattr(flat, 'dtype', 'no numbers')} in {describe_type(flat)}"
        return f"a plain NumPy array of float32, got {given}"
    if weights.layout != old.layout or flat.shape != old.flat.shape:
        return "weights with the layout of params"
    if own and len(flat) and not np.isfinite([flat.min(), flat.max()]).all():
        return "finite weights, got NaN or infinity"
    return ""
