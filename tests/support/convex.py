"""Small strongly convex tasks, for tests of convergence."""

from __future__ import annotations

import numpy as np

from mmfl.convergence import Logistic, Problem, Quadratic


def quadratic(sizes=(4, 4, 4), *, seed=0, spread=1.0, start=(2.0, -1.0), curvature=(2.0, 0.5)):
    """Clients around centres of their own."""
    rng = np.random.default_rng(seed)
    clients = [rng.normal(rng.normal(size=2), spread, size=(n, 2)) for n in sizes]
    return Quadratic(clients=clients, start=start, curvature=curvature)


def logistic(sizes=(6, 6, 6), *, seed=0, penalty=0.3, start=(0.5, -0.5)):
    """Each client has its own rule."""
    rng = np.random.default_rng(seed)
    clients = []
    for n in sizes:
        x, rule = rng.normal(size=(n, 2)), rng.normal(size=2)
        clients.append(x * np.sign(x @ rule + rng.normal(size=n))[:, None])
    return Logistic(clients=clients, start=start, penalty=penalty)


def gradients(problem: Problem, w: np.ndarray) -> list[np.ndarray]:
    """Of each client (n_k, d) every example's gradient, written down a second time."""
    if isinstance(problem, Quadratic):
        return [problem.a * (w - x) for x in problem.examples]
    assert isinstance(problem, Logistic)
    return [
        problem.penalty * w - z / (1.0 + np.exp(z @ w))[:, None] for z in problem.examples
    ]  # fmt: skip
