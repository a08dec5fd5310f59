"""Tasks that recruit with an auction: what is known of a run before the auction is held."""

from __future__ import annotations

import dataclasses
from itertools import chain, combinations, product

import numpy as np
import pytest

from mmfl.convergence import AuctionSetting, Setting
from mmfl.errors import InputError
from mmfl.experiment import RecruitmentSettings
from mmfl.loop import rounds, set_up
from mmfl.market import BudgetFair, GMMFair, MaxMinFair
from mmfl.market.bids_io import Csv, UniformBids
from mmfl.theory import join_budget_fair, printed
from support import convex

PROBLEMS = {
    "quadratic": convex.quadratic((3,) * 4),
    "logistic": convex.logistic((5,) * 4, penalty=0.05),
}
MECHANISMS = {
    "budget_fair": BudgetFair(budget=0.7),
    "max_min_fair": MaxMinFair(budget=0.9, fractional=False),
}


def recruiting(mechanism, *, N=4, tasks=None, **rest) -> AuctionSetting:
    """Two tasks, the second dearer than the first."""
    tasks = tasks or {"cheap": convex.quadratic((3,) * N), "dear": convex.quadratic((3,) * N)}
    laws = {"cheap": UniformBids(), "dear": UniformBids(low=0.2, high=1.5)}
    recruitment = RecruitmentSettings(mechanism=mechanism, tasks=laws)
    return AuctionSetting(setting=Setting(tasks=tasks, **rest), recruitment=recruitment)


@pytest.fixture(params=MECHANISMS.values(), ids=MECHANISMS.keys())
def setting(request) -> AuctionSetting:
    return recruiting(request.param)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
@pytest.mark.parametrize("batch_size", [1, 100])
def test_the_constants_hold_for_every_set_of_winners(problem, batch_size):
    tasks = {"cheap": problem, "dear": problem}
    setting = recruiting(BudgetFair(budget=1.0), tasks=tasks, batch_size=batch_size, tau=2)
    most, distance = setting.constants("cheap"), setting.distance("cheap")
    assert (most.rho_lo, most.rho_hi) == setting.skew()
    gaps, distances = [], []
    for won in chain.from_iterable(combinations(range(4), size) for size in (1, 2, 3, 4)):
        winners = problem.restrict(won)
        own = winners.constants(tau=2, batch_size=batch_size)
        assert most.mu <= own.mu
        assert own.L <= most.L
        assert own.sigma <= most.sigma
        assert own.G <= most.G * (1 + 1e-12)
        gaps.append(own.gap / most.gap)
        distances.append(winners.distance(winners.first) / distance)
    assert 0.1 < max(gaps) <= 1 + 1e-12
    assert 0.1 < max(distances) <= 1 + 1e-12


def weigh(q: tuple[float, ...]) -> np.ndarray:
    """(K) K times each client's mean weight, given that somebody trains: all sets, one by one."""
    weights, chance = np.zeros(len(q)), 0.0
    for trains in product([False, True], repeat=len(q)):
        p = np.prod([x if here else 1 - x for x, here in zip(q, trains, strict=True)])
        if any(trains):
            weights += p * np.array(trains) / sum(trains)
            chance += p
    return len(q) * weights / chance


@pytest.mark.parametrize("S", [2, 3])
def test_no_selection_is_more_skewed_whoever_won_whatever(S):
    """All ways in which up to 4 winners of a task may have won other tasks, too."""
    problem = convex.quadratic((3,) * 4)
    tasks = dict.fromkeys(("cheap", "dear", "third")[:S], problem)
    recruitment = RecruitmentSettings(mechanism=BudgetFair(budget=1.0), bids=UniformBids())
    low, high = AuctionSetting(setting=Setting(tasks=tasks), recruitment=recruitment).skew()
    chances = [1.0 / won for won in range(1, S + 1)]
    found = [weigh(q) for K in (1, 2, 3, 4) for q in product(chances, repeat=K)]
    assert min(weights.min() for weights in found) == pytest.approx(low)
    assert max(weights.max() for weights in found) == pytest.approx(high)


def test_who_won_one_task_trains_it_in_every_round_and_who_won_two_in_half_of_them():
    setting = recruiting(BudgetFair(budget=1.1), N=3)
    winners = setting.hold_auction(3)
    assert winners == {"cheap": (1, 2), "dear": (1,)}
    with rounds(setting.experiment(3, winners)) as going:
        records = [record for _, (_, record) in zip(range(100), going, strict=False)]
    turns = np.zeros((3, 2), dtype=int)
    for record in records:
        np.add.at(turns, (record.assignments.clients, record.assignments.tasks), 1)
    assert turns[0].tolist() == [0, 0]
    assert turns[2].tolist() == [100, 0]
    assert turns[1].sum() == 100
    assert 30 < turns[1, 0] < 70


def test_the_loop_recruits_the_same_clients(setting):
    """Also where a task that recruits nobody is left out with its share of the money."""
    seen = set()
    for seed in range(12):
        winners = setting.hold_auction(seed)
        trained = [name for name, won in winners.items() if won]
        seen.add(tuple(trained))
        if not trained:
            continue
        with set_up(setting.experiment(seed, trained)) as ready:
            able = ready.population.recruited.able
        assert able.shape == (4, len(trained))
        for column, name in enumerate(trained):
            assert tuple(np.flatnonzero(able[:, column])) == winners[name]
    one = {("cheap",), ("dear",)} if isinstance(setting.recruitment.mechanism, BudgetFair) else {()}
    assert {("cheap", "dear")} | one <= seen | {("dear",)}


def test_the_chances_are_those_of_auctions(setting):
    draws = 1000
    found = [setting.hold_auction(seed) for seed in range(draws)]
    for name in setting.setting.tasks:
        nobody = np.array([not winners[name] for winners in found])
        share = np.array([len(winners[name]) / 4 for winners in found])
        chance = setting.nobody(name)
        assert 0.1 < chance < 0.9
        assert abs(nobody.mean() - chance) < 4 * (chance * (1 - chance) / draws) ** 0.5
        error = share.std() / draws**0.5
        assert abs(share.mean() - setting.join(name)) < 4 * error + 1 / 800  # of 400 cells


def test_the_printed_factor_with_one_chance_is_its_mean_over_all_bids():
    setting = recruiting(BudgetFair(budget=0.7))
    rng, law, name = np.random.default_rng(0), UniformBids(), "cheap"
    sums = [
        printed.joint_sum([join_budget_fair(b, 4, 2, 0.7, law.cdf) for b in rng.random(4)])
        for _ in range(500)
    ]
    error = np.std(sums) / len(sums) ** 0.5
    assert abs(np.mean(sums) - printed.joint_sum([setting.join(name)] * 4)) < 4 * error


def test_what_the_theorem_does_not_cover_is_refused_in_one_sentence():
    fair = BudgetFair(budget=1.0)
    with pytest.raises(InputError, match="alpha and active must be 1 with an auction, got alpha"):
        recruiting(fair, alpha=2.0)
    with pytest.raises(InputError, match=r"and active = 0\.5"):
        recruiting(fair, active=0.5)
    unequal = {name: convex.quadratic((1, 2, 3)) for name in ("cheap", "dear")}
    with pytest.raises(InputError, match="amount of data for 'cheap', got 1, 2, 3"):
        recruiting(fair, tasks=unequal)
    for mechanism in (MaxMinFair(budget=1.0), GMMFair(budget=1.0)):
        with pytest.raises(InputError, match="or MaxMinFair with fractional=False, got"):
            recruiting(mechanism)
    setting = recruiting(fair)
    odd = dataclasses.replace(setting.recruitment, correlation=0.5)
    with pytest.raises(InputError, match="from bid models, with correlation 0"):
        dataclasses.replace(setting, recruitment=odd)
    file = RecruitmentSettings(mechanism=fair, bids=Csv(path="bids.csv"))
    with pytest.raises(InputError, match="from bid models"):
        dataclasses.replace(setting, recruitment=file)
    with pytest.raises(ValueError, match="no task is called 'dear'"):
        recruiting(fair, tasks={"cheap": convex.quadratic()})
