"""Rules that look at learning curves: the fit, and what is done with it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mmfl.allocate import Optimus, Slaq, Themis
from mmfl.allocate.progress import (
    Curves,
    divide,
    fit_curves,
    note_progress,
    turns_left,
    water_level,
)
from mmfl.allocate.rules.themis import equalize_finish_times
from mmfl.rng import stream


@dataclass(frozen=True)
class Had:
    """Remembers so many turns of each task."""

    had: tuple[int, ...]

    def rows(self, ids, tasks):
        shape = (len(ids), len(tasks))
        return np.zeros(shape, int), np.full(shape, np.nan), np.full(shape, np.nan)

    def turns(self, tasks):
        return np.array(self.had)


def look(make_view, turns, f, **fields):
    return make_view(np.ones((12, len(f))), f, remembered=Had(tuple(turns)), **fields)


def falling(k, b0, b1, c):
    return 1 / (b0 * np.asarray(k) + b1) + c


def observe(make_view, curves, steps):
    """The history of tasks with these curves, with so many turns in each of eight rounds."""
    state, k = None, np.zeros(len(steps), int)
    for t in range(1, 9):
        f = [falling(n, *curve) for n, curve in zip(k, curves, strict=True)]
        view = look(make_view, k, f, round=t)
        state = {"progress": note_progress(view, state)}
        k = k + steps
    return view, state


def plain_fit(points):
    """numpy.polyfit for each floor, and the floor with the least squares."""
    k, f = np.array(points).T
    scale = f.max()
    f = f / scale
    w = 0.9 ** np.arange(len(k) - 1, -1, -1)
    fits = []
    for share in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95):
        c = share * f.min()
        weight = w * (f - c) ** 4
        b0, b1 = np.polyfit(k, 1 / (f - c), 1, w=np.sqrt(weight))
        if b0 < 0:
            b0, b1 = 0.0, np.average(1 / (f - c), weights=weight)
        elif b1 < 0:
            b0, b1 = (weight * k / (f - c)).sum() / (weight * k * k).sum(), 0.0
        line = np.maximum(b0 * k + b1, 1e-3)
        fits.append(((w * (c + 1 / line - f) ** 2).sum(), b0 / scale, b1 / scale, c * scale))
    return min(fits, key=lambda fit: fit[0])[1:]


@given(st.integers(0, 2**32))
def test_the_fit_is_weighted_least_squares_for_the_best_floor(make_view, seed):
    numbers = np.random.default_rng(seed)
    n = int(numbers.integers(3, 12))
    k = np.cumsum(numbers.integers(1, 9, size=n))
    f = falling(k, 0.02, 1.2, 0.1) * np.exp(0.05 * numbers.normal(size=n))
    points = [[int(a), float(b)] for a, b in zip(k, f, strict=True)]
    view = look(make_view, [int(k[-1])], [f[-1]])
    got = fit_curves(view, {"task00": points})
    b0, b1, c = plain_fit(points)
    ahead = np.arange(k[-1] + 20)
    np.testing.assert_allclose(
        falling(ahead[k[0] :], got.b0[0], got.b1[0], got.c[0]),
        falling(ahead[k[0] :], b0, b1, c),
        rtol=1e-6,
    )


def test_an_exact_curve_is_found(make_view):
    truth = [(0.05, 1.1, 0.0), (0.01, 1.4, 0.0)]
    view, state = observe(make_view, truth, np.array([3, 5]))
    got = fit_curves(view, state["progress"])
    np.testing.assert_allclose(got.b0, [0.05, 0.01], rtol=1e-6)
    np.testing.assert_allclose(got.b1, [1.1, 1.4], rtol=1e-6)
    assert got.c.tolist() == [0, 0]
    np.testing.assert_allclose(
        got.largest, [falling(0, *c) - falling(n, *c) for c, n in zip(truth, (3, 5), strict=True)]
    )


def test_only_rounds_with_turns_are_observed_and_the_last_32_are_kept(make_view):
    state = None
    for k in [0, 0, 2, 2, *range(3, 60)]:
        view = look(make_view, [k], [1 / (1 + k)])
        state = {"progress": note_progress(view, state)}
    (points,) = state["progress"].values()
    assert [k for k, _ in points] == list(range(28, 60))


def test_turns_until_the_target_or_until_it_converges():
    curves = Curves(
        known=np.array([True, True, True, False]),
        turns=np.array([10, 10, 10, 10]),
        b0=np.array([0.05, 0.05, 0.0, 0.05]),
        b1=np.array([1.0, 1.0, 2.0, 1.0]),
        c=np.array([0.1, 0.1, 0.0, 0.1]),
        largest=np.ones(4),
        first=np.ones(4),
    )
    left = turns_left(curves, np.array([0.3, 0.05, 0.1, 0.3]), 4.0, 0.01)
    assert falling(10 + left[0], 0.05, 1.0, 0.1) == pytest.approx(0.3)
    k = 10 + left[1]  # its target is below the floor: it converges
    assert 4 * 0.05 / (0.05 * k + 1.0) ** 2 == pytest.approx(0.01)
    assert left[2] == 0  # it does not fall
    assert np.isnan(left[3])


def test_finished_tasks_have_no_turns_left():
    curves = Curves(*(np.array([v]) for v in (True, 90, 0.05, 1.0, 0.1, 1.0, 1.0)))
    assert turns_left(curves, np.array([0.5]), 4.0, 0.01).tolist() == [0]


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_the_water_level_is_where_marginal_gains_are_equal(seed, S):
    numbers = np.random.default_rng(seed)
    slope = numbers.random(S) + 0.1
    offset = 5 * numbers.random(S)
    slope[numbers.random(S) < 0.2] = 0
    if not slope.any():
        slope[0] = 1.0
    n = water_level(slope, offset, 7.0)
    assert n.sum() == pytest.approx(7.0)
    assert (n[slope == 0] == 0).all()
    level = (n + offset)[n > 0] / slope[n > 0]
    np.testing.assert_allclose(level, level[0])
    idle = (n == 0) & (slope > 0)
    assert (offset[idle] / slope[idle] >= level[0] - 1e-9).all()


def shares(rule, make_view, curves, steps, n=600, **fields):
    """p_s of a rule after eight rounds, with n clients in the ninth."""
    view, state = observe(make_view, curves, steps)
    S = len(curves)
    view = make_view(
        np.ones((n, S)), view.difficulty, round=9, remembered=view.remembered, **fields
    )
    got, _ = replace(rule, floor=0).allocate(view, state, rng=stream(1))
    p = np.zeros(S)
    p[got.tasks] = got.probabilities
    return p, fit_curves(view, state["progress"])


TRUTH = [(0.05, 1.1, 0.0), (0.001, 1.4, 0.0), (0.002, 1.1, 0.0)]
STEPS = np.array([3, 3, 9])


@pytest.mark.parametrize(("alpha", "normalized"), [(1.0, True), (1.0, False), (3.0, False)])
def test_slaq_is_the_greedy_rule(make_view, alpha, normalized):
    rule = Slaq(alpha=alpha, normalized=normalized)
    p, curves = shares(rule, make_view, TRUTH, STEPS)
    f = falling(curves.turns, curves.b0, curves.b1, curves.c)
    worth = f ** (alpha - 1) / (curves.largest if normalized else 1)
    n = np.zeros(3, int)
    for _ in range(600):  # one unit after the other, to the task that gains most
        k = curves.turns + n
        gain = worth * (
            falling(k, curves.b0, curves.b1, curves.c)
            - falling(k + 1, curves.b0, curves.b1, curves.c)
        )
        n[gain.argmax()] += 1
    np.testing.assert_allclose(p, n / 600, atol=0.005)


def test_optimus_minimises_the_sum_of_times(make_view):
    p, curves = shares(Optimus(), make_view, TRUTH, STEPS)
    left = turns_left(curves, np.full(3, np.nan), 200, 0.002)
    assert (left > 0).all()
    best = minimize(
        lambda n: (left / n).sum(),
        np.full(3, 1 / 3),
        bounds=[(1e-3, 1)] * 3,
        constraints={"type": "eq", "fun": lambda n: n.sum() - 1},
        tol=1e-12,
    )
    np.testing.assert_allclose(p, best.x, atol=1e-3)


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_themis_makes_all_equally_late(seed, S):
    numbers = np.random.default_rng(seed)
    left = np.exp(numbers.normal(size=S) * 2) * (numbers.random(S) < 0.8)
    done, elapsed = 30 * numbers.random(S), float(numbers.integers(0, 20))
    n = equalize_finish_times(left, done, elapsed, 4.0, 4.0 * S)
    some = left > 0
    assert (n[~some] == 0).all()
    if some.any():
        assert n.sum() == pytest.approx(4.0 * S)
        rho = (elapsed + left[some] / n[some]) / ((done[some] + left[some]) / 4.0)
        np.testing.assert_allclose(rho, rho[0], rtol=1e-6)


def test_themis_looks_at_targets(make_view):
    def p(*targets):
        found = {"find_targets": lambda: np.array(targets)}
        return shares(Themis(), make_view, TRUTH, STEPS, n=15, **found)[0]

    assert p(0.4, 0.4, 0.7)[2] < p(0.4, 0.4, 0.4)[2]
    assert p(0.9, 0.9, 0.4)[2] == 1
    np.testing.assert_allclose(p(0.9, 0.9, 0.9), 1 / 3)


@pytest.mark.parametrize("rule", [Slaq(), Optimus(), Themis()], ids=repr)
def test_without_curves_all_share_alike(make_view, rule):
    view = make_view(np.ones((60, 3)), [0.9, 0.1, 0.5])
    got, _ = rule.allocate(view, None, rng=stream(1))
    assert got.counts(3).tolist() == [20, 20, 20]


def test_a_task_without_a_curve_gets_an_equal_share():
    known = np.array([True, True, False, False])
    curves = Curves(known, *(np.ones(4) for _ in range(6)))
    np.testing.assert_allclose(
        divide(curves, np.array([3.0, 1.0, 9.0, 9.0])), [0.375, 0.125, 0.25, 0.25]
    )
    np.testing.assert_allclose(divide(curves, np.zeros(4)), 0.25)
