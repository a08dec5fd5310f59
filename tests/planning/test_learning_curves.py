"""Learning curves, on data whose truth is known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.planning import DEFAULT_BETA, Curve, History, Learning, PowerLaw, best_beta, work_done
from support.helpers import one_line

CLIENTS = st.lists(st.integers(0, 50), min_size=1, max_size=40)
POINTS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 2)), min_size=1, max_size=40)


@given(CLIENTS, st.floats(0, 1))
def test_work_counts_rounds_or_turns_or_something_between(clients, beta):
    n = np.array(clients)
    assert work_done(n, 0.0) == pytest.approx(np.cumsum(n > 0))
    assert work_done(n, 1.0) == pytest.approx(np.cumsum(n))
    between = work_done(n, beta)
    assert (between >= work_done(n, 0.0) - 1e-9).all()
    assert (between <= work_done(n, 1.0) + 1e-9).all()


@given(POINTS, st.lists(st.floats(0, 1e6), min_size=2, max_size=10))
def test_a_curve_never_rises_and_stays_within_what_was_measured(points, asked):
    x, y = np.array(points).T
    curve = Curve.fit(x, y, floor=0.0)
    found = [curve.at(u) for u in sorted(asked)]
    assert all(a >= b - 1e-9 for a, b in pairwise(found))
    assert max(found) <= y.max() + 1e-9
    assert min(found) >= -1e-9


@given(st.permutations(range(8)))
def test_falling_measurements_are_met_in_any_order(order):
    x, y = np.arange(8.0), 1 / (1 + np.arange(8.0))
    curve = Curve.fit(x[list(order)], y[list(order)])
    assert [curve.at(u) for u in x] == pytest.approx(y)
    assert curve.at(2.5) == pytest.approx((y[2] + y[3]) / 2)


def test_what_rises_by_chance_is_evened_out():
    curve = Curve.fit([1, 2, 3, 4], [0.8, 0.4, 0.6, 0.2])
    assert curve.at(1) == pytest.approx(0.8)
    assert curve.at(2.5) == pytest.approx(0.5)
    assert curve.at(4) == pytest.approx(0.2)


def test_several_measurements_at_one_place_count_together():
    curve = Curve.fit([1, 1, 1, 5], [0.9, 0.6, 0.6, math.nan])
    assert curve.at(1) == pytest.approx(0.7)
    assert curve.end == 1


@pytest.mark.parametrize(("a", "b", "d"), [(0.1, 0.8, 0.5), (0.0, 0.9, 1.0), (0.3, 0.5, 0.2)])
def test_a_power_law_is_carried_on(a, b, d):
    truth = PowerLaw(a, b, 1.0, d)
    u = np.arange(1.0, 60.0)
    noise = np.random.default_rng(3).normal(0, 0.004, u.size)
    curve = Curve.fit(u, [truth.at(x) for x in u] + noise, floor=0.0)
    for x in (80.0, 120.0, 200.0):
        assert curve.at(x) == pytest.approx(truth.at(x), abs=0.02)
        assert curve.at(x) > 0


def test_the_floor_is_not_passed_however_steep_the_data_is():
    curve = Curve.fit(np.arange(10.0), 0.5 - 0.05 * np.arange(10.0), floor=0.0)
    assert curve.law is not None
    assert 0 <= curve.at(1e9) <= curve.at(12) < curve.at(9) == pytest.approx(0.05)


def test_with_too_little_to_fit_a_law_to_the_curve_stays_where_it_is():
    curve = Curve.fit([1, 2, 3], [0.9, 0.5, 0.4])
    assert curve.law is None
    assert curve.at(1000) == pytest.approx(0.4)


def test_a_curve_of_nothing_is_refused():
    said = one_line(InputError, lambda: Curve.fit([1.0], [math.nan]))
    assert said == "a curve needs at least one measurement"


def history(crowd: int, beta: float, seed: int, rounds: int = 40, noise: float = 0.01) -> History:
    """A run whose difficulty is a power law of the work, with about `crowd` clients a round."""
    rng = np.random.default_rng([seed, crowd])
    clients = rng.poisson(crowd, rounds)
    truth = 0.1 + 0.8 * (work_done(clients, beta) + 1.0) ** -0.6
    f = truth + rng.normal(0, noise, rounds)
    return History(clients, f, 1 - f)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.6, 1.0])
def test_runs_with_other_numbers_of_clients_tell_beta(beta):
    runs = [history(crowd, beta, seed) for crowd in (3, 6, 12) for seed in range(3)]
    assert best_beta(runs) == pytest.approx(beta, abs=0.11)


def test_a_single_run_and_runs_alike_do_not_tell_beta():
    assert best_beta([history(4, 0.5, 0)]) is None
    assert best_beta([history(20, 0.5, seed) for seed in range(4)]) is None


@pytest.mark.parametrize("seed", range(5))
def test_seeds_that_differ_more_than_their_clients_do_leave_beta_as_it_is(seed):
    some = [history(crowd, DEFAULT_BETA, seed + n, noise=0.1) for n, crowd in enumerate((4, 6, 7))]
    assert best_beta(some) in (DEFAULT_BETA, None)


def test_what_is_not_told_is_the_default_and_what_is_given_is_taken():
    learning = Learning.of([history(4, 0.5, 0)])
    assert (learning.beta, learning.beta_known) == (DEFAULT_BETA, False)
    learning = Learning.of([history(4, 0.5, 0)], beta=0.8)
    assert (learning.beta, learning.beta_known) == (0.8, True)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_run_with_more_clients_is_predicted_from_runs_with_fewer(beta):
    seen = [history(crowd, beta, seed) for crowd in (2, 8) for seed in range(3)]
    learning = Learning.of(seen, bounds=(0.0, 1.0))
    assert learning.beta_known
    new = history(4, beta, 77, noise=0.0)
    work = work_done(new.clients, learning.beta)
    found = np.array([learning.difficulty(u) for u in work])
    later = slice(5, None)
    assert found[later] == pytest.approx(new.difficulty[later], abs=0.03)
    assert learning.metric(work[-1]) == pytest.approx(new.metric[-1], abs=0.03)


def test_a_target_is_reached_when_the_best_so_far_reaches_it():
    clients = np.ones(4, np.int64)
    metric = np.array([0.2, 0.7, 0.4, 0.5])
    learning = Learning.of([History(clients, 1 - metric, metric)])
    assert not learning.has_reached(0.7, 1.0)
    assert learning.has_reached(0.7, 2.0)
    assert learning.metric(2.0) < 0.7  # on average it is not as good as that once was
    error = Learning.of([History(clients, metric, 1 - metric)], better="lower")
    assert not error.has_reached(0.3, 1.0)
    assert error.has_reached(0.3, 2.0)
    assert error.metric(1.0) == pytest.approx(0.8)


def test_a_task_that_no_run_trained_has_no_curve():
    idle = History(np.zeros(3, np.int64), np.full(3, 0.9), np.full(3, 0.1))
    assert "never trained" in one_line(InputError, lambda: Learning.of([idle]))


def test_rounds_without_a_client_count_once_if_they_came_first():
    late = History(np.array([0, 0, 2, 0]), np.array([0.9, 0.9, 0.5, 0.5]), np.full(4, math.nan))
    work, f = late.points(1.0)
    assert (work.tolist(), f.tolist()) == ([0, 0, 2], [0.9, 0.9, 0.5])
    learning = Learning.of([late])
    assert learning.difficulty(0.0) == pytest.approx(0.9)
    assert math.isnan(learning.metric(2.0))
    assert not learning.has_reached(0.1, 2.0)
