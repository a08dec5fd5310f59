"""Trials: one draw of one scenario each, from the auction to the last round, in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.exchange import Params
from mmfl.loop import RecruitedClients, RoundRecord
from mmfl.planning.learning import Learning
from mmfl.planning.surrogate import Predictor, work_of

__all__ = ["Auction", "Trial", "TrialTally"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Auction:
    """An auction in numbers, by task.

    Attributes:
        take_up: (S) clients recruited.
        spend: (S) what is committed.
        left_out: (S) whether nobody was recruited who could train it.
    """

    take_up: Floats
    spend: Floats
    left_out: Bools

    @classmethod
    def of(cls, recruited: RecruitedClients | None, tasks: Sequence[str]) -> Auction:
        """What an auction decided; None recruited nobody."""
        if recruited is None:
            S = len(tasks)
            return cls(np.zeros(S), np.zeros(S), np.ones(S, np.bool_))
        outcome, left_out = recruited.outcome, recruited.left_out
        return cls(outcome.take_up, outcome.spend, np.array([task in left_out for task in tasks]))


@dataclass(frozen=True, eq=False)
class Trial:
    """One draw of one scenario; arrays are by task.

    Attributes:
        alpha: Of the allocator; None if it has none.
        budget: Of the auction; None if there is none.
        active: Active clients in a round.
        clients: (S) accepted clients in a round.
        share: (S) of all turns.
        starved: (S) share of rounds without an accepted client.
        auction: What it decided; None if there was none.
        difficulty: (S) after the last round; NaN if there was no round.
        metric: (S) the same.
        reached: (S) the round in which the target was reached; inf = never.
        beyond: (S) the round from which on there was more work than the runs tell of; inf = never.
    """

    alpha: float | None
    budget: float | None
    active: float
    clients: Floats
    share: Floats
    starved: Floats
    auction: Auction | None
    difficulty: Floats
    metric: Floats
    reached: Floats
    beyond: Floats


class TrialTally:
    """What a trial counts, round by round; arrays are by task.

    Args:
        tasks: The S names.
        predictors: By task, what is known of it.
        targets: By task, the metric to reach; tasks without one are left out.
        draw: The number of the draw: it decides which run a task is like.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        predictors: Mapping[str, Predictor],
        targets: Mapping[str, float],
        draw: int,
    ) -> None:
        S = len(tasks)
        self.active = 0
        self.turns, self.starved = np.zeros(S), np.zeros(S)
        self.reached, self.beyond = np.full(S, math.inf), np.full(S, math.inf)
        self.difficulty, self.metric = np.full(S, math.nan), np.full(S, math.nan)
        self._tasks, self._predictors = tasks, predictors
        self._targets, self._draw = targets, draw

    def add_round(self, record: RoundRecord, params: Mapping[str, Params]) -> None:
        """One more round: its record, and the models after it."""
        self.active += record.active
        for s, task in enumerate(self._tasks):
            self.turns[s] += record.clients[task]
            self.starved[s] += not record.clients[task]
            self.difficulty[s], self.metric[s] = record.difficulty[task], record.metric[task]
            work = work_of(params[task])
            if self.beyond[s] == math.inf and self._is_beyond(task, work):
                self.beyond[s] = record.round
            if self.reached[s] == math.inf and self._has_reached(task, work):
                self.reached[s] = record.round

    def skip_rounds(self, rounds: int) -> None:
        """Rounds in which nobody trains anything."""
        self.starved += rounds

    def make_trial(
        self, alpha: float | None, budget: float | None, auction: Auction | None, rounds: int
    ) -> Trial:
        """The trial, after all its rounds."""
        return Trial(
            alpha=alpha,
            budget=budget,
            active=self.active / rounds,
            clients=self.turns / rounds,
            share=self.turns / max(self.turns.sum(), 1.0),
            starved=self.starved / rounds,
            auction=auction,
            difficulty=self.difficulty,
            metric=self.metric,
            reached=self.reached,
            beyond=self.beyond,
        )

    def _is_beyond(self, task: str, work: float) -> bool:
        predictor = self._predictors[task]
        return isinstance(predictor, Learning) and predictor.is_beyond(work)

    def _has_reached(self, task: str, work: float) -> bool:
        predictor, target = self._predictors[task], self._targets.get(task)
        if target is None or not isinstance(predictor, Learning):
            return False
        return predictor.has_reached(target, work, like=self._draw)
