"""Bids made up at random, easy and nasty, and every auction with all its options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction as Q
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from mmfl.market import (
    Bids,
    Recruitment,
    budget_fair,
    gmm_fair,
    greedy_within_budget,
    max_min_fair,
    random_within_budget,
    value_threshold,
)

Rule = Callable[[Any, float], Recruitment]
"""From bids and an amount of money (the budget, or the posted price) to the outcome."""

MAX_MIN: dict[str, dict[str, Any]] = {
    f"{payment} {'fractional' if fractional else 'integer'}": {
        "payment": payment,
        "fractional": fractional,
    }
    for payment in ("critical", "share")
    for fractional in (True, False)
}


def _max_min(options: dict[str, Any]) -> Rule:
    return lambda bids, budget: max_min_fair(bids, budget, **options)


BUDGETED: dict[str, Rule] = {
    "budget_fair critical": budget_fair,
    "budget_fair share": lambda bids, budget: budget_fair(bids, budget, payment="share"),
    "gmm_fair": gmm_fair,
    "greedy_within_budget": greedy_within_budget,
    "random_within_budget": lambda bids, budget: random_within_budget(bids, budget, seed=7),
    **{f"max_min_fair {name}": _max_min(options) for name, options in MAX_MIN.items()},
}
FIXED_SHARE = [name for name in BUDGETED if not name.startswith(("gmm_fair", "max_min_fair"))]
PAID_THEIR_BID = ("gmm_fair", "greedy_within_budget", "random_within_budget")
RULES: dict[str, Rule] = {**BUDGETED, "value_threshold": value_threshold}


class Case(NamedTuple):
    """A table of bids and a budget."""

    bids: npt.NDArray[np.float64]
    budget: float


def _cells(rng: np.random.Generator, style: str, N: int, S: int) -> npt.NDArray[np.float64]:
    match style:
        case "plain":
            return rng.uniform(0.01, 1, (N, S))
        case "decimal":
            return rng.integers(1, 21, (N, S)) / 20
        case "tied":
            return rng.integers(1, 4, (N, S)) / 10
        case "zeros":
            return np.where(rng.random((N, S)) < 0.4, 0.0, rng.integers(1, 11, (N, S)) / 10)
        case "skewed":
            return rng.uniform(0.01, 1, (N, S)) * 10.0 ** rng.integers(-2, 3, S)
    raise AssertionError(style)


STYLES = ("plain", "decimal", "tied", "zeros", "skewed")
REFUSALS = ("none", "some", "most", "task")


def random_case(rng: np.random.Generator, N: int, S: int, style: str, refusal: str) -> Case:
    """Bids of a style, of which some are refusals, and a budget: none too low, some exact fits."""
    bids = _cells(rng, style, N, S)
    if refusal in ("some", "most"):
        bids[rng.random((N, S)) < (0.2 if refusal == "some" else 0.7)] = np.inf
    if refusal == "task" and N:
        bids[rng.permutation(N)[: rng.integers(0, N + 1)], rng.integers(S)] = np.inf
    ascending = np.sort(bids, axis=0)
    known = bids[np.isfinite(bids)]
    budget = float(known.sum() * rng.uniform(0.001, 1.3)) if known.sum() > 0 else 1.0
    with np.errstate(invalid="ignore"):
        t = np.arange(1, N + 1)
        fits = np.concatenate([t * ascending.sum(axis=1), S * t * ascending[:, 0]])
    fits = fits[(fits > 0) & (fits < np.inf)]
    if len(fits) and rng.random() < 0.4:  # exactly enough for t users at one price
        budget = float(rng.choice(fits))
    elif len(fits) and rng.random() < 0.15:  # nobody can be had: T = 0
        budget = float(fits.min() * rng.uniform(0.01, 0.9))
    return Case(bids, budget)


def adversarial(count: int, seed: int, largest: int = 12) -> Iterator[Case]:
    """Many small cases: ties, decimals, zeros, refusals, exhausted tasks, T = 0, S = 1, scales."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        N, S = int(rng.integers(0, largest + 1)), int(rng.integers(1, 6))
        bids, budget = random_case(rng, N, S, rng.choice(STYLES), rng.choice(REFUSALS))
        scale = 10.0 ** rng.integers(-9, 10) if rng.random() < 0.3 else 1.0
        yield Case(bids * scale, budget * scale)


def _case(N: int, S: int, seed: int, style: str, refusal: str, power: int) -> Case:
    bids, budget = random_case(np.random.default_rng(seed), N, S, style, refusal)
    return Case(bids * 10.0**power, budget * 10.0**power)


def cases(*, most: int = 300, styles: tuple[str, ...] = STYLES) -> st.SearchStrategy[Case]:
    """The same for hypothesis, up to `most` users and six tasks."""
    return st.builds(
        _case,
        st.integers(0, min(most, 12)) | st.integers(0, most),
        st.integers(1, 6),
        st.integers(0, 2**32),
        st.sampled_from(styles),
        st.sampled_from(REFUSALS),
        st.integers(-9, 9),
    )


def rationals(values: Any) -> list[Q]:
    """The exact values of floats."""
    return [Q(value) for value in np.asarray(values).ravel().tolist()]


def same(one: Recruitment, other: Recruitment, budget: float) -> None:
    """Assert that two outcomes are equal but for rounding."""
    assert [w.tolist() for w in one.winners] == [w.tolist() for w in other.winners]
    assert one.stop == other.stop
    np.testing.assert_allclose(one.participation, other.participation, rtol=0, atol=1e-8)
    np.testing.assert_allclose(one.payment, other.payment, rtol=1e-8, atol=1e-9 * budget)
    for a, b in zip(one.price, other.price, strict=True):
        assert (a is None) == (b is None)
        assert a is None or math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-9 * budget)
    for p, q in zip(one.fractional, other.fractional, strict=True):
        assert (p and p.user) == (q and q.user)


def bid(bids: Any, t: int) -> list[float]:
    """b(t, s) of each task, by definition: the t-th smallest bid, inf beyond the last."""
    columns = [sorted(column) for column in Bids.of(bids).values.T.tolist()]
    return [column[t - 1] if t <= len(column) else math.inf for column in columns]
