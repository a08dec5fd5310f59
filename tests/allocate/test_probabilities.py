from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import FedFair, allocation_probabilities, assign
from mmfl.errors import ConfigError, InputError
from mmfl.fairness import alpha_fair_objective

difficulties = st.lists(st.just(0.0) | st.floats(0, 1e308), min_size=1, max_size=8)
middling = st.lists(st.just(0.0) | st.floats(1e-150, 1e150), min_size=1, max_size=8)
alphas = st.floats(1, 20) | st.sampled_from([1.0, 2.0, 3.0, 1e6, inf])

VECTORS = [
    ([0.352443], 4.0, [1.0]),
    (
        [2.955081, 1.560869, 1.446365, 1.273576, 2.772043],
        2.0,
        [
            0.29527382974348154,
            0.15596315882978448,
            0.14452183637502006,
            0.12725663458611938,
            0.2769845404655946,
        ],
    ),
    (
        [0.132959, 2.079873, 1.949171, 0.740287, 0.393089, 1.656842],
        10.0,
        [
            1.05693302953994e-11,
            0.5928149719583143,
            0.3305500907733722,
            5.434866935354098e-05,
            1.8239201763721107e-07,
            0.0765804061963729,
        ],
    ),
    (
        [1.125233, 1.299274, 0.128936, 0.303542],
        50.0,
        [0.0008692930786061806, 0.9991307069213939, 6.864692958697832e-50, 1.14026669368814e-31],
    ),
    (
        [1.720594, 0.608933, 2.293376, 0.713646, 0.204409],
        1.5,
        [
            0.2675145690437658,
            0.15914499766718462,
            0.30884876468956557,
            0.17228586785424171,
            0.09220580074524226,
        ],
    ),
    ([0, 0], 3, [0.5, 0.5]),
    ([0.9, 0.1, 0.9], inf, [0.5, 0.0, 0.5]),
    ([0.5, 0.4999], 1e6, [1.0, 1.3567612739162533e-87]),
    ([0.2, 0.4, 0.8], 2, [1 / 7, 2 / 7, 4 / 7]),
    ([0.1, 0.5], 3.0, [1 / 26, 25 / 26]),
]


@pytest.mark.parametrize(("difficulty", "alpha", "expected"), VECTORS)
def test_known_values(difficulty, alpha, expected):
    p = FedFair(alpha=alpha).probabilities(difficulty)
    np.testing.assert_allclose(p, expected, rtol=1e-9, atol=0)
    np.testing.assert_array_equal(allocation_probabilities(difficulty, alpha), p)


@given(difficulties, alphas)
def test_is_a_distribution(f, alpha):
    p = allocation_probabilities(f, alpha)
    assert p.dtype == np.float64
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1, rel=1e-12)


@given(difficulties, alphas)
def test_worse_off_is_never_less_likely(f, alpha):
    p = allocation_probabilities(f, alpha)
    ordered = p[np.argsort(f, kind="stable")]
    assert (np.diff(ordered) >= -1e-12 * ordered[1:]).all()


@given(difficulties, alphas)
def test_equal_difficulties_are_equally_likely(f, alpha):
    p = allocation_probabilities([*f, f[0]], alpha)
    assert p[0] == p[-1]


@given(middling, st.floats(1, 20), st.floats(-150, 150))
def test_scale_does_not_matter(f, alpha, exponent):
    p = allocation_probabilities(f, alpha)
    scaled = allocation_probabilities(np.asarray(f) * 10.0**exponent, alpha)
    np.testing.assert_allclose(scaled, p, rtol=1e-10, atol=1e-290)


@given(middling, st.integers(-490, 490))
def test_scale_does_not_matter_at_alpha_inf(f, exponent):
    scaled = allocation_probabilities(np.asarray(f) * 2.0**exponent, inf)
    np.testing.assert_array_equal(scaled, allocation_probabilities(f, inf))


@given(difficulties, alphas, st.randoms(use_true_random=False))
def test_probabilities_move_with_their_tasks(f, alpha, shuffler):
    order = shuffler.sample(range(len(f)), len(f))
    moved = allocation_probabilities(np.asarray(f)[order], alpha)
    np.testing.assert_allclose(moved, allocation_probabilities(f, alpha)[order], rtol=1e-12)


@given(difficulties)
def test_alpha_one_is_uniform(f):
    np.testing.assert_array_equal(allocation_probabilities(f, 1), np.full(len(f), 1 / len(f)))


@given(difficulties)
def test_alpha_inf_is_uniform_over_the_worst_off(f):
    worst = np.asarray(f) == max(f)
    np.testing.assert_array_equal(allocation_probabilities(f, inf), worst / worst.sum())


@given(st.integers(1, 8), alphas)
def test_all_zero_is_uniform(S, alpha):
    np.testing.assert_array_equal(allocation_probabilities(np.zeros(S), alpha), np.full(S, 1 / S))


@given(difficulties, alphas.filter(lambda alpha: alpha > 1))
def test_zero_gets_nothing_beside_a_positive_one(f, alpha):
    p = allocation_probabilities([*f, 0.0, 1.0], alpha)
    assert p[-2] == 0
    assert (p[np.asarray([*f, 0.0, 1.0]) == 0] == 0).all()


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.floats(1, 20), st.floats(0, 20))
def test_more_alpha_gives_more_to_the_worst_off(f, alpha, more):
    worst = np.argmax(f)
    less = allocation_probabilities(f, alpha)[worst]
    assert allocation_probabilities(f, alpha + more)[worst] >= less - 1e-12


@pytest.mark.parametrize(
    ("f", "alpha", "expected"),
    [
        ([5e-324, 1e-323], 2, [1 / 3, 2 / 3]),
        ([5e-324, 5e-324], 1e6, [1 / 2, 1 / 2]),
        ([5e-324, 0.0], 2, [1, 0]),
        ([1e308, 5e307], 3, [4 / 5, 1 / 5]),
        ([1.7e308, 1.7e308, 1.7e308], 3, [1 / 3, 1 / 3, 1 / 3]),
        ([5e-324, 1e308], 3, [0, 1]),
        ([1e-200, 1e200], 1.0025, [1 / 11, 10 / 11]),
        ([1e-300, 2e-300, 1e-300], 2, [1 / 4, 1 / 2, 1 / 4]),
        ([0.5, 0.5], 1e300, [1 / 2, 1 / 2]),
        ([1.0, 1e-300], 1e308, [1, 0]),
    ],
)
def test_tiny_and_huge_values_keep_their_proportions(f, alpha, expected):
    p = allocation_probabilities(f, alpha)
    np.testing.assert_allclose(p, expected, rtol=1e-9, atol=1e-300)


def test_difficulty_is_not_changed():
    f = np.array([0.2, 0.4])
    allocation_probabilities(f, 3)
    assert f.tolist() == [0.2, 0.4]


@pytest.mark.parametrize(
    ("f", "alpha", "message"),
    [
        ([], 2, r"difficulty must be a non-empty vector, got shape \(0,\)"),
        ([[1.0, 2.0]], 2, r"difficulty must be a non-empty vector, got shape \(1, 2\)"),
        (1.0, 2, r"difficulty must be a non-empty vector, got shape \(\)"),
        ([1.0, nan], 2, "difficulty must be finite and >= 0, got nan for task 1"),
        ([inf, 1.0], 2, "difficulty must be finite and >= 0, got inf for task 0"),
        ([1.0, 1.0, -0.5], 2, "difficulty must be finite and >= 0, got -0.5 for task 2"),
        ([1.0, nan], 1, "difficulty must be finite"),
        ([1.0, 2.0], 0.5, r"alpha must be >= 1 \(inf included\), got 0.5"),
        ([1.0, 2.0], nan, "alpha must be >= 1"),
        ([1.0, 2.0], -inf, "alpha must be >= 1"),
    ],
)
def test_bad_values_are_named(f, alpha, message):
    with pytest.raises(InputError, match=message):
        allocation_probabilities(f, alpha)


def test_words_for_difficulty_are_an_input_error():
    with pytest.raises(InputError, match="difficulty"):
        allocation_probabilities(["hard", "easy"], 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.5}, "alpha must be .* 1, got 0.5"),
        ({"alpha": nan}, "alpha must be .* got nan"),
        ({"alpha": "3"}, "alpha must be .* got '3'"),
        ({"alpha": True}, "alpha must be .* got True"),
        ({"sampling": "systematic"}, "sampling must be .* got 'systematic'"),
        ({"floor": -1}, "floor must be .* got -1"),
        ({"floor": 1.5}, "floor must be .* got 1.5"),
        ({"alhpa": 2.0}, "alhpa is not a known key; did you mean 'alpha'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ConfigError, match=f"FedFair: {message}"):
        FedFair(**arguments)


def test_alpha_is_three_unless_said_otherwise():
    assert FedFair() == FedFair(alpha=3.0, sampling="independent", floor=0)


# Weights

weights = st.floats(1e-3, 1e3)


@st.composite
def weighted(draw, f=middling):
    difficulty = draw(f)
    return difficulty, draw(st.lists(weights, min_size=len(difficulty), max_size=len(difficulty)))


@given(weighted(), alphas)
def test_a_weight_multiplies_a_tasks_chance(case, alpha):
    f, w = case
    plain = allocation_probabilities(f, alpha) * w
    found = allocation_probabilities(f, alpha, w)
    np.testing.assert_allclose(found, plain / plain.sum(), rtol=1e-9, atol=1e-290)
    np.testing.assert_array_equal(FedFair(alpha=alpha).probabilities(f, w), found)


@given(st.lists(st.floats(0.1, 2), min_size=1, max_size=6), st.floats(1, 6), st.data())
def test_chances_are_the_slopes_of_the_weighted_objective(f, alpha, data):
    w = data.draw(st.lists(st.floats(0.1, 9), min_size=len(f), max_size=len(f)))
    h, slopes = 1e-6, []
    for s in range(len(f)):
        above, below = ([g + by * (r == s) for r, g in enumerate(f)] for by in (h, -h))
        rise = alpha_fair_objective(above, alpha, w) - alpha_fair_objective(below, alpha, w)
        slopes.append(rise / (2 * h))
    p = allocation_probabilities(f, alpha, w)
    np.testing.assert_allclose(p, np.array(slopes) / sum(slopes), rtol=1e-3, atol=1e-6)


@given(difficulties, alphas, st.floats(1e-300, 1e300))
def test_equal_weights_have_the_bits_of_none(f, alpha, weight):
    found = allocation_probabilities(f, alpha, [weight] * len(f))
    np.testing.assert_array_equal(found, allocation_probabilities(f, alpha))


@pytest.mark.parametrize(
    ("f", "alpha", "w", "expected"),
    [
        ([0.2, 0.4], 2, [2, 1], [1 / 2, 1 / 2]),
        ([0.1, 0.5], 3, [25, 1], [1 / 2, 1 / 2]),
        ([0.3, 0.9], 1, [3, 1], [3 / 4, 1 / 4]),
        ([0.0, 0.0], 3, [3, 1], [3 / 4, 1 / 4]),
        ([0.9, 0.1, 0.9], inf, [3, 100, 1], [3 / 4, 0, 1 / 4]),
        ([0.9, 0.8], inf, [5e-324, 1e308], [1, 0]),
        ([1.0, 1.0], 2, [5e-324, 1e-323], [1 / 3, 2 / 3]),
        ([1e-200, 1e200], 2, [1e300, 1e-100], [1 / 2, 1 / 2]),
        ([1.0, 1e-300], 1e308, [1e-300, 1e300], [1, 0]),
    ],
)
def test_known_values_with_weights(f, alpha, w, expected):
    found = allocation_probabilities(f, alpha, w)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    ("w", "message"),
    [
        ([1.0, 0.0], "weights must be finite and > 0, got 0.0 for task 1"),
        ([-1.0, 1.0], "weights must be finite and > 0, got -1.0 for task 0"),
        ([1.0, nan], "weights must be finite and > 0, got nan for task 1"),
        ([inf, 1.0], "weights must be finite and > 0, got inf for task 0"),
        ([1.0], r"weights must be one number per task \(2\), got shape \(1,\)"),
        (1.0, r"weights must be one number per task \(2\), got shape \(\)"),
        (["much", 1], "weights must be a vector of numbers, got "),
    ],
)
def test_bad_weights_are_named(w, message):
    for act in (
        lambda: allocation_probabilities([0.5, 0.2], 3, w),
        lambda: assign([0.5, 0.2], [1, 2], round=1, seed=0, weights=w),
        lambda: alpha_fair_objective([0.5, 0.2], 3, w),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            act()
