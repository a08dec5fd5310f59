"""Quadratic and logistic tasks: every constant against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from mmfl.convergence import Logistic, Quadratic, Setting
from mmfl.convergence.logistic import KAPPA
from mmfl.convergence.problem import spread_left
from mmfl.errors import ConfigError, InputError
from mmfl.experiment import Experiment
from support import convex

PROBLEMS = {
    "quadratic": convex.quadratic(),
    "quadratic, unequal": convex.quadratic((1, 3, 6)),
    "logistic": convex.logistic(),
    "logistic, unequal": convex.logistic((2, 5, 9), penalty=0.05),
}


@pytest.fixture(params=PROBLEMS.values(), ids=PROBLEMS.keys())
def problem(request):
    return request.param


def reachable(problem, batch_size, rate, rng):
    """A point at the edge of where training can get, or inside."""
    if isinstance(problem, Quadratic):
        low, high = problem.box(batch_size)
        corner = np.where(rng.random(2) < 0.5, low, high)
        return corner if rng.random() < 0.5 else rng.uniform(low, high)
    direction = rng.normal(size=2)
    return problem.radius(rate) * direction / np.linalg.norm(direction) * rng.random() ** 0.1


def batch_gradients(problem, w, batch_size):
    """Of each client every minibatch's gradient."""
    for each in convex.gradients(problem, w):
        rows = combinations(range(len(each)), min(batch_size, len(each)))
        yield np.array([each[list(some)].mean(axis=0) for some in rows]), each.mean(axis=0)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_no_gradient_and_no_noise_is_larger_than_the_constants_say(problem, batch_size):
    rng, rate = np.random.default_rng(1), 1.0 / (4.0 * problem.L)
    c = problem.constants(tau=1, batch_size=batch_size)
    most = largest = 0.0
    for _ in range(200):
        w = reachable(problem, batch_size, rate, rng)
        for batches, mean in batch_gradients(problem, w, batch_size):
            most = max(most, np.square(batches).sum(axis=1).mean())
            largest = max(largest, np.square(batches - mean).sum(axis=1).mean())
    assert most <= c.G**2 * (1 + 1e-12)
    assert largest <= c.sigma**2 * (1 + 1e-12)
    if isinstance(problem, Quadratic):  # where they are exact
        assert most == pytest.approx(c.G**2)
        assert largest == pytest.approx(c.sigma**2)


def test_the_losses_are_as_curved_as_the_constants_say(problem):
    rng, step = np.random.default_rng(2), 1e-4
    least, most = np.inf, 0.0
    for _ in range(50):
        w = reachable(problem, 1, 1.0 / (4.0 * problem.L), rng)
        curves = []
        for axis in np.eye(2) * step:
            ahead, behind = convex.gradients(problem, w + axis), convex.gradients(problem, w - axis)
            curves.append([(a - b).mean(axis=0) for a, b in zip(ahead, behind, strict=True)])
        eigenvalues = np.linalg.eigvalsh(np.array(curves).transpose(1, 0, 2) / (2 * step))
        least, most = min(least, eigenvalues.min()), max(most, eigenvalues.max())
    assert problem.mu * (1 - 1e-6) <= least
    assert most <= problem.L * (1 + 1e-6)
    if isinstance(problem, Quadratic):
        assert (least, most) == (pytest.approx(problem.mu), pytest.approx(problem.L))


def test_the_gradients_are_those_of_the_losses(problem):
    rng = np.random.default_rng(3)
    w = rng.normal(size=2)
    slopes = [each.mean(axis=0) for each in convex.gradients(problem, w)]
    for j, axis in enumerate(np.eye(2) * 1e-5):
        found = (problem.losses(w + axis) - problem.losses(w - axis)) / 2e-5
        np.testing.assert_allclose(found, [slope[j] for slope in slopes], atol=1e-8)


def test_at_the_optima_nothing_pulls(problem):
    pulls = np.array([each.mean(axis=0) for each in convex.gradients(problem, problem.optimum)])
    assert np.abs(problem.p @ pulls).max() < 1e-14
    for k, own in enumerate(problem.own_optima):
        assert np.abs(convex.gradients(problem, own)[k].mean(axis=0)).max() < 1e-14


def test_the_error_is_the_loss_above_the_least(problem):
    rng = np.random.default_rng(4)
    least = problem.p @ problem.losses(problem.optimum)
    for _ in range(20):
        w = rng.normal(size=2)
        assert problem.error(w) == pytest.approx(problem.p @ problem.losses(w) - least)
        assert problem.mu / 2 * problem.distance(w) <= problem.error(w) * (1 + 1e-12)
        assert problem.error(w) <= problem.L / 2 * problem.distance(w) * (1 + 1e-12)
    assert problem.error(problem.optimum) == 0.0


def test_gamma_is_zero_only_where_all_want_the_same(problem):
    best = [problem.losses(own)[k] for k, own in enumerate(problem.own_optima)]
    expected = problem.p @ (problem.losses(problem.optimum) - best)
    assert problem.gap == pytest.approx(expected)
    assert problem.gap > 0
    alike = type(problem)(**vars_of(problem) | {"clients": [problem.clients[0]] * 3})
    assert alike.gap == pytest.approx(0.0, abs=1e-15)


def vars_of(problem):
    own = {"curvature": problem.curvature} if isinstance(problem, Quadratic) else {}
    own |= {"penalty": problem.penalty} if isinstance(problem, Logistic) else {}
    return {"clients": problem.clients, "start": problem.start, **own}


def test_the_network_computes_these_losses(problem):
    network = problem.build((2,), 1)
    data = problem.load(None)
    with torch.no_grad():
        outputs = network(torch.from_numpy(data.x_train)).numpy().astype(np.float64)
    ends = np.cumsum(problem.sizes)[:-1]
    found = [part.mean() for part in np.split(outputs, ends)]
    np.testing.assert_allclose(found, problem.losses(problem.first), rtol=1e-6)


def test_every_optimum_lies_in_the_ball(problem):
    if isinstance(problem, Logistic):
        r = problem.radius(1.0 / (4.0 * problem.L))
        assert np.linalg.norm(problem.optimum) < r
        assert (np.linalg.norm(problem.own_optima, axis=1) < r).all()
        assert r < max(np.linalg.norm(z, axis=1).max() for z in problem.examples) / problem.penalty


def test_the_ball_is_no_larger_than_it_must_be():
    """With one example for which u = 1 + kappa at the optimum, the optimum lies on its edge."""
    lam = 0.3
    edge = (KAPPA / lam) ** 0.5
    problem = Logistic(clients=[[[(1 + KAPPA) / edge]]], start=[0.0], penalty=lam)
    assert problem.optimum[0] == pytest.approx(edge, rel=1e-6)
    assert problem.radius(1e-9) == pytest.approx(edge, rel=1e-6)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_no_step_leaves_the_ball(share):
    """The worst batch there is, from every side of the ball."""
    problem = convex.logistic(penalty=0.05)
    rate = share / problem.L
    r = problem.radius(rate)
    for angle in np.linspace(0, 2 * np.pi, 100):
        w = r * np.array([np.cos(angle), np.sin(angle)])
        for eta in (rate, rate / 2, rate / 100):
            for each in convex.gradients(problem, w):
                assert np.linalg.norm(w - eta * each, axis=1).max() <= r


def test_kappa_is_the_greatest_value():
    u = np.linspace(-50, 50, 1_000_001)
    assert (u / (1 + np.exp(u))).max() == pytest.approx(KAPPA, abs=1e-9)


@pytest.mark.parametrize(("n", "b"), [(1, 1), (2, 1), (5, 2), (5, 5), (5, 9)])
def test_what_a_batch_keeps_of_the_variance(n, b):
    values = np.random.default_rng(n).normal(size=n)
    means = [np.mean(some) for some in combinations(values, min(b, n))]
    assert np.var(means) == pytest.approx(spread_left(n, b) * np.var(values), abs=1e-15)


def test_a_wrong_problem_is_refused_in_one_sentence():
    with pytest.raises(ConfigError, match="vectors of the same length, got 2 and 1"):
        Quadratic(clients=[[[1.0]]], start=[0.0, 0.0], curvature=[1.0, 1.0])
    with pytest.raises(ConfigError, match="each with at least one example"):
        Quadratic(clients=[[[1.0]], []], start=[0.0], curvature=[1.0])
    with pytest.raises(ConfigError, match="curvature must be 1 numbers > 0"):
        Quadratic(clients=[[[1.0]]], start=[0.0], curvature=[0.0])
    with pytest.raises(InputError, match="gamma must be at least 4 L / mu = 16, got 4"):
        convex.quadratic().constants(tau=1, batch_size=1, gamma=4.0)
    with pytest.raises(InputError, match="at most 1 / L"):
        convex.quadratic().slope(1, 1.0)
    with pytest.raises(InputError, match="at most 1 / L"):
        convex.logistic().radius(10.0)


def test_a_problem_can_stand_in_an_experiment_file(problem):
    experiment = Setting(tasks={"one": problem}).experiment(seed=0)
    assert Experiment.from_toml(experiment.to_toml(), allow_imports=True) == experiment
