"""Where bidding one's costs is best, whatever the others do; and lies that pay elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.market import (
    BudgetFair,
    MaxMinFair,
    ValueThreshold,
    best_response,
    budget_fair,
    max_min_fair,
)
from support.markets import RULES, Case, cases, random_case

TRUTHFUL = {
    "budget_fair": BudgetFair,
    "value_threshold": ValueThreshold,
}


@pytest.mark.parametrize("kind", TRUTHFUL)
@settings(max_examples=20)
@given(case=cases(most=6), place=st.integers(0, 6))
def test_no_lie_pays(kind, case, place):
    N = len(case.bids)
    if N:
        mechanism = TRUTHFUL[kind](case.budget)
        assert best_response(mechanism, case.bids, place % N).gain == 0


@pytest.mark.parametrize("rule", ["budget_fair critical", "value_threshold"])
@given(case=cases(most=20), data=st.data())
def test_no_lie_in_all_tasks_at_once_pays(rule, case, data):
    N, S = case.bids.shape
    if N == 0:
        return
    user = data.draw(st.integers(0, N - 1))
    known = [bid for bid in case.bids.ravel().tolist() if np.isfinite(bid)]
    false = st.sampled_from([*known, 0.0, np.inf]) | st.floats(0, 1).map(lambda x: x * case.budget)
    lie = case.bids.copy()
    lie[user] = data.draw(st.lists(false, min_size=S, max_size=S))
    lie[user, np.isinf(case.bids[user])] = np.inf  # what it cannot train it cannot offer
    honest = RULES[rule](*case).utility(case.bids)[user]
    found = RULES[rule](lie, case.budget).utility(case.bids)[user]
    assert found <= honest + 1e-8 * max([case.budget, *known])


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), N=st.integers(1, 7), place=st.integers(0, 6))
def test_max_min_fair_with_one_task_and_no_fractions_is_truthful(seed, N, place):
    case = random_case(np.random.default_rng(seed), N, 1, "decimal", "some")
    mechanism = MaxMinFair(case.budget, fractional=False)
    assert best_response(mechanism, case.bids, place % N).gain == 0


@given(case=cases(most=30))
def test_budget_fair_pays_the_highest_bid_that_still_wins(case):
    """The critical value: winners keep winning up to their price, and lose beyond it."""
    before = budget_fair(*case)
    for s, price in enumerate(before.price):
        if price is None:
            continue
        user = before.winners[s][0]
        for factor, wins in ((1 - 1e-7, 1), (1 + 1e-7, 0)):
            changed = case.bids.copy()
            changed[user, s] = price * factor
            rest = np.delete(case.bids[:, s], user)
            if price * factor == 0 or np.isclose(rest, price, rtol=1e-6).any():
                continue  # a tie at the price: who wins it is a matter of rows
            assert budget_fair(changed, case.budget).participation[user, s] == wins


@given(case=cases(most=30, styles=("tied", "decimal")))
def test_a_loser_with_the_bid_of_a_winner_does_not_envy_it(case):
    outcome = budget_fair(*case)
    for s, price in enumerate(outcome.price):
        loses = outcome.participation[:, s] == 0
        tied = case.bids[:, s] == case.bids[outcome.winners[s], s].max(initial=-1)
        if (loses & tied).any():
            assert price == case.bids[outcome.winners[s], s].max()


# The entries "no" of the table: a lie that pays, for each


@pytest.mark.parametrize(
    ("rule", "costs", "budget", "user", "lie", "gain"),
    [
        ("budget_fair share", [[0.30], [0.35], [0.40]], 1, 2, [0.34], 0.10),
        ("gmm_fair", [[0.1, 0.2], [0.4, 0.5]], 1, 0, [0.3, 0.2], 0.20),
        ("greedy_within_budget", [[0.1], [0.5]], 1, 0, [0.4], 0.30),
        ("random_within_budget", [[0.1], [0.5]], 1, 0, [0.4], 0.30),
        ("max_min_fair critical integer", [[0.1, np.inf], [np.inf, 0.1]], 1, 0, [0.9, np.inf], 0.4),
        ("max_min_fair share integer", [[0.30], [0.35], [0.40]], 1, 2, [0.34], 0.10),
        ("max_min_fair critical fractional", [[0.6], [0.9]], 1, 1, [0.95], 0.05 - 0.9 / 19),
        ("max_min_fair share fractional", [[0.30], [0.35], [0.40]], 1, 2, [0.33], 0.10),
    ],
)
def test_a_lie_that_pays(rule, costs, budget, user, lie, gain):
    false = np.array(costs)
    false[user] = lie
    honest = RULES[rule](costs, budget).utility(costs)[user]
    assert RULES[rule](false, budget).utility(costs)[user] - honest == pytest.approx(gain)


def test_best_response_finds_such_a_lie():
    found = best_response(BudgetFair(1.0, "share"), [[0.30], [0.35], [0.40]], 2)
    assert found.gain == pytest.approx(0.10, abs=1e-6)
    assert found.underbid == pytest.approx(0.10, abs=1e-6)
    assert found.bids[0] < 0.35


# Max-Min Fair, critical pay, no fractions: what a winner can gain in its own task (5.6)


def tops(bids, budget, T):
    """theta_s: up to which bid the T winners of task s keep winning."""
    ascending = np.vstack([np.sort(bids, axis=0), np.full(bids.shape[1], np.inf)])
    last, following = ascending[T - 1], ascending[T]
    return np.minimum(budget / T - (last.sum() - last), following)


def own_utility(case: Case, user: int, s: int, bid: float) -> float:
    """What the user gets from task s if it bids this for it."""
    changed = case.bids.copy()
    changed[user, s] = bid
    outcome = max_min_fair(changed, case.budget, fractional=False)
    return float(outcome.payment[user, s] - outcome.participation[user, s] * case.bids[user, s])


@pytest.mark.parametrize("seed", range(16))
def test_the_best_gain_of_a_winner_is_theta_minus_price(seed):
    rng = np.random.default_rng(seed)
    S = int(rng.integers(1, 4))
    case = random_case(rng, int(rng.integers(2, 9)), S, "plain", "none")
    outcome = max_min_fair(*case, fractional=False)
    s, T = int(rng.integers(S)), len(outcome.winners[0])
    near = 1e-7 * max(case.budget, 1.0)
    others = case.bids[:, s].tolist()
    tried = [*others, *(bid * (1 - 1e-9) for bid in others), *np.linspace(0, 2, 25), 1e9]
    for user in rng.permutation(len(case.bids))[:4].tolist():
        cost = case.bids[user, s]
        honest = own_utility(case, user, s, cost)
        gains = {bid: own_utility(case, user, s, bid) - honest for bid in tried}
        assert max(gain for bid, gain in gains.items() if bid <= cost) <= near  # no underbid pays
        if user not in outcome.winners[s]:
            assert max(gains.values()) <= near  # a loser never gains
            continue
        theta = tops(case.bids, case.budget, T)[s]
        lie = theta * (1 - 1e-12)
        best = max(*gains.values(), own_utility(case, user, s, lie) - honest)
        assert best == pytest.approx(theta - outcome.price[s], abs=near)
        changed = case.bids.copy()
        changed[user, s] = lie
        after = max_min_fair(changed, case.budget, fractional=False)
        assert [len(rows) for rows in after.winners] == [T] * S  # such a lie leaves T as it is
