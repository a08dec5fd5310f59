"""Algorithm 1, lines 12-13: what an aggregator returned is checked before it becomes a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.config import short
from mmfl.errors import EngineError
from mmfl.exchange import Params
from mmfl.loop.state import State
from mmfl.system.user_code import describe_part, is_own

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["check_aggregate"]


def check_aggregate(
    experiment: Experiment, task: str, before: State, answer: Any
) -> tuple[Params, Any]:
    """The new weights and the aggregator's state, or an error that names the aggregator.

    A model that diverges under an aggregator of ours is a result. All updates are finite, so in an
    aggregator of the user's, weights that are not finite are a mistake.

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
        given = f"{getattr(flat, 'dtype', 'no numbers')} in a {type(flat).__name__}"
        return f"a plain NumPy array of float32, got {given}"
    if weights.layout != old.layout or flat.shape != old.flat.shape:
        return "weights with the layout of params"
    if own and len(flat) and not np.isfinite([flat.min(), flat.max()]).all():
        return "finite weights, got NaN or infinity"
    return ""
