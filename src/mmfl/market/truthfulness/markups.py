"""Liars who know nothing: they multiply their bids by a factor, alone ("blind") or all together.

The paper argues that the conditions of its untruthfulness theorem are hard to exploit, because they
hang on bids that nobody else sees. A blind mark-up measures that: the same factor in every
instance, chosen without looking at the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmfl.config import short
from mmfl.errors import InputError
from mmfl.market.bids import Bids, Floats
from mmfl.market.options import check_count
from mmfl.market.recruitment import Recruitment
from mmfl.market.truthfulness.best_response import Rule, function_of
from mmfl.rng import Stream, stream

__all__ = ["BLIND", "BlindStudy", "MarkUps", "draw_instances", "mark_ups"]

BLIND = (0.9, 0.95, 1.02, 1.05, 1.1, 1.25, 1.5)
"""Factors that blind liars and clients in common try."""


class BlindStudy:
    """What all studies of blind mark-ups have in common.

    Attributes:
        truthful: The expected utility of a client that bids its costs, as all others do.
        blind: By factor: its expected utility if it alone multiplies all its bids by it.
    """

    truthful: float
    blind: Mapping[float, float]

    @property
    def best_blind(self) -> tuple[float, float]:
        """(factor, expected utility) of the best blind mark-up; factor 1 if honesty is best."""
        return max({1.0: self.truthful, **self.blind}.items(), key=lambda pair: pair[1])


@dataclass(frozen=True)
class MarkUps(BlindStudy):
    """What mark-ups bring to a client that makes them, and to all if all do.

    Attributes:
        instances: How many instances were drawn.
        users: How many clients were looked at in all.
        truthful: The expected utility of a client that bids its costs, as all others do.
        blind: By factor: its expected utility if it alone multiplies all its bids by it.
        error: By factor: the standard error of that minus `truthful`, over instances.
        together: By factor: (min take-up, money spent) if all multiply, relative to truth; the mean
            over the instances in which truth recruits and pays somebody for every task.
    """

    instances: int
    users: int
    truthful: float
    blind: Mapping[float, float]
    error: Mapping[float, float]
    together: Mapping[float, tuple[float, float]]


def mark_ups(
    mechanism: Rule,
    cost_sampler: Callable[[Stream], Any],
    *,
    instances: int = 30,
    users: int | None = None,
    seed: int = 0,
    factors: Sequence[float] = BLIND,
) -> MarkUps:
    """Draw instances, and let clients multiply their bids by each factor: one alone, and all.

    Args:
        mechanism: A mechanism with its options, or a function from `Bids` to a `Recruitment`.
        cost_sampler: From a random stream to a table of true costs (N x S).
        instances: How many tables to draw.
        users: How many clients of each instance to look at; by default all of them.
        seed: Of all draws.
        factors: By which to multiply; above 0.
    """
    rule, factors = function_of(mechanism), tuple(map(_factor, factors))
    looked_at = 0
    truth: list[float] = []  # sums over the clients of an instance
    gains: list[list[float]] = []
    together: list[list[tuple[float, float]]] = []
    for costs, rows in draw_instances(cost_sampler, instances, users, seed):
        looked_at += len(rows)
        honest = rule(costs)
        utility = honest.utility(costs)
        truth.append(float(utility[rows].sum()))
        gains.append([_alone(rule, costs, rows, factor, utility) for factor in factors])
        if min(honest.min_take_up, honest.spent) > 0:
            together.append([_relative(rule(_times(costs, f)), honest) for f in factors])
    users_in_all = max(looked_at, 1)
    gain = np.array(gains).reshape(instances, len(factors))
    spread = gain.std(axis=0, ddof=1) if instances > 1 else np.full(len(factors), math.nan)
    common = np.mean(together, axis=0) if together else np.ones((len(factors), 2))
    honest_mean = sum(truth) / users_in_all
    return MarkUps(
        instances=instances,
        users=looked_at,
        truthful=honest_mean,
        blind=_by(factors, honest_mean + gain.sum(axis=0) / users_in_all),
        error=_by(factors, spread * math.sqrt(instances) / users_in_all),
        together={
            factor: (float(take_up), float(spent))
            for factor, (take_up, spent) in zip(factors, common, strict=True)
        },
    )


def draw_instances(
    cost_sampler: Callable[[Stream], Any], instances: int, users: int | None, seed: int
) -> Iterator[tuple[Bids, list[int]]]:
    """Tables of costs and the rows of the clients to look at: the same for the same seed."""
    check_count(instances, "instances")
    if users is not None:
        check_count(users, "users")
    for number in range(instances):
        rng = stream(seed, "manipulability", number)
        costs = Bids.of(cost_sampler(rng.child("costs")))
        N = costs.shape[0]
        rows = rng.child("users").choice(N, min(users or N, N), replace=False)
        yield costs, np.sort(rows).tolist()


def _factor(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"a factor must be a finite number > 0, got {short(value)}")
    return float(value)


def _alone(
    rule: Callable[[Bids], Recruitment],
    costs: Bids,
    rows: Sequence[int],
    factor: float,
    honest: Floats,
) -> float:
    """What clients gain, one at a time, added up."""
    gain = 0.0
    for user in rows:
        asked = (costs.values[user] * factor).tolist()
        gain += float(rule(costs.replace_row(user, asked)).utility(costs)[user] - honest[user])
    return gain


def _times(costs: Bids, factor: float) -> Bids:
    return Bids(costs.values * factor, costs.clients, costs.tasks)


def _relative(after: Recruitment, before: Recruitment) -> tuple[float, float]:
    return after.min_take_up / before.min_take_up, after.spent / before.spent


def _by(factors: Sequence[float], values: Floats) -> dict[float, float]:
    return dict(zip(factors, values.tolist(), strict=True))
