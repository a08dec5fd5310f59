"""Max-Min Fair: the closed form is Algorithm 3 told in rounds, and the facts about both."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.market import (
    budget_fair,
    gmm_fair,
    is_budget_feasible,
    is_max_min_optimal,
    max_min_fair,
    max_min_fair_by_rounds,
    max_min_optimum,
)
from mmfl.market.by_rounds import rounds_of
from support.markets import MAX_MIN, Case, adversarial, bid, cases, same
from support.marks import slow

variants = pytest.mark.parametrize("variant", MAX_MIN)


def rounds(case: Case) -> int:
    """T: how many rounds succeed."""
    return len(max_min_fair(*case, fractional=False).winners[0])


# Two tellings of one rule


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
@variants
def test_the_closed_form_is_the_rounds(variant, seed):
    options = MAX_MIN[variant]
    for case in adversarial(200, seed):
        fast, plain = max_min_fair(*case, **options), max_min_fair_by_rounds(*case, **options)
        same(fast, plain, case.budget)


@variants
@settings(max_examples=25)
@given(case=cases(most=25))
def test_hypothesis_finds_no_difference_either(variant, case):
    options = MAX_MIN[variant]
    fast, plain = max_min_fair(*case, **options), max_min_fair_by_rounds(*case, **options)
    same(fast, plain, case.budget)


@pytest.mark.parametrize("seed", range(3))
def test_funds_always_add_up_to_the_budget_and_pay_what_was_needed(seed):
    """Section 5.1, from the rounds themselves."""
    for case in adversarial(60, 100 + seed):
        *done, last = rounds_of(*case)
        assert last.t == len(done) + 1 == rounds(case) + 1
        for one in (*done, last):
            assert float(sum(one.funds.values())) == pytest.approx(case.budget, rel=2e-9)
            assert {s: float(n) for s, n in one.need.items()} == pytest.approx(
                {s: one.t * b for s, b in enumerate(bid(case.bids, one.t)) if b < math.inf}
            )
        for one, following in pairwise((*done, last)):
            assert not one.ends
            assert following.funds == one.after
            assert all(one.after[s] >= one.need[s] for s in one.need)
            lowered = [s for s in one.rich if one.need[s] < one.after[s] < one.funds[s]]
            for level in {one.after[s] for s in lowered}:  # the fullest are lowered together
                assert all(
                    one.after[s] == max(one.need[s], min(one.funds[s], level)) for s in one.rich
                )
        assert last.ends


@given(case=cases(most=60))
def test_the_number_of_rounds_is_what_the_closed_form_says(case):
    T = rounds(case)
    most = case.budget * (1 + 1e-9)
    assert T == 0 or T * sum(bid(case.bids, T)) <= most * (1 + 1e-15)
    assert (T + 1) * sum(bid(case.bids, T + 1)) > most * (1 - 1e-15)


# What it is worth


@given(case=cases(most=60))
def test_it_lies_between_budget_fair_and_the_optimum(case):
    T = rounds(case)
    best = len(gmm_fair(*case).winners[0])
    assert best == max_min_optimum(*case)
    assert budget_fair(*case).min_take_up <= T <= best
    assert (best + 1) // 2 <= T
    for options in MAX_MIN.values():
        outcome = max_min_fair(*case, **options)
        assert math.floor(outcome.min_take_up * (1 - 1e-9)) <= best
        assert T <= outcome.min_take_up <= T + 1


def test_the_minimum_with_its_fraction_may_exceed_the_optimum():
    bids = [[0.6], [0.9]]
    outcome = max_min_fair(bids, 1.0)
    assert outcome.min_take_up == pytest.approx(1 + 1 / 9)
    assert gmm_fair(bids, 1.0).min_take_up == max_min_optimum(bids, 1.0) == 1
    assert is_max_min_optimal(outcome, 1.0)


def test_half_of_the_optimum_is_reached_where_it_cannot_be_better():
    bids, budget = [[0.0], [0.0], [0.4], [0.6]], 1.0
    assert gmm_fair(bids, budget).min_take_up == 4
    assert rounds(Case(np.array(bids), budget)) == 2


@given(case=cases(most=60))
def test_all_tasks_get_about_the_same(case):
    for variant, options in MAX_MIN.items():
        outcome = max_min_fair(*case, **options)
        if not options["fractional"]:
            assert outcome.difference == 0
            assert outcome.fractional == (None,) * case.bids.shape[1]
            continue
        assert outcome.difference <= 1
        served = all(
            part is not None or len(rows) == rounds(case) + 1
            for part, rows in zip(outcome.fractional, outcome.winners, strict=True)
        )
        if served and outcome.stop == "budget":
            assert outcome.difference < 1, variant


@given(case=cases(most=30), data=st.data())
def test_one_user_can_do_little_harm(case, data):
    N, S = case.bids.shape
    if N == 0:
        return
    user = data.draw(st.integers(0, N - 1))
    known = [b for b in case.bids.ravel().tolist() if b < math.inf] or [1.0]
    bids = st.sampled_from([*known, 0.0, math.inf]) | st.floats(0, 2).map(lambda x: x * max(known))
    lie = case.bids.copy()
    lie[user] = data.draw(st.lists(bids, min_size=S, max_size=S) | st.just([math.inf] * S))
    changed = Case(lie, case.budget)
    assert rounds(changed) >= rounds(case) - 1
    for options in MAX_MIN.values():
        before, after = max_min_fair(*case, **options), max_min_fair(*changed, **options)
        assert after.min_take_up > before.min_take_up - 2 - 1e-9


# Money


@given(case=cases(most=60))
def test_share_pay_spends_all_of_the_budget(case):
    willing = np.isfinite(case.bids).any(axis=0)
    for fractional in (True, False):
        outcome = max_min_fair(*case, payment="share", fractional=fractional)
        if rounds(case):
            assert outcome.spent == pytest.approx(case.budget, rel=2e-9)
        elif not fractional:
            assert outcome.spent == 0
        else:  # but the funds of tasks that nobody is willing to train
            expected = case.budget * willing.mean()
            assert outcome.spent == pytest.approx(expected, rel=2e-9)


@given(case=cases(most=60))
def test_critical_pay_is_never_above_share_pay_with_the_same_winners(case):
    critical = max_min_fair(*case, fractional=False)
    share = max_min_fair(*case, fractional=False, payment="share")
    assert np.array_equal(critical.participation, share.participation)
    assert (critical.payment <= share.payment * (1 + 1e-12)).all()
    following = bid(case.bids, rounds(case) + 1)
    for s, (low, high) in enumerate(zip(critical.price, share.price, strict=True)):
        assert low is None or low == pytest.approx(min(high, following[s]), rel=2e-9)


@given(case=cases(most=60))
def test_all_tasks_share_one_floor_price(case):
    """Section 5.2: the price is max(b(T, s), pi)."""
    outcome = max_min_fair(*case, fractional=False, payment="share")
    T = rounds(case)
    if T:
        last = bid(case.bids, T)
        near = 2e-9 * case.budget
        lifted = [p for p, b in zip(outcome.price, last, strict=True) if p > b + near]
        floor = max(lifted, default=0.0)
        assert lifted == pytest.approx([floor] * len(lifted), rel=1e-9)
        assert all(p >= floor * (1 - 1e-9) for p in outcome.price) or not lifted


@pytest.mark.parametrize(
    ("bids", "budget", "stop"),
    [
        ([[0.1, 0.1], [0.2, 0.2]], 10.0, "exhausted"),
        ([[0.1, 0.1], [0.2, np.inf]], 10.0, "exhausted"),
        ([[0.1, 0.1], [0.2, np.inf]], 0.1, "budget"),
        ([[0.1, 0.1], [0.2, 0.2]], 0.3, "budget"),
        ([[np.inf, 0.1]], 1.0, "exhausted"),
        (np.empty((0, 2)), 1.0, "exhausted"),
    ],
)
@variants
def test_it_says_why_it_stopped(variant, bids, budget, stop):
    assert max_min_fair(bids, budget, **MAX_MIN[variant]).stop == stop
    assert max_min_fair_by_rounds(bids, budget, **MAX_MIN[variant]).stop == stop


# One task


@given(case=cases(most=60))
def test_with_one_task_and_no_fractions_it_is_budget_fair(case):
    one = Case(case.bids[:, :1], case.budget)
    for payment in ("critical", "share"):
        ours = max_min_fair(*one, payment=payment, fractional=False)
        fair = budget_fair(*one, payment=payment)
        assert np.array_equal(ours.participation, fair.participation)
        assert ours.payment == pytest.approx(fair.payment, rel=1e-12)


@given(case=cases(most=40))
def test_budget_fair_cut_to_its_worst_task_is_feasible_and_never_more_than_t(case):
    """The truthful alternative of 5.6: T = min_s k_s winners a task, price min(B/(ST), b(T+1))."""
    fair = budget_fair(*case)
    cut = int(fair.min_take_up)
    assert cut <= rounds(case)
    if cut:
        S = case.bids.shape[1]
        price = [min(case.budget / (S * cut), b) for b in bid(case.bids, cut + 1)]
        assert cut * sum(price) <= case.budget * (1 + 1e-9)
        assert all(p >= b * (1 - 1e-9) for p, b in zip(price, bid(case.bids, cut), strict=True))
    assert is_budget_feasible(fair, case.budget, per_task=True)
