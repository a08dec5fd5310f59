"""Joining probabilities: exact ones against auctions that are held."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.market import BudgetFair, MaxMinFair
from mmfl.market.bids_io import Beta, Exponential, IncreasingLinear, TruncatedNormal, UniformBids
from mmfl.theory import (
    join_budget_fair,
    join_max_min,
    join_sampled,
    lowest,
    no_user_probability,
    no_user_probability_exp,
    printed,
)
from mmfl.theory.joining import sum_at_most

LAWS = [
    UniformBids(),
    IncreasingLinear(),
    TruncatedNormal(0.5, 0.2),
    Exponential(0.5),
    Beta(2.0, 3.0),
]
laws = st.sampled_from(LAWS)
DRAWS = 300


def agree(share: float, error: float, exact: float) -> bool:
    """Within five standard errors of either."""
    error = max(error, math.sqrt(exact * (1 - exact) / DRAWS))
    return abs(share - exact) <= 5 * error + 1 / DRAWS


@given(laws, st.lists(laws, max_size=3), st.data())
@settings(max_examples=15, deadline=None)
def test_exact_chances_are_those_of_auctions(own, others, data):
    S, N = 1 + len(others), data.draw(st.integers(2, 30))
    bid = data.draw(st.floats(0.01, 0.9))
    B = data.draw(st.floats(0.1, 0.4)) * N * S
    tasks = [own, *others]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    exact = join_budget_fair(bid, N, S, B, own.cdf)
    held = join_sampled(bid, N, tasks, BudgetFair(budget=B), draws=DRAWS, rng=rng)
    assert agree(held.full, held.full_error, exact)
    exact = join_max_min(bid, N, B, own.cdf, [law.cdf for law in others])
    auction = MaxMinFair(budget=B, fractional=False)
    held = join_sampled(bid, N, tasks, auction, draws=DRAWS, rng=rng)
    assert held.fractional == 0
    assert agree(held.full, held.full_error, exact)


def test_a_fractional_ending_gives_more_users_a_part():
    tasks, rng = [UniformBids(), IncreasingLinear()], np.random.default_rng(0)
    whole = join_max_min(0.35, 30, 9.0, UniformBids().cdf, [IncreasingLinear().cdf])
    held = join_sampled(0.35, 30, tasks, MaxMinFair(budget=9.0), draws=2000, rng=rng)
    assert held.full >= whole - 5 * held.full_error
    assert 0.02 < held.fractional < 0.1
    assert held.full < held.participation < held.full + held.fractional


@given(laws, st.integers(1, 40), st.floats(0.1, 20.0), st.data())
def test_lower_bids_join_more_often(law, N, B, data):
    low, high = sorted(data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    others = [IncreasingLinear().cdf]
    assert join_budget_fair(low, N, 2, B, law.cdf) >= join_budget_fair(high, N, 2, B, law.cdf)
    chances = [join_max_min(bid, N, B, law.cdf, others) for bid in (low, high)]
    assert chances[0] >= chances[1] - 1e-12


@given(laws, st.integers(1, 40), st.floats(0.1, 20.0), st.floats(0, 1))
def test_with_one_task_both_auctions_are_one(law, N, B, bid):
    single = join_max_min(bid, N, B, law.cdf, [])
    assert single == pytest.approx(join_budget_fair(bid, N, 1, B, law.cdf), abs=1e-12)


def test_exact_ties_are_affordable_and_the_unwilling_stay_away():
    assert join_budget_fair(0.25, 1, 4, 1.0, UniformBids().cdf) == 1.0  # 1 * 0.25 <= 1/4
    assert join_budget_fair(0.1, 3, 1, 0.3, lambda x: 1.0) == 1.0  # third of three: 3 * 0.1 <= 0.3
    assert join_budget_fair(0.0, 50, 2, 1.0, UniformBids().cdf) == 1.0
    assert join_budget_fair(math.inf, 5, 2, 1.0, UniformBids().cdf) == 0.0
    assert join_max_min(math.inf, 5, 1.0, UniformBids().cdf, [UniformBids().cdf]) == 0.0


@pytest.mark.parametrize("n", [2, 3, 4, 6])
@pytest.mark.parametrize("y", [0.3, 1.0, 2.5])
def test_sums_of_exponentials_and_uniforms_are_known(n, y):
    from scipy.special import gammainc

    exponential = [Exponential().cdf] * n
    assert sum_at_most(y, exponential) == pytest.approx(gammainc(n, y), abs=1e-7)
    irwin_hall = sum(
        (-1) ** k * math.comb(n, k) * max(y - k, 0.0) ** n for k in range(n + 1)
    ) / math.factorial(n)
    assert sum_at_most(y, [UniformBids().cdf] * n) == pytest.approx(min(irwin_hall, 1.0), abs=1e-7)


def test_a_law_may_have_a_lump_at_zero_and_know_single_numbers_only():
    def half_give_freely(x: float) -> float:
        return min(1.0, 0.5 + x / 2) if x >= 0 else 0.0

    found = sum_at_most(0.5, [half_give_freely, half_give_freely])
    # both 0: 1/4; one 0 and one uniform: 1/2 * 1/2; both uniform: 1/4 * 1/8
    assert found == pytest.approx(1 / 4 + 1 / 4 + 1 / 32, abs=1e-6)


@given(st.floats(0.05, 5.0), st.floats(0.2, 3.0), st.integers(1, 5))
def test_nobody_joins_as_exponentials_say(B, rate, S):
    least = [lambda x: -np.expm1(-rate * x)] * S
    for mechanism in ("budget_fair", "max_min_fair"):
        exact = no_user_probability_exp(B, rate, S, mechanism)
        assert no_user_probability(B, least, mechanism) == pytest.approx(exact, abs=1e-6)


@given(st.lists(laws, min_size=1, max_size=4), st.integers(1, 20), st.floats(0.05, 3.0))
@settings(deadline=None)
def test_max_min_never_leaves_a_task_empty_more_often(tasks, N, B):
    least = [lowest(law.cdf, N) for law in tasks]
    nobody = [no_user_probability(B, least, m) for m in ("max_min_fair", "budget_fair")]
    assert nobody[0] <= nobody[1] + 1e-6


def test_nobody_joins_as_often_as_in_auctions():
    N, B, rng = 4, 0.6, np.random.default_rng(5)
    tasks = [UniformBids(), IncreasingLinear(), UniformBids(0.1, 0.9)]
    exact = no_user_probability(B, [lowest(law.cdf, N) for law in tasks])
    u = rng.random((4000, N, 3))
    table = np.stack([law.quantile(u[:, :, s]) for s, law in enumerate(tasks)], axis=2)
    share = float((table.min(axis=1).sum(axis=1) > B).mean())
    assert share == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / 4000))
    outcomes = [MaxMinFair(budget=B, fractional=False).recruit(_bids(t)) for t in table[:400]]
    empty = np.mean([outcome.min_take_up == 0 for outcome in outcomes])
    assert empty == np.mean(table[:400].min(axis=1).sum(axis=1) > B)


def _bids(table):
    from mmfl.market import Bids

    return Bids(table)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: join_budget_fair(-1.0, 5, 2, 1.0, UniformBids().cdf), "bid must be >= 0"),
        (lambda: join_budget_fair(math.nan, 5, 2, 1.0, UniformBids().cdf), "bid must be >= 0"),
        (lambda: join_budget_fair(0.5, 0, 2, 1.0, UniformBids().cdf), "N must be at least 1"),
        (lambda: join_max_min(0.5, 5, 0.0, UniformBids().cdf, []), "B must be finite and > 0"),
        (lambda: join_budget_fair(0.5, 5, 2, 1.0, lambda x: x + 3), "a cdf must give"),
        (lambda: join_budget_fair(0.5, 5, 0, 1.0, UniformBids().cdf), "S must be at least 1"),
        (lambda: printed.join_max_min_least(0.0, 5, 2, 1.0, 0.5), "bid must be finite and > 0"),
        (lambda: no_user_probability(1.0, []), "at least one task"),
        (lambda: no_user_probability(1.0, [UniformBids().cdf], "gmm"), "mechanism must be"),
        (lambda: no_user_probability_exp(1.0, 0.0), "rate and S must be positive"),
        (lambda: no_user_probability_exp(1.0, 1.0, 2, "gmm"), "mechanism must be"),
    ],
)
def test_wrong_input_is_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        wrong()


def test_too_few_draws_are_refused_and_many_users_are_drawn_in_parts(monkeypatch):
    rng, auction = np.random.default_rng(0), MaxMinFair(budget=2.0)
    with pytest.raises(InputError, match="draws must be at least 2, got 1"):
        join_sampled(0.3, 5, [UniformBids()], auction, draws=1, rng=rng)
    whole = join_sampled(0.3, 6, [UniformBids()], auction, draws=50, rng=np.random.default_rng(1))
    monkeypatch.setattr("mmfl.theory.joining._AT_ONCE", 20)
    parts = join_sampled(0.3, 6, [UniformBids()], auction, draws=50, rng=np.random.default_rng(1))
    assert parts == whole


probabilities = st.floats(0, 1) | st.floats(0, 1e-12).map(lambda x: 1 - x) | st.just(1.0)


@given(st.lists(probabilities, min_size=1, max_size=5))
def test_the_chance_of_an_empty_task_is_exact_to_the_last_digits(below):
    """Against exact rationals: 1 - prod F, and not the rounding error of that difference."""
    laws = [lambda x, F=F: np.full_like(x, F) for F in below]
    exact = 1 - math.prod(map(Fraction, below))
    found = no_user_probability(1.0, laws, "budget_fair")
    assert abs(Fraction(found) - exact) <= exact * Fraction(1, 10**14)
    assert no_user_probability(1.0, laws[:1]) == 1.0 - below[0]
    joins = printed.joint_sum(below)
    exact = 1 - math.prod(1 - Fraction(F) for F in below)
    assert abs(Fraction(joins) - exact) <= exact * Fraction(1, 10**14)


@given(st.floats(0.001, 1), st.integers(1, 40), st.integers(1, 4))
def test_many_users_leave_a_task_empty_next_to_never_and_that_is_told(F, N, S):
    laws = [lowest(lambda x: np.full_like(x, F), N)] * S
    exact = 1 - (1 - (1 - Fraction(F)) ** N) ** S
    found = no_user_probability(1.0, laws, "budget_fair")
    smallest = Fraction(math.ulp(0.0))  # below 1e-308 floats lose digits
    assert abs(Fraction(found) - exact) <= exact * Fraction(1, 10**11) + 10 * smallest


@given(st.integers(1, 5), st.integers(0, 60))
@settings(max_examples=60)
def test_sums_of_uniforms_against_exact_rationals(n, tenths):
    y = Fraction(tenths, 10)
    irwin_hall = sum(
        (-1) ** k * math.comb(n, k) * max(y - k, Fraction(0)) ** n for k in range(n + 1)
    ) / math.factorial(n)
    exact = 1 - irwin_hall if y < n else Fraction(0)
    found = no_user_probability(max(float(y), 1e-9), [UniformBids().cdf] * n)
    assert found == pytest.approx(float(exact), abs=1e-6)
    assert (found == 0.0) == (exact == 0)


@pytest.mark.parametrize("mechanism", ["max_min_fair", "budget_fair"])
@pytest.mark.parametrize("S", [1, 2, 3, 4])
def test_a_budget_for_everybody_leaves_no_task_empty(S, mechanism):
    for N in (1, 2, 5):
        for B in (1.0, 1.5, 10.0):
            least = [lowest(UniformBids().cdf, N)] * S
            assert repr(no_user_probability(S * B, least, mechanism)) == "0.0"  # and not -0.0
    tenths = [UniformBids(0.0, 0.1).cdf] * 3
    assert no_user_probability(0.3, tenths) == 0.0  # though 0.1 + 0.1 + 0.1 > 0.3


def test_exponential_tails_are_not_lost():
    for mechanism, exact in (
        ("max_min_fair", 101 * math.exp(-100)),
        ("budget_fair", 2 * math.exp(-50)),
    ):
        found = no_user_probability_exp(100.0, 1.0, 2, mechanism)
        assert found == pytest.approx(exact, rel=1e-12)


def test_a_budget_next_to_nothing_recruits_nobody():
    assert no_user_probability_exp(1e-300, 1e-30, 2, "budget_fair") == 1.0
