"""The two lemmas on fairness, as printed and as they are true (spec, section 10, item 1)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.fairness import alpha_fair_objective, cosine_similarity, jain, variance
from mmfl.theory import printed


def optimum(reachable, alpha):
    """The point of a reachable set of loss vectors that the alpha-fair objective likes best."""
    return min(reachable, key=lambda f: alpha_fair_objective(f, alpha))


@st.composite
def reachable_sets(draw, low=0.0):
    S = draw(st.integers(1, 5))
    losses = st.tuples(*[st.floats(low, 10.0, allow_subnormal=False)] * S)
    return draw(st.lists(losses, min_size=1, max_size=12))


class TestLemmaFairnessAndVariance:
    def test_the_printed_variance_is_none(self):
        assert printed.variance([3.0, 1.0]) == -11.0
        assert variance([3.0, 1.0]) == 1.0

    @given(reachable_sets())
    def test_it_holds_for_losses_above_zero_over_one_reachable_set(self, reachable):
        fair, plain = optimum(reachable, 2), optimum(reachable, 1)
        assert variance(fair) <= variance(plain) + 1e-9

    def test_3000_of_3000_random_reachable_sets(self):
        rng = np.random.default_rng(0)
        held = 0
        for _ in range(3000):
            reachable = rng.exponential(size=(rng.integers(2, 30), rng.integers(2, 6)))
            held += variance(optimum(reachable, 2)) <= variance(optimum(reachable, 1)) + 1e-12
        assert held == 3000

    def test_negative_losses_break_it(self):
        reachable = [(-2.0, -2.0), (-1.0, 1.0)]
        plain = min(reachable, key=sum)
        fair = min(reachable, key=lambda f: sum(x * x for x in f))
        assert (variance(plain), variance(fair)) == (0.0, 1.0)

    @given(st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=4), min_size=1, max_size=4))
    def test_taken_literally_the_problem_separates_and_alpha_is_idle(self, models):
        """The constraint on who trains what does not involve w: each task is minimised alone."""
        reachable = list(itertools.product(*models))
        alone = tuple(min(losses) for losses in models)
        for alpha in (1.0, 2.0, 5.0):
            value = alpha_fair_objective(optimum(reachable, alpha), alpha)
            assert value == alpha_fair_objective(alone, alpha)


class TestLemmaFairnessAndCosineSimilarity:
    @given(reachable_sets(low=1e-3))
    def test_it_holds_for_losses_above_zero_over_one_reachable_set(self, reachable):
        fair, plain = optimum(reachable, 2), optimum(reachable, 1)
        assert cosine_similarity(fair) >= cosine_similarity(plain) - 1e-9

    def test_it_needs_a_loss_that_is_not_zero(self):
        assert np.isnan(cosine_similarity([0.0, 0.0]))

    @given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8))
    def test_the_printed_ratio_is_the_cosine_times_the_root_of_s(self, f):
        ratio = sum(f) / np.sqrt(np.square(f).sum())
        assert cosine_similarity(f) * np.sqrt(len(f)) == pytest.approx(ratio)
        assert cosine_similarity(f) ** 2 == pytest.approx(jain(f))
