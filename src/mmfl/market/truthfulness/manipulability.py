"""How manipulable is a mechanism? Lies that pay, over many random instances.

There are three kinds of liars: one who knows all bids and finds the best false one
(`best_response`: a lower bound); one who knows nothing and multiplies its bids by a factor ("blind
mark-up"); and all clients together, who all multiply their bids by that factor (both in
`mark_ups`). The paper's corollary "Untruthfulness Impact" is checked, too: a lie lowers the min
take-up by at most 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmfl.market.recruitment import Recruitment
from mmfl.market.truthfulness.best_response import Response, Rule, function_of, responses
from mmfl.market.truthfulness.markups import BLIND, BlindStudy, MarkUps, draw_instances, mark_ups
from mmfl.rng import Stream

__all__ = ["InTask", "Manipulability", "manipulability"]


@dataclass(frozen=True)
class InTask:
    """What liars gain in the task in which they lie, whatever happens in their other tasks.

    Attributes:
        pairs_that_gain: Share of the pairs that gain in this way.
        pairs_underbid: Share of the pairs that gain in this way by an underbid.
        instances_with_gain: Share of the instances in which some pair gains in this way.
        relative_gain: As in `Manipulability`.
    """

    pairs_that_gain: float
    pairs_underbid: float
    instances_with_gain: float
    relative_gain: float


@dataclass(frozen=True)
class Manipulability(BlindStudy):
    """What liars gain, over instances.

    A pair is a client and a task that it is willing to train; it gains if a lie in that one task
    was found that pays, all tasks counted.

    Attributes:
        instances: How many instances were drawn.
        users: How many clients were examined in all.
        pairs: How many pairs of such a client and a task there are.
        users_who_gain: Share of the clients for which a lie was found that pays, in one task or by
            a common mark-up.
        pairs_that_gain: Share of the pairs that gain.
        pairs_underbid: Share of the pairs that gain by an underbid.
        pairs_elsewhere: Share of the pairs that gain, but only through the other tasks.
        instances_with_gain: Share of the instances in which some pair gains.
        mean_gain: Mean gain of the best lie, over the clients that gain.
        largest_gain: The largest gain found.
        relative_gain: The mean of gain / truthful pay for the task, over the pairs that gain and
            whose client would fully win the task by the truth, for a payment above 0.
        in_task: The same four figures, if only the utility of the misreported task is counted.
        mean_fall: How much the min take-up falls by the best lie of a pair, mean over the pairs
            that gain; negative if lies raise it.
        largest_fall: The largest such fall; 0 if nobody gains.
        any_fall: The largest fall by any lie that was tried, whether it pays or not.
        truthful: The expected utility of a client that bids its costs, as all others do.
        blind: By factor: its expected utility if it multiplies its bids by it, alone and knowing
            nothing.
        together: By factor: (min take-up, money spent) if all do so, relative to truthful bids.
        tried: How many auctions the search for lies took.
    """

    instances: int
    users: int
    pairs: int
    users_who_gain: float
    pairs_that_gain: float
    pairs_underbid: float
    pairs_elsewhere: float
    instances_with_gain: float
    mean_gain: float
    largest_gain: float
    relative_gain: float
    in_task: InTask
    mean_fall: float
    largest_fall: float
    any_fall: float
    truthful: float
    blind: Mapping[float, float]
    together: Mapping[float, tuple[float, float]]
    tried: int


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
    """Draw instances, search each for profitable lies, and summarise the results.

    To vary the budget as well, draw costs in units of the budget: all mechanisms are scale-free.

    Args:
        mechanism: A mechanism with its options, or a function from `Bids` to a `Recruitment`.
        cost_sampler: From a random stream to a table of true costs (N x S).
        instances: How many tables to draw.
        users: How many clients of each instance to examine; by default all of them.
        seed: Seed of all draws.
        factors: Which blind and common mark-ups to try.
        most: See `best_response`.
    """
    blind = mark_ups(
        mechanism, cost_sampler, instances=instances, users=users, seed=seed, factors=factors
    )
    rule = function_of(mechanism)
    tally = _Tally()
    for costs, rows in draw_instances(cost_sampler, instances, users, seed):
        honest = rule(costs)
        tally.add_instance([responses(rule, costs, user, most=most) for user in rows], honest)
    return tally.result(blind)


@dataclass
class _Tally:
    """Sums over instances."""

    pairs: list[Response] = field(default_factory=list)
    best: list[float] = field(default_factory=list)  # gains, one for each client that gains
    relative: list[float] = field(default_factory=list)
    relative_in_task: list[float] = field(default_factory=list)
    touched: int = 0  # instances
    touched_in_task: int = 0
    any_fall: float = 0.0
    tried: int = 0

    def add_instance(self, users: Sequence[Sequence[Response]], honest: Recruitment) -> None:
        """The responses of each client that is looked at."""
        for lies in users:
            self.tried += lies[-1].tried
            self.any_fall = max(self.any_fall, *(each.take_up[0] - each.lowest for each in lies))
            gain = max(each.gain for each in lies)
            self.best += [gain] if gain > 0 else []
        pairs = [each for lies in users for each in lies[:-1]]
        self.pairs += pairs
        self.touched += any(each.gain > 0 for each in pairs)
        self.touched_in_task += any(each.in_task > 0 for each in pairs)
        for each in pairs:
            paid = float(honest.payment[each.user, each.task])
            if paid > 0 and honest.participation[each.user, each.task] >= 1:
                self.relative += [each.gain / paid] if each.gain > 0 else []
                self.relative_in_task += [each.in_task / paid] if each.in_task > 0 else []

    def result(self, blind: MarkUps) -> Manipulability:
        users, pairs = max(blind.users, 1), max(len(self.pairs), 1)
        gaining = [each for each in self.pairs if each.gain > 0]
        falls = [each.take_up[0] - each.take_up[1] for each in gaining]
        return Manipulability(
            instances=blind.instances,
            users=blind.users,
            pairs=len(self.pairs),
            users_who_gain=len(self.best) / users,
            pairs_that_gain=len(gaining) / pairs,
            pairs_underbid=sum(each.underbid > 0 for each in gaining) / pairs,
            pairs_elsewhere=sum(each.in_task == 0 for each in gaining) / pairs,
            instances_with_gain=self.touched / blind.instances,
            mean_gain=_mean(self.best),
            largest_gain=max(self.best, default=0.0),
            relative_gain=_mean(self.relative),
            in_task=InTask(
                pairs_that_gain=sum(each.in_task > 0 for each in self.pairs) / pairs,
                pairs_underbid=sum(each.in_task_underbid > 0 for each in self.pairs) / pairs,
                instances_with_gain=self.touched_in_task / blind.instances,
                relative_gain=_mean(self.relative_in_task),
            ),
            mean_fall=_mean(falls),
            largest_fall=max(falls, default=0.0),
            any_fall=self.any_fall,
            truthful=blind.truthful,
            blind=blind.blind,
            together=blind.together,
            tried=self.tried,
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
