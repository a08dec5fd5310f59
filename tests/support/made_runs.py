"""Runs that nobody ran, for tests of reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmfl.report import Curves, Variant


def curves(
    metric: Sequence[Sequence[float]],
    clients: Sequence[Sequence[int]] | None = None,
    better: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
) -> Curves:
    """A run with these metrics; tasks are called a, b, ... and each has 1 client per round."""
    table = np.array(metric, dtype=np.float64)
    T, S = table.shape
    return Curves(
        tuple("abcdefghijkl"[:S] if tasks is None else tasks),
        ("higher",) * S if better is None else tuple(better),
        table,
        np.ones((T, S), np.int64) if clients is None else np.array(clients, np.int64),
    )


def made(name: str, S: int, *, seeds: int = 3, rounds: int = 12, level: float = 0.8) -> Variant:
    """A variant whose tasks learn, some better than others."""
    runs = {}
    for seed in range(seeds):
        g = np.random.default_rng([seed, S, len(name)])
        height = np.linspace(level, level / 2, S) + g.normal(0, 0.02, S)
        metric = height * (1 - np.exp(-np.arange(1, rounds + 1)[:, None] / 4))
        runs[seed] = curves(metric, g.multinomial(20, g.dirichlet(np.ones(S)), size=rounds))
    return Variant(name, runs)


def three() -> list[Variant]:
    """Three variants of three tasks, three seeds."""
    return [made("fed_fair", 3), made("uniform", 3, level=0.7), made("round_robin", 3, level=0.75)]
