"""What the auctions promise (BF, IR, AN, MO, MB), and witnesses where they promise nothing."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.market import max_min_fair, random_within_budget, value_threshold
from support.markets import (
    BUDGETED,
    FIXED_SHARE,
    MAX_MIN,
    PAID_THEIR_BID,
    RULES,
    Case,
    cases,
    random_case,
    rationals,
    same,
)

SLACK = Q("1e-9")
every = pytest.mark.parametrize("rule", RULES)
with_budget = pytest.mark.parametrize("rule", BUDGETED)
DISTINCT = ("plain", "skewed")


# BF: within the budget


@with_budget
@given(case=cases())
def test_the_budget_is_kept_in_exact_arithmetic(rule, case):
    outcome = BUDGETED[rule](*case)
    assert sum(rationals(outcome.payment)) <= Q(case.budget) * (1 + SLACK)


@pytest.mark.parametrize("rule", FIXED_SHARE)
@given(case=cases())
def test_each_task_keeps_to_its_share_where_that_is_fixed(rule, case):
    outcome = BUDGETED[rule](*case)
    S = case.bids.shape[1]
    for s in range(S):
        assert sum(rationals(outcome.payment[:, s])) <= Q(case.budget) / S * (1 + SLACK)


@with_budget
@given(case=cases(most=8), place=st.integers(0, 7), nudge=st.floats(-4, 4))
def test_the_budget_is_kept_where_bids_fit_all_but_exactly(rule, case, place, nudge):
    """Budgets a few 1e-10 beside an exact fit: on either side of what still counts as enough."""
    ascending = np.sort(case.bids, axis=0)
    need = [(t + 1) * ascending[t].sum() for t in range(len(ascending))]
    need = [amount for amount in need if 0 < amount < math.inf]
    if need:
        budget = need[place % len(need)] * (1 + nudge * 3e-10)
        outcome = BUDGETED[rule](case.bids, budget)
        assert sum(rationals(outcome.payment)) <= Q(budget) * (1 + SLACK * Q("1.001"))


def test_a_posted_price_keeps_to_no_budget():
    spent = [value_threshold(np.full((n, 2), 0.1), 1.0).spent for n in (1, 10, 100)]
    assert spent == [2, 20, 200]


# IR: nobody loses


@every
@given(case=cases())
def test_winners_are_paid_their_bid_or_more_in_exact_arithmetic(rule, case):
    outcome = RULES[rule](*case)
    asked = case.bids.ravel().tolist()
    x, pay = rationals(outcome.participation), rationals(outcome.payment)
    for bid, part, paid in zip(asked, x, pay, strict=True):
        if part == 0:
            assert paid == 0
        elif part == 1:
            assert paid >= Q(bid)
        else:
            assert 0 < part < 1
            assert paid > 0
            assert abs(paid / (part * Q(bid)) - 1) < Q("1e-15")  # paid its bid for its part


@every
@given(case=cases())
def test_unwilling_users_never_take_part(rule, case):
    outcome = RULES[rule](*case)
    assert not outcome.participation[np.isinf(case.bids)].any()


@pytest.mark.parametrize("rule", PAID_THEIR_BID)
@given(case=cases())
def test_these_pay_exactly_the_bid(rule, case):
    outcome = RULES[rule](*case)
    joins = outcome.participation == 1
    assert (outcome.payment[joins] == case.bids[joins]).all()
    assert outcome.price == (None,) * case.bids.shape[1]


@given(case=cases())
@every
def test_cheaper_users_go_first_and_equal_ones_by_their_row(rule, case):
    if rule == "random_within_budget":
        return
    outcome = RULES[rule](*case)
    for s, rows in enumerate(outcome.winners):
        order = np.argsort(case.bids[:, s], kind="stable")
        assert rows.tolist() == order[: len(rows)].tolist()
        part = outcome.fractional[s]
        assert part is None or part.user == order[len(rows)]


# AN: anonymity


@every
@given(case=cases(styles=DISTINCT), seed=st.integers(0, 2**32))
def test_permuting_users_permutes_the_result(rule, case, seed):
    N, S = case.bids.shape
    rows = np.random.default_rng(seed).permutation(N)
    before = RULES[rule](*case)
    if rule == "random_within_budget":  # given the order in which they are asked
        order = np.stack([np.random.default_rng([seed, s]).permutation(N) for s in range(S)])
        before = random_within_budget(*case, order=order)
        after = random_within_budget(case.bids[rows], case.budget, order=np.argsort(rows)[order])
    else:
        after = RULES[rule](case.bids[rows], case.budget)
    assert np.array_equal(after.participation, before.participation[rows])
    assert np.array_equal(after.payment, before.payment[rows])


@every
@given(case=cases(), seed=st.integers(0, 2**32))
def test_permuting_tasks_permutes_the_result(rule, case, seed):
    N, S = case.bids.shape
    tasks = np.random.default_rng(seed).permutation(S)
    before, after = RULES[rule](*case), RULES[rule](case.bids[:, tasks], case.budget)
    if rule == "random_within_budget":
        order = np.stack([np.random.default_rng([seed, s]).permutation(N) for s in range(S)])
        before = random_within_budget(*case, order=order)
        after = random_within_budget(case.bids[:, tasks], case.budget, order=order[tasks])
    expected = dataclasses.replace(
        before,
        participation=before.participation[:, tasks],
        payment=before.payment[:, tasks],
        winners=tuple(before.winners[s] for s in tasks),
        price=tuple(before.price[s] for s in tasks),
        fractional=tuple(before.fractional[s] for s in tasks),
    )
    same(after, expected, case.budget)


@every
@given(case=cases(), power=st.integers(-30, 30))
def test_scaling_by_a_power_of_two_scales_every_payment_exactly(rule, case, power):
    c = 2.0**power
    before, after = RULES[rule](*case), RULES[rule](case.bids * c, case.budget * c)
    assert np.array_equal(after.participation, before.participation)
    assert np.array_equal(after.payment, before.payment * c)
    assert after.stop == before.stop


@with_budget
@given(case=cases(), c=st.floats(1e-9, 1e9))
def test_scaling_by_any_factor_scales_the_payments(rule, case, c):
    before, after = BUDGETED[rule](*case), BUDGETED[rule](case.bids * c, case.budget * c)
    price = tuple(p if p is None else p * c for p in before.price)
    expected = dataclasses.replace(before, payment=before.payment * c, price=price)
    same(after, expected, case.budget * c)


# MO: asking for less never costs participation


@every
@given(case=cases(most=40), data=st.data())
def test_lowering_ones_bid_never_lowers_ones_participation(rule, case, data):
    N, S = case.bids.shape
    if N == 0:
        return
    i, s = data.draw(st.integers(0, N - 1)), data.draw(st.integers(0, S - 1))
    asked = case.bids[:, s]
    lower = [bid for bid in asked.tolist() if bid < asked[i]] + [0.0]
    high = min(asked[i], np.nanmax(np.where(np.isinf(asked), 0.0, asked)) + case.budget)
    low = data.draw(st.sampled_from(lower) | st.floats(0, 1).map(lambda part: part * high))
    changed = case.bids.copy()
    changed[i, s] = min(low, asked[i])
    before, after = RULES[rule](*case), RULES[rule](changed, case.budget)
    assert after.participation[i, s] >= before.participation[i, s] - 1e-9


# MB: more money never lowers the worst task's take-up


@with_budget
@given(case=cases(most=60), more=st.floats(0, 1) | st.floats(0, 1e-6))
def test_a_larger_budget_never_lowers_the_minimum(rule, case, more):
    before = BUDGETED[rule](*case)
    after = BUDGETED[rule](case.bids, case.budget * (1 + more))
    assert after.min_take_up >= before.min_take_up - 1e-9


@pytest.mark.parametrize("variant", MAX_MIN)
def test_the_minimum_rises_along_a_fine_grid_of_budgets(variant):
    rng = np.random.default_rng(5)
    for style in ("plain", "decimal", "zeros"):
        bids = random_case(rng, 12, 3, style, "some").bids
        budgets = np.linspace(0.01, 12, 300)
        found = [max_min_fair(bids, b, **MAX_MIN[variant]).min_take_up for b in budgets]
        assert (np.diff(found) >= -1e-9).all()


# All of it at the edges of the number range


@every
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e300])
def test_extreme_amounts_are_no_trouble(rule, scale):
    bids = np.array([[1, 2, 3], [2, np.inf, 1], [3, 4, 0], [50, 60, 70]]) * scale
    case = Case(bids, 9 * scale)
    outcome = RULES[rule](*case)
    assert np.isfinite(outcome.payment).all()
    joins = outcome.participation == 1
    assert joins.any()
    assert (outcome.payment[joins] >= bids[joins]).all()
    if rule in BUDGETED and scale > 1e-323:
        assert outcome.spent <= case.budget * (1 + 1e-9)


@every
def test_the_largest_numbers_do_not_overflow(rule):
    largest = np.finfo(float).max
    outcome = RULES[rule]([[largest, 1.0], [largest, largest], [1.0, largest]], largest)
    assert np.isfinite(outcome.payment).all()
    if rule != "random_within_budget":  # which may stop at a bid that does not fit
        assert outcome.participation[0, 1] == outcome.participation[2, 0] == 1
