"""Selection: enumeration, integral and Monte Carlo agree, and the laws hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.theory import (
    expected_weights,
    gamma_gap,
    inverse_size_term,
    pair_weight,
    sampled_weights,
    selection_probability,
    selection_probability_active,
    selection_skew,
    skew_bounds,
    square_weight_term,
)

shares = st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=9).map(
    lambda sizes: [size / sum(sizes) for size in sizes]
)
chances = st.floats(0.001, 1.0)
seeds = st.integers(0, 2**32)


def by_definition(p, q, power=1):
    """omega as the spec defines it, set after set."""
    found = np.zeros(len(p))
    for size in range(1, len(p) + 1):
        for chosen in itertools.combinations(range(len(p)), size):
            total = sum(p[k] for k in chosen)
            for k in chosen:
                chance = selection_probability(size, len(p), q)
                found[k] += chance * (p[k] / total) ** power
    return found


@given(shares, chances)
def test_enumeration_is_the_definition(p, q):
    assert expected_weights(p, q, method="enumeration") == pytest.approx(by_definition(p, q))
    squares = square_weight_term(p, q, method="enumeration")
    assert squares == pytest.approx(by_definition(p, q, 2).sum())


@given(shares, chances)
def test_the_integral_is_the_enumeration(p, q):
    listed = expected_weights(p, q, method="enumeration")
    assert expected_weights(p, q, method="integral") == pytest.approx(listed, rel=1e-10)
    assert square_weight_term(p, q, method="integral") == pytest.approx(
        square_weight_term(p, q, method="enumeration"), rel=1e-10
    )


@given(shares, st.floats(0.05, 1.0), seeds)
def test_monte_carlo_agrees_within_its_errors(p, q, seed):
    found = sampled_weights(p, q, draws=4000, rng=np.random.default_rng(seed))
    exact = expected_weights(p, q, method="integral")
    # six standard errors, and the resolution of the draws where a rare event was never seen
    assert (np.abs(found.weights - exact) <= 6 * found.weights_error + 12 / 4000).all()
    square = square_weight_term(p, q, method="integral")
    assert abs(found.square - square) <= 6 * found.square_error + 12 / 4000


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("q", [0.001, 0.02, 0.4])
def test_monte_carlo_agrees_for_many_clients(spread, q):
    p = np.random.default_rng(1).lognormal(0.0, spread, 300)
    found = sampled_weights(p, q, draws=20_000, rng=np.random.default_rng(2))
    exact = expected_weights(p, q)
    assert (np.abs(found.weights - exact) <= 6 * found.weights_error + 12 / 20_000).all()
    assert exact.sum() == pytest.approx(-math.expm1(300 * math.log1p(-q)), rel=1e-12)
    assert found.empty == pytest.approx((1 - q) ** 300, abs=0.02)


@given(shares, chances)
def test_weights_add_up_to_the_chance_that_somebody_trains(p, q):
    assert expected_weights(p, q).sum() == pytest.approx(1 - (1 - q) ** len(p))


@given(shares, chances, st.floats(0.01, 1e6))
def test_only_proportions_count(p, q, scale):
    scaled = [scale * share for share in p]
    assert expected_weights(scaled, q) == pytest.approx(expected_weights(p, q))


@given(shares, chances, st.data())
def test_the_skew_lies_within_its_bounds_which_are_reached(p, q, data):
    sizes = st.floats(0.0, 10.0)
    gaps = data.draw(st.lists(sizes, min_size=len(p), max_size=len(p)).filter(any))
    for given_nonempty in (False, True):
        low, high = skew_bounds(p, q, given_nonempty=given_nonempty)
        skew = selection_skew(p, gaps, q, given_nonempty)
        assert low * (1 - 1e-9) <= skew <= high * (1 + 1e-9)
        alone = [
            selection_skew(p, np.arange(len(p)) == k, q, given_nonempty) for k in range(len(p))
        ]
        assert (min(alone), max(alone)) == pytest.approx((low, high))


@given(st.integers(1, 20), chances)
def test_equal_clients_have_no_skew_but_that_of_empty_rounds(K, q):
    p = np.full(K, 1 / K)
    some = 1 - (1 - q) ** K
    assert skew_bounds(p, q) == pytest.approx((some, some))
    assert skew_bounds(p, q, given_nonempty=True) == pytest.approx((1.0, 1.0))
    assert square_weight_term(p, q) == pytest.approx(inverse_size_term(q, K))


@given(shares)
def test_one_client_alone_is_the_limit_of_small_chances(p):
    near = skew_bounds(p, 1e-9, given_nonempty=True)
    assert skew_bounds(p, 0.0, given_nonempty=True) == pytest.approx(near, rel=1e-6)
    assert square_weight_term(p, 0.0, given_nonempty=True) == 1.0
    assert square_weight_term(p, 0.0) == inverse_size_term(0.0, 5) == 0.0
    assert inverse_size_term(0.0, 5, given_nonempty=True) == 1.0


@given(st.integers(1, 9), st.data())
def test_sets_of_clients_have_chances_that_add_up_to_one(K, data):
    m, q = data.draw(st.integers(0, K)), data.draw(st.floats(0, 1))
    each = [math.comb(K, n) * selection_probability_active(n, K, m, q) for n in range(K + 1)]
    assert sum(each) == pytest.approx(1.0)
    spec = [
        math.comb(K - n, m - n) / math.comb(K, m) * q**n * (1 - q) ** (m - n) for n in range(m + 1)
    ]
    assert [selection_probability_active(n, K, m, q) for n in range(m + 1)] == pytest.approx(spec)
    assert selection_probability(2, K + 2, q) == pytest.approx(q**2 * (1 - q) ** K)


def test_activity_thins_selection_as_sampled():
    p, q, K, m = [0.4, 0.3, 0.2, 0.1], 0.6, 4, 2
    found = sampled_weights(p, q, active=m, draws=40_000, rng=np.random.default_rng(3))
    nobody = selection_probability_active(0, K, m, q)
    assert found.empty == pytest.approx(nobody, abs=0.01)
    assert found.weights.sum() == pytest.approx(1 - nobody, abs=0.01)


@given(shares)
def test_pairs_weigh_less_than_a_half(p):
    found = pair_weight(p)
    listed = sum(a * b for a, b in itertools.combinations(p, 2))
    assert found == pytest.approx(listed, abs=1e-12)
    assert found <= (1 - 1 / len(p)) / 2 + 1e-12


def test_who_holds_no_data_has_no_part():
    assert expected_weights([0.7, 0.0, 0.3], 0.5) == pytest.approx(
        np.insert(expected_weights([0.7, 0.3], 0.5), 1, 0.0)
    )
    integral = expected_weights([0.7, 0.0, 0.3], 0.5, method="integral")
    assert integral == pytest.approx(expected_weights([0.7, 0.0, 0.3], 0.5))
    assert skew_bounds([0.7, 0.0, 0.3], 0.5) == skew_bounds([0.7, 0.3], 0.5)


def test_extreme_sizes_lose_no_digits():
    p = np.array([1e-12, 1e-6, 1.0, 1e3])
    for q in (1e-6, 0.5, 1 - 1e-9, 1.0):
        listed = expected_weights(p, q, method="enumeration")
        assert expected_weights(p, q, method="integral") == pytest.approx(listed, rel=1e-9)


@given(shares, st.data())
def test_gamma_is_the_mean_gap(p, data):
    number = st.floats(0, 10)
    best = data.draw(st.lists(number, min_size=len(p), max_size=len(p)))
    gaps = data.draw(st.lists(number, min_size=len(p), max_size=len(p)))
    here = [f + gap for f, gap in zip(best, gaps, strict=True)]
    found = gamma_gap(p, here, best)
    assert found == pytest.approx(np.dot(p, gaps), abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: expected_weights([], 0.5), "non-empty vector"),
        (lambda: expected_weights([0.5, -0.5], 0.5), "finite and >= 0"),
        (lambda: expected_weights([0.0, 0.0], 0.5), "not all 0"),
        (lambda: expected_weights(["a"], 0.5), "vector of numbers"),
        (lambda: expected_weights([1.0], 1.5), "q must be a probability"),
        (lambda: expected_weights([1.0], math.nan), "q must be a probability"),
        (lambda: expected_weights([1.0], 0.5, method="guess"), "method must be"),
        (lambda: expected_weights([1.0] * 21, 0.5, method="enumeration"), "20 clients at most"),
        (lambda: skew_bounds([3.0, 4.0], 0.5), "must add up to 1, got a sum of 7"),
        (lambda: selection_skew([0.5, 0.5], [0, 0], 0.5), "undefined"),
        (lambda: selection_skew([0.5, 0.5], [1, -1], 0.5), "2 finite numbers >= 0"),
        (lambda: gamma_gap([1.0], [0.5], [1.0]), "below its own optimum"),
        (lambda: inverse_size_term(0.5, 0), "at least 1"),
        (lambda: inverse_size_term(0.5, 2.5), "whole number"),
        (lambda: selection_probability(3, 2, 0.5), "at most K = 2"),
        (lambda: sampled_weights([1.0], 0.5, draws=1, rng=np.random.default_rng(0)), "draws"),
        (lambda: sampled_weights([1.0], 0.5, active=2, rng=np.random.default_rng(0)), "active"),
    ],
)
def test_wrong_input_is_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        wrong()
