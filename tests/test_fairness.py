"""Measures of how even a result is."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.fairness import (
    Price,
    alpha_fair_objective,
    cosine_similarity,
    jain,
    price_of_fairness,
    variance,
    worst,
)

shares = st.lists(st.just(0.0) | st.floats(1e-3, 1e3), min_size=1, max_size=12)


@given(shares)
def test_worst_is_the_least_and_unknown_if_one_is(values: list[float]) -> None:
    assert worst(values) == min(values)
    assert math.isnan(worst([*values, math.nan]))


def test_variance_is_the_populations() -> None:
    assert variance([1.0, 2.0, 3.0, 4.0]) == 1.25
    assert variance([0.7]) == 0.0


@given(shares)
def test_variance_agrees_with_its_definition(values: list[float]) -> None:
    assert variance(values) == pytest.approx(statistics.pvariance(values), rel=1e-9, abs=1e-9)
    assert variance(np.array(values)) == variance(tuple(values)) >= 0


@given(shares, st.floats(-100, 100), st.floats(0.01, 100))
def test_variance_ignores_shifts_and_squares_scales(
    values: list[float], shift: float, scale: float
) -> None:
    moved = [scale * value + shift for value in values]
    assert variance(moved) == pytest.approx(scale**2 * variance(values), rel=1e-6, abs=1e-6)


def test_jain_by_hand() -> None:
    assert jain([1.0, 2.0, 3.0]) == pytest.approx(36 / (3 * 14))
    assert jain([0.0, 0.0]) == 1.0


@given(shares)
def test_jain_lies_between_one_task_and_all_tasks(values: list[float]) -> None:
    assert 1 / len(values) - 1e-12 <= jain(values) <= 1 + 1e-12


@given(st.floats(1e-3, 1e3), st.integers(1, 12))
def test_jain_is_one_for_equal_shares(value: float, tasks: int) -> None:
    assert jain([value] * tasks) == pytest.approx(1.0)


@given(st.floats(1e-3, 1e3), st.integers(1, 12), st.integers(0, 12))
def test_jain_is_the_share_of_tasks_that_have_all(value: float, some: int, none: int) -> None:
    assert jain([value] * some + [0.0] * none) == pytest.approx(some / (some + none))


@given(shares, st.floats(0.01, 100), st.randoms())
def test_jain_ignores_scale_and_order(values: list[float], scale: float, random: object) -> None:
    mixed = [scale * value for value in values]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert jain(mixed) == pytest.approx(jain(values))


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=12), st.floats(0, 1))
def test_jain_never_falls_when_the_richest_gives_to_the_poorest(
    values: list[float], part: float
) -> None:
    rich, poor = int(np.argmax(values)), int(np.argmin(values))
    gift = part * (values[rich] - values[poor]) / 2
    after = list(values)
    after[rich] -= gift
    after[poor] += gift
    assert jain(after) >= jain(values) - 1e-12


@given(shares)
def test_jain_and_variance_tell_the_same_story(values: list[float]) -> None:
    mean = math.fsum(values) / len(values)
    if mean > 0:
        assert jain(values) == pytest.approx(1 / (1 + variance(values) / mean**2))


@pytest.mark.parametrize("values", [[-0.5, 0.5], [-3, -3], [math.nan, 1], [math.inf, 1]])
def test_jains_index_is_unknown_where_it_means_nothing(values):
    assert math.isnan(jain(values))


def test_jains_index_of_huge_numbers_does_not_overflow():
    assert jain([1e200, 1e200]) == 1.0


@given(shares.filter(any))
def test_cosine_similarity_is_the_angle_to_equal_values(values: list[float]) -> None:
    ones = np.ones(len(values))
    cosine = np.dot(values, ones) / (np.linalg.norm(values) * np.linalg.norm(ones))
    assert cosine_similarity(values) == pytest.approx(cosine)
    assert 1 / math.sqrt(len(values)) - 1e-12 <= cosine_similarity(values) <= 1 + 1e-12


def test_cosine_similarity_of_the_extremes() -> None:
    assert cosine_similarity([0.0, 0.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
    assert cosine_similarity([1e300, 1e300]) == pytest.approx(1.0)
    assert math.isnan(cosine_similarity([0.0, 0.0]))
    assert math.isnan(cosine_similarity([1.0, math.inf]))


def test_the_alpha_fair_objective_goes_from_the_sum_to_the_worst() -> None:
    losses = [0.5, 2.0]
    assert alpha_fair_objective(losses, 1.0) == 2.5
    assert alpha_fair_objective(losses, 2.0) == 4.25
    assert alpha_fair_objective(losses, math.inf) == 2.0
    with pytest.raises(InputError, match=">= 0"):
        alpha_fair_objective([-1.0], 2.0)
    with pytest.raises(InputError, match="alpha must be >= 1"):
        alpha_fair_objective(losses, 0.5)


def test_the_price_of_fairness_is_the_mean_lost_for_the_worst_gained() -> None:
    price = price_of_fairness([0.70, 0.80], [0.60, 0.94])
    assert price == pytest.approx(Price(mean_lost=0.02, worst_gained=0.10))
    assert price.rate == pytest.approx(0.2)
    assert math.isnan(price_of_fairness([0.5, 0.5], [0.6, 0.6]).rate)
    with pytest.raises(InputError, match="same tasks, got 1 and 2"):
        price_of_fairness([0.5], [0.6, 0.6])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6), st.floats(1, 5))
def test_the_weighted_objective_is_the_plain_one_for_weights_of_one(f, alpha):
    assert alpha_fair_objective(f, alpha, np.ones(len(f))) == alpha_fair_objective(f, alpha)


def test_the_weighted_objective_by_hand() -> None:
    assert alpha_fair_objective([1.0, 2.0], 3, [5, 0.5]) == 5 + 0.5 * 8
    assert alpha_fair_objective([1.0, 2.0], math.inf, [5, 0.5]) == 2.0
