"""How manipulable is a mechanism? Lies that pay, over many random instances.

Three liars are looked at: one who knows all bids and finds the best false one (`best_response`: a
lower bound); one who knows nothing and multiplies its bids by a factor ("blind mark-up"); and all
clients together, who all multiply their bids by that factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmfl.errors import InputError
from mmfl.market.bids import Bids, Floats, Ints
from mmfl.market.lab.truthfulness import Response, Rule, _function, responses
from mmfl.rng import Stream, stream
from mmfl.sentences import short

__all__ = ["BLIND", "Manipulability", "manipulability"]

BLIND = (0.9, 0.95, 1.02, 1.05, 1.1, 1.25, 1.5)
"""Factors that blind liars and clients in common try."""


@dataclass(frozen=True)
class Manipulability:
    """What liars gain, over instances.

    Attributes:
        instances: How many instances were drawn.
        users: How many clients were looked at in all.
        pairs: How many pairs of such a client and a task that it is willing to train.
        users_who_gain: Share of the clients for which a lie was found that pays.
        pairs_that_gain: Share of the pairs in which a lie in that one task pays.
        pairs_underbid: Share of the pairs in which an underbid in that task pays.
        instances_with_gain: Share of the instances in which a lie was found that pays.
        mean_gain: Mean gain of the best lie, over the clients that gain.
        largest_gain: The largest gain found.
        relative_gain: The mean of gain / truthful pay, over gaining clients that are paid anyway.
        mean_fall: How much the min take-up falls by the best lie, mean over the clients that gain.
        largest_fall: The largest such fall; negative if lies only ever raised it.
        truthful: The expected utility of a client that bids its costs, as all others do.
        blind: By factor: its expected utility if it multiplies its bids by it, alone and knowing
            nothing.
        together: By factor: (min take-up, money spent) if all multiply, relative to truth.
        tried: How many auctions were run.
    """

    instances: int
    users: int
    pairs: int
    users_who_gain: float
    pairs_that_gain: float
    pairs_underbid: float
    instances_with_gain: float
    mean_gain: float
    largest_gain: float
    relative_gain: float
    mean_fall: float
    largest_fall: float
    truthful: float
    blind: Mapping[float, float]
    together: Mapping[float, tuple[float, float]]
    tried: int

    @property
    def best_blind(self) -> tuple[float, float]:
        """(factor, expected utility) of the best blind mark-up; factor 1 if honesty is best."""
        return max({1.0: self.truthful, **self.blind}.items(), key=lambda pair: pair[1])


def manipulability(
    mechanism: Rule,
    cost_sampler: Callable[[Stream], Any],
    *,
    instances: int = 30,
    users: int | None = None,
    seed: int = 0,
    factors: Sequence[float] = BLIND,
    most: int | None = None,
) -> Manipulability:
    """Draw instances, search for lies that pay, and sum up.

    Args:
        mechanism: A mechanism with its options, or a function from bids to a `Recruitment`.
        cost_sampler: From a random stream to a table of true costs (N x S).
        instances: How many tables to draw.
        users: How many clients of each instance to look at; by default all of them.
        seed: Of all draws.
        factors: Which blind and common mark-ups to try.
        most: See `best_response`.
    """
    for name, value in (("instances", instances), ("users", users)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InputError(f"{name} must be a whole number, got {short(value)}")
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    rule = _function(mechanism)
    tally = _Tally(factors)
    for number in range(instances):
        rng = stream(seed, "manipulability", number)
        costs = Bids.of(cost_sampler(rng.child("costs")))
        N = costs.shape[0]
        count = N if users is None else min(users, N)
        rows = np.sort(rng.child("users").choice(N, count, replace=False))
        tally.add_instance(rule, costs, rows, most)
    return tally.result()


class _Tally:
    """Sums over instances."""

    def __init__(self, factors: Sequence[float]) -> None:
        self.factors = tuple(factors)
        self.instances = self.pairs = self.pairs_gain = self.pairs_under = self.tried = 0
        self.users = self.touched = 0
        self.gains: list[float] = []
        self.relative: list[float] = []
        self.falls: list[float] = []
        self.truth = 0.0
        self.blind = np.zeros(len(self.factors))
        self.together: list[list[tuple[float, float]]] = [[] for _ in self.factors]

    def add_instance(
        self, rule: Callable[[Any], Any], costs: Bids, rows: Ints, most: int | None
    ) -> None:
        outcome = rule(costs)
        touched = False
        for user in rows.tolist():
            found = responses(rule, costs, user, most=most)
            touched |= self._add_user(found, float(outcome.payment[user].sum()))
            self._add_blind(rule, costs, user, found[-1].truthful)
        for place, factor in enumerate(self.factors):
            after = rule(costs.values * factor)
            base = (outcome.min_take_up, outcome.spent)
            if min(base) > 0:
                pair = (after.min_take_up / base[0], after.spent / base[1])
                self.together[place].append(pair)
        self.instances += 1
        self.touched += touched

    def _add_user(self, found: Sequence[Response], paid: float) -> bool:
        single = found[:-1]
        best = max(found, key=lambda response: response.gain)
        self.users += 1
        self.pairs += len(single)
        self.pairs_gain += sum(response.gain > 0 for response in single)
        self.pairs_under += sum(response.underbid > 0 for response in single)
        self.tried += found[-1].tried
        if best.gain <= 0:
            return False
        self.gains.append(best.gain)
        self.falls.append(best.take_up[0] - best.take_up[1])
        if paid > 0:
            self.relative.append(best.gain / paid)
        return True

    def _add_blind(
        self, rule: Callable[[Any], Any], costs: Bids, user: int, truthful: float
    ) -> None:
        self.truth += truthful
        bids: Floats = costs.values.copy()
        for place, factor in enumerate(self.factors):
            bids[user] = costs.values[user] * factor
            self.blind[place] += float(rule(bids).utility(costs)[user])

    def result(self) -> Manipulability:
        users, pairs = max(self.users, 1), max(self.pairs, 1)
        common = [np.mean(found, axis=0) if found else (1.0, 1.0) for found in self.together]
        return Manipulability(
            instances=self.instances,
            users=self.users,
            pairs=self.pairs,
            users_who_gain=len(self.gains) / users,
            pairs_that_gain=self.pairs_gain / pairs,
            pairs_underbid=self.pairs_under / pairs,
            instances_with_gain=self.touched / self.instances,
            mean_gain=float(np.mean(self.gains)) if self.gains else 0.0,
            largest_gain=max(self.gains, default=0.0),
            relative_gain=float(np.mean(self.relative)) if self.relative else 0.0,
            mean_fall=float(np.mean(self.falls)) if self.falls else 0.0,
            largest_fall=max(self.falls, default=0.0),
            truthful=self.truth / users,
            blind=dict(zip(self.factors, (self.blind / users).tolist(), strict=True)),
            together={
                factor: (float(take_up), float(spent))
                for factor, (take_up, spent) in zip(self.factors, common, strict=True)
            },
            tried=self.tried,
        )
