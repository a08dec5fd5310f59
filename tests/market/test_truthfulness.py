from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.market import (
    Bids,
    BudgetFair,
    GMMFair,
    GreedyWithinBudget,
    MaxMinFair,
    RandomWithinBudget,
    ValueThreshold,
    best_response,
    budget_fair,
)
from mmfl.market.truthfulness import responses
from support.marks import slow

THREE = [[0.30], [0.35], [0.40]]
RULES = [
    BudgetFair(1.0),
    BudgetFair(1.0, "share"),
    *(MaxMinFair(1.0, pay, part) for pay in ("critical", "share") for part in (True, False)),
    GMMFair(1.0),
    GreedyWithinBudget(1.0),
    RandomWithinBudget(1.0, seed=3),
    ValueThreshold(0.4),
]


def markets(most: int = 5, tasks: int = 3) -> st.SearchStrategy[np.ndarray]:
    """Costs in units of the budget, with many ties, zeros and unwilling clients."""
    cell = st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4, 0.5, 1.0, math.inf]) | st.floats(0.01, 0.6)
    return (
        st.integers(1, tasks)
        .flatmap(
            lambda S: st.lists(st.lists(cell, min_size=S, max_size=S), min_size=1, max_size=most)
        )
        .map(np.array)
    )


def random_market(seed: int, N: int, S: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random((N, S)) / (rng.uniform(0.05, 0.25) * N * S)


def gain_of(mechanism, costs, user, s, bid) -> float:
    bids = np.array(costs, dtype=float)
    bids[user, s] = bid
    before = mechanism.recruit(costs).utility(costs)[user]
    return mechanism.recruit(bids).utility(costs)[user] - before


def test_the_printed_price_of_budget_fair_rewards_an_underbid():
    found = best_response(BudgetFair(1.0, "share"), THREE, 2)
    assert found.gain == pytest.approx(0.10)
    assert found.underbid == found.gain == found.in_task
    assert (found.user, found.task, found.truthful) == (2, 0, 0.0)
    assert found.bids[0] < 0.35
    assert best_response(BudgetFair(1.0), THREE, 2).gain == 0
    assert gain_of(BudgetFair(1.0), THREE, 2, 0, 0.34) == pytest.approx(-0.05)


@given(markets(), st.data())
def test_budget_fair_with_critical_payments_is_truthful(costs, data):
    user = data.draw(st.integers(0, len(costs) - 1))
    for found in responses(BudgetFair(1.0), costs, user):
        assert found.gain == found.underbid == found.in_task == found.in_task_underbid == 0
        assert found.bids == tuple(costs[user])


@given(markets(tasks=2), st.data())
def test_so_are_a_posted_price_and_max_min_fair_with_one_task(costs, data):
    user = data.draw(st.integers(0, len(costs) - 1))
    assert best_response(ValueThreshold(0.3), costs, user).gain == 0
    integer = MaxMinFair(1.0, fractional=False)
    assert best_response(integer, costs[:, :1], user).gain == 0


@pytest.mark.parametrize("seed", [*range(6), *map(slow, range(6, 12))])
def test_a_winner_gains_exactly_what_its_threshold_exceeds_its_price(seed):
    """Critical payments, no fractions: the best gain in a task is theta_s - price_s."""
    S = 2 + seed % 2
    costs = Bids(random_market(seed, 5 + seed % 3, S))
    mechanism = MaxMinFair(1.0, fractional=False)
    outcome = mechanism.recruit(costs)
    T = len(outcome.winners[0])
    last = [b if T else 0.0 for b in costs.smallest(max(T, 1))]
    following = costs.smallest(T + 1)
    for user in range(costs.shape[0]):
        for found in responses(mechanism, costs, user)[:-1]:
            s = found.task
            expected = 0.0
            if user in outcome.winners[s]:
                theta = min(1.0 / T - sum(last) + last[s], following[s])
                expected = theta - outcome.price[s]
            assert found.in_task == pytest.approx(expected, abs=1e-7)
            assert found.in_task_underbid == 0
            if user in outcome.winners[s] and found.gain > 0:
                assert found.take_up == (T, T)


def test_who_is_paid_its_bid_asks_for_all_there_is():
    """The threshold B - sum of the others' bids is far above all bids, and found all the same."""
    for mechanism in (GMMFair(1.0), GreedyWithinBudget(1.0)):
        found = best_response(mechanism, [[0.1]], 0)
        assert found.gain == pytest.approx(0.9, rel=1e-6)
    assert best_response(GMMFair(1.0), [[0.0], [0.0]], 0).gain == pytest.approx(1.0, rel=1e-6)
    found = best_response(GMMFair(10.0), [[1.0, math.inf], [math.inf, 3.0]], 0)
    assert found.bids == (pytest.approx(7.0), math.inf)


@pytest.mark.parametrize("seeds", [(0,), slow((1, 2))])
@pytest.mark.parametrize("mechanism", RULES, ids=repr)
def test_no_bid_of_a_fine_grid_is_better(mechanism, seeds):
    for seed in seeds:
        costs = random_market(100 + seed, 4, 2)
        for found in responses(mechanism, costs, seed)[:-1]:
            grid = np.linspace(0, 2 * costs.max(), 80)
            best = max(gain_of(mechanism, costs, seed, found.task, bid) for bid in grid)
            assert best <= found.gain + 1e-8
            if found.gain:
                lie = found.bids[found.task]
                again = gain_of(mechanism, costs, seed, found.task, lie)
                assert again == pytest.approx(found.gain)


@pytest.mark.parametrize("mechanism", RULES[:8], ids=repr)
def test_lies_scale_with_the_money(mechanism):
    costs = random_market(7, 5, 2)
    for factor in (1e-6, 1e6):
        other = type(mechanism)(
            **{
                **{name: getattr(mechanism, name) for name in mechanism.__dataclass_fields__},
                "budget": factor,
            }
        )
        for user in (0, 3):
            found, scaled = (
                best_response(mechanism, costs, user),
                best_response(other, costs * factor, user),
            )
            assert scaled.gain == pytest.approx(found.gain * factor, rel=1e-6)


def test_an_outlier_does_not_hide_small_gains():
    found = best_response(BudgetFair(1.0, "share"), [*THREE, [1e9]], 2)
    assert found.gain == pytest.approx(0.10)


def test_unwilling_clients_do_not_lie_where_they_are_unwilling():
    costs = [[math.inf, 0.1], [math.inf, math.inf], [0.2, 0.3]]
    one, common = responses(GMMFair(1.0), costs, 0)
    assert (one.task, common.task) == (1, None)
    (only,) = responses(GMMFair(1.0), costs, 1)
    assert only.gain == 0
    assert only.bids == (math.inf, math.inf)


@pytest.mark.parametrize("user", [-1, 3, 1.0, "0", None, True])
def test_a_bad_user_is_refused(user):
    with pytest.raises(InputError, match="user must be a row of the costs, 0 to 2"):
        best_response(BudgetFair(1.0), THREE, user)


def test_other_bad_input_is_refused():
    with pytest.raises(InputError, match="must have a `recruit` method or be a function"):
        best_response("budget_fair", THREE, 0)
    with pytest.raises(InputError, match="most must be at least 1"):
        best_response(BudgetFair(1.0), THREE, 0, most=0)
    with pytest.raises(InputError, match="row 0, column 0"):
        best_response(BudgetFair(1.0), [[math.nan]], 0)


def test_a_function_is_a_mechanism_too():
    def rule(bids):
        return budget_fair(bids, 1.0, payment="share")

    assert best_response(rule, THREE, np.int64(2)) == best_response(
        BudgetFair(1.0, "share"), THREE, 2
    )


def test_each_bid_is_tried_once_and_all_are_counted():
    seen = []

    def rule(bids):
        seen.append(bids.values[2].tobytes())
        return budget_fair(bids, 1.0, payment="share")

    found = responses(rule, THREE, 2)
    assert len(seen) == len(set(seen))
    assert {each.tried for each in found} == {len(seen)}


def test_fewer_bids_are_tried_if_asked():
    costs = random_market(1, 60, 2)
    many, few = (best_response(GMMFair(1.0), costs, 5, most=most) for most in (None, 64))
    assert few.tried < many.tried / 2
    assert few.gain <= many.gain + 1e-9


def test_results_do_not_hang_on_the_order_of_calls_or_change_the_costs():
    costs = random_market(2, 5, 2)
    kept = costs.copy()
    there = [responses(MaxMinFair(1.0), costs, user) for user in range(5)]
    back = [responses(MaxMinFair(1.0), costs, user) for user in reversed(range(5))]
    assert there == back[::-1]
    assert (costs == kept).all()


@pytest.mark.parametrize("mechanism", RULES, ids=repr)
@pytest.mark.parametrize("costs", [[[1e308], [1e307]], [[5e-324], [1e-300]], [[0.0], [0.0]]])
def test_extreme_costs_are_searched_too(mechanism, costs):
    found = best_response(mechanism, costs, 0)
    assert found.gain >= 0
    assert found.tried < 1000


@pytest.mark.parametrize("mechanism", [MaxMinFair(1e300), GMMFair(1e-9)], ids=repr)
def test_bids_at_the_end_of_all_floats_are_searched_too(mechanism):
    costs = random_market(3, 12, 3)
    costs[4, 1], costs[7, 1], costs[8, 2] = 1e308, 1.7e308, 1.7e308
    for user in (0, 4, 7):
        found = best_response(mechanism, costs, user)
        assert 0 <= found.gain < float("inf")
        assert all(bid == bid for bid in found.bids)


@given(markets(), st.data())
def test_a_lie_lowers_the_worst_take_up_by_two_at_most(costs, data):
    """The corollary "Untruthfulness Impact": one round earlier at most, so by 2 at most."""
    mechanism = data.draw(st.sampled_from(RULES[2:6]))
    user = data.draw(st.integers(0, len(costs) - 1))
    for found in responses(mechanism, costs, user):
        assert found.take_up[0] - found.lowest <= (2 if mechanism.fractional else 1) + 1e-9
        assert found.lowest <= min(found.take_up)
