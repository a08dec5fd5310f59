"""Algorithm 1, lines 12-13: updates become weights, checked before they become a state.

An aggregator may want to know more than the protocol says: see `mmfl.aggregate.WANTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.aggregate import ActiveClients, Aggregator, wanted_by
from mmfl.allocate import View
from mmfl.config import short
from mmfl.errors import EngineError, describe_type
from mmfl.exchange import ClientFailure, LocalWork, Params
from mmfl.faults import Fault
from mmfl.loop.scoring import Scoring
from mmfl.loop.state import State
from mmfl.objectives import Measured
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import describe_part, guard_part, is_own

if TYPE_CHECKING:
    from mmfl.experiment import Engine

__all__ = ["Aggregation"]


@dataclass(frozen=True, eq=False)
class Aggregation:
    """How a task's updates become its new weights.

    Attributes:
        aggregator: The rule.
        work: (task, v) to the work of a turn at a task that has trained in v rounds.
    """

    aggregator: Aggregator
    work: Callable[[str, int], LocalWork]

    @property
    def wants_loss(self) -> bool:
        """Whether the aggregator wants the losses that were measured where f_s was."""
        return "loss" in wanted_by(self.aggregator)

    def measure_losses(
        self, state: State, scoring: Scoring, engine: Engine
    ) -> tuple[State, list[ClientFailure], list[Fault]]:
        """The state with the losses of the initial models, if the aggregator wants them.

        Returns:
            The state, clients that did not deliver, and injected lies.
        """
        if state.round or not self.wants_loss:
            return state, [], []
        _, seen, failures, lies = scoring.score_tasks(0, engine, state)
        return self.keep_losses(state, seen), failures, lies

    def keep_losses(self, state: State, seen: Mapping[str, Measured]) -> State:
        """The state with the losses that were measured, if the aggregator wants them."""
        if not self.wants_loss:
            return state
        return state.replace(loss={**state.loss, **{task: m.loss for task, m in seen.items()}})

    def aggregate(
        self, task: str, view: View, state: State, updates: Iterable[Any]
    ) -> tuple[Params, Any]:
        """A task's new weights, and the aggregator's state.

        Args:
            task: For which task.
            view: What the allocator saw.
            state: The state before the round.
            updates: What its clients did.
        """
        aggregator: Any = self.aggregator
        told: dict[str, Any] = {}
        for word in wanted_by(aggregator):
            if word == "active":
                told[word] = _find_active(task, view)
            elif word == "loss":
                told[word] = state.loss.get(task, nan)
            else:
                told[word] = self.work(task, state.versions[task]).lr
        with guard_part("aggregator", aggregator, task=task):
            answer = aggregator.aggregate(
                state.params[task], updates, state.difficulty[task], state.aggregator[task], **told
            )
        # A model that diverges under a built-in aggregator is a result. All updates are finite, so
        # with a user's aggregator, weights that are not finite are a mistake.
        fault = _find_fault(answer, state.params[task], own=is_own(aggregator))
        if fault:
            who = f"task {task!r}: the aggregator {describe_part(aggregator)}"
            raise EngineError(f"{who} must return {fault}{describe_place(aggregator)}")
        weights, after = answer
        return weights, after


def _find_active(task: str, view: View) -> ActiveClients:
    column = view.tasks.index(task)
    rows = np.flatnonzero(view.eligible[:, column])
    return ActiveClients(view.clients[rows], view.sizes[rows, column].astype(np.int64))


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
