"""The chance that a task starves, and what auctions recruit on average, against plain counting."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.market import budget_fair, max_min_fair
from mmfl.market.bids_io import IncreasingLinear, UniformBids
from mmfl.theory import (
    expected_clients,
    expected_take_up,
    join_budget_fair,
    join_max_min,
    selection_probability_active,
    starvation_probability,
)
from support.helpers import one_line

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=7)


@given(CHANCES, st.data())
def test_it_is_the_mean_over_all_sets_of_active_clients(p, data):
    m = data.draw(st.integers(0, len(p)))
    sets = [math.prod(1 - x for x in some) for some in combinations(p, m)]
    assert starvation_probability(p, m) == pytest.approx(np.mean(sets), abs=1e-12)
    assert expected_clients(p, m) == pytest.approx(m / len(p) * sum(p))


@given(CHANCES, st.data())
def test_more_active_clients_never_starve_a_task_more(p, data):
    m = data.draw(st.integers(0, len(p) - 1))
    assert starvation_probability(p, m + 1) <= starvation_probability(p, m) + 1e-12


@pytest.mark.parametrize("m", [0, 3, 10])
def test_alike_clients_starve_a_task_as_the_empty_selection_says(m):
    p = np.full(10, 0.3)
    assert starvation_probability(p, m) == pytest.approx(0.7**m)
    assert starvation_probability(p, m) == pytest.approx(
        selection_probability_active(0, 10, m, 0.3)
    )


def test_many_clients_neither_overflow_nor_vanish():
    p = np.linspace(0, 0.01, 3000)
    assert starvation_probability(p) == pytest.approx(np.exp(np.log1p(-p).sum()))
    assert 0 < starvation_probability(p, 300) < 1


@pytest.mark.parametrize(
    ("p", "m"), [([], None), ([[0.5]], None), ([1.5], None), ([math.nan], None)]
)
def test_what_is_no_vector_of_chances_is_refused(p, m):
    assert "p must be a vector of probabilities" in one_line(
        InputError, lambda: starvation_probability(p, m)
    )


def test_more_active_clients_than_there_are_is_refused():
    said = one_line(InputError, lambda: starvation_probability([0.5], 2))
    assert said == "m must be from 0 to K = 1, got 2"


def test_take_up_is_that_of_held_auctions():
    N, B, draws = 20, 4.0, 600
    laws = (UniformBids(), IncreasingLinear())
    cdfs = (lambda x: np.clip(x, 0, 1), lambda x: np.clip(x, 0, 1) ** 2)
    rng = np.random.default_rng(0)
    tables = [np.column_stack([law.quantile(rng.random(N)) for law in laws]) for _ in range(draws)]
    for s, law in enumerate(laws):
        own, other = cdfs[s], cdfs[1 - s]
        for held, join in (
            (budget_fair, lambda b, own=own: join_budget_fair(b, N, 2, B, own)),
            (
                lambda bids, budget: max_min_fair(bids, budget, fractional=False),
                lambda b, own=own, other=other: join_max_min(b, N, B, own, [other]),
            ),
        ):
            found = np.array([held(bids, B).take_up[s] for bids in tables])
            error = found.std(ddof=1) / math.sqrt(draws)
            assert expected_take_up(N, law, join) == pytest.approx(found.mean(), abs=4 * error)


def test_nobody_to_recruit_is_refused():
    said = one_line(InputError, lambda: expected_take_up(0, UniformBids(), lambda b: 1.0))
    assert said == "N must be at least 1, got 0"
