"""The lemma, theorems and corollaries on convergence, and where they fail (spec, items 2 to 8)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.theory import (
    Constants,
    allocation_probabilities,
    auction_bound,
    expected_weights,
    inverse_size_term,
    one_step_bound,
    pair_weight,
    printed,
    recursion_bound,
    selection_probability,
    selection_skew,
    skew_bounds,
    t_step_bound,
)


class TestSelectionProbability:
    """B_Sel (item 2)."""

    def test_with_the_printed_exponent_it_is_not_uniform_at_alpha_1(self):
        losses = [0.8, 0.2]
        assert allocation_probabilities(losses, 1.0).tolist() == [0.5, 0.5]
        assert selection_probability(1, 1, 0.5) == 0.5
        assert printed.selection_probability(1, 1, losses, 0, alpha=1.0) == pytest.approx(0.8)

    def test_accuracy_as_f_sends_clients_to_the_best_task(self):
        accuracy = np.array([0.9, 0.5])
        assert allocation_probabilities(accuracy, 3.0) == pytest.approx([0.76, 0.24], abs=0.005)
        assert allocation_probabilities(1 - accuracy, 3.0) == pytest.approx([0.04, 0.96], abs=0.005)


class TestSelectionSkew:
    """rho and its bounds (items 3 and 7)."""

    def test_selection_is_not_unbiased(self):
        given_some = expected_weights([0.9, 0.1], 0.5) / (1 - 0.5**2)
        assert given_some == pytest.approx([0.633, 0.367], abs=5e-4)

    def test_the_texts_meaning_of_the_bounds_makes_the_bias_term_positive(self):
        """Table: overline = upper. Text: overline = lower; only so is rho_hi / rho_lo - 1 >= 0."""
        low, high = skew_bounds([0.9, 0.1], 0.5, given_nonempty=True)
        assert low < selection_skew([0.9, 0.1], [1.0, 1.0], 0.5, given_nonempty=True) < high
        right = Constants(L=2.0, mu=1.0, G=1.0, gap=1.0, rho_lo=low, rho_hi=high)
        bias = 8 * right.L * right.gap / (3 * right.mu) * (high / low - 1)
        assert bias > 0
        assert t_step_bound(1e15, right, 1.0) == pytest.approx(bias)


class TestLemmaLocalAndGlobalModelDiscrepancy:
    """E[sum w_k |mean - w_k|^2] <= 16 eta^2 tau^2 G^2 sum B P^{k,2}, where pairs count once."""

    @given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32))
    def test_it_holds_for_pairs_counted_once(self, clients, tau, seed):
        rng = np.random.default_rng(seed)
        w, eta, G = rng.dirichlet(np.ones(clients)), 0.1, 2.0
        steps = rng.normal(size=(clients, tau, 3))
        steps *= G / np.linalg.norm(steps, axis=2, keepdims=True)  # the largest gradients allowed
        models = -eta * steps.sum(axis=1)
        spread = w @ np.square(models - w @ models).sum(axis=1)
        assert spread <= 16 * eta**2 * tau**2 * G**2 * pair_weight(w) + 1e-12

    def test_the_printed_sum_over_ordered_pairs_is_twice_as_much(self):
        w = np.full(10, 0.1)
        assert printed.ordered_pair_weight(w) == pytest.approx(0.9)
        assert pair_weight(w) == pytest.approx(0.45)


class TestTheoremModelParameterConvergence:
    """One step, K = 1, F = w^2/2, w = 1, exact gradients (item 5)."""

    def test_it_is_false_where_nobody_may_be_selected(self):
        q, eta = 0.01, 1 / 100
        true = 1 - q + q * (1 - eta) ** 2
        c = Constants(L=1.0, mu=1.0, G=1.0, gamma=100.0, rho_lo=q, rho_hi=q)
        bound = one_step_bound(1.0, 0, c, square_weight=q)
        assert (true, bound) == (pytest.approx(0.9998, abs=5e-5), pytest.approx(0.9932, abs=5e-5))
        assert true > bound

    def test_given_that_somebody_trains_it_holds(self):
        c = Constants(L=1.0, mu=1.0, G=1.0, gamma=100.0)
        assert one_step_bound(1.0, 0, c) >= (1 - 1 / 100) ** 2

    def test_over_many_rounds_even_the_corrected_bound_fails_if_idle_rounds_count(self):
        q, T, gamma = 0.1, 200_000, 4.0
        eta = 1 / (np.arange(T) + gamma)
        true = 0.5 * math.exp(np.log1p(-q * (2 * eta - eta**2)).sum())
        c = Constants(L=1.0, mu=1.0, G=1.0, rho_lo=q, rho_hi=q)
        assert true == pytest.approx(0.0573, abs=5e-5)
        assert t_step_bound(T, c, 1.0) == pytest.approx(0.0021, abs=5e-5)
        # counting only the rounds in which it trained
        trained = 0.5 * np.cumprod((1 - eta[:1000]) ** 2)
        fair = Constants(L=1.0, mu=1.0, G=1.0)
        assert all(trained[t] <= t_step_bound(t + 1, fair, 1.0) for t in range(1000))


class TestCorollaryFairnessAndConvergence:
    """The noise term does not always fall with alpha (item 4)."""

    ALPHAS = (1.0, 1.5, 2.0, 3.0, 10.0)

    def worst_task(self, alpha):
        return float(allocation_probabilities([1.0, 0.5], alpha)[0])

    def test_it_is_false(self):
        terms = [inverse_size_term(self.worst_task(alpha), 2) for alpha in self.ALPHAS]
        assert terms == pytest.approx([0.625, 0.657, 0.667, 0.640, 0.502], abs=5e-4)
        assert terms[0] < terms[1] < terms[2] > terms[3] > terms[4]

    def test_the_binomial_does_not_add_up_to_one(self):
        K, q = 3, 0.4
        each = [math.comb(K, j) * selection_probability(j, K, q) for j in range(1, K + 1)]
        assert sum(each) == pytest.approx(1 - (1 - q) ** K)

    @pytest.mark.parametrize("K", [2, 3, 5, 10, 50, 1000])
    def test_it_rises_until_k_q_is_about_1_33_to_1_5_and_then_falls(self, K):
        q = np.linspace(0, 1, 10_001)[1:]
        terms = np.array([inverse_size_term(x, K) for x in q[: 3 * len(q) // max(K, 3)]])
        top = int(terms.argmax())
        assert 1.33 <= K * q[top] <= 1.51
        assert (np.diff(terms[: top + 1]) > 0).all()
        assert (np.diff(terms[top:]) < 0).all()

    @given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
    def test_given_that_somebody_trains_it_never_rises(self, K, a, b):
        few, many = (inverse_size_term(q, K, given_nonempty=True) for q in sorted((a, b)))
        assert many <= few * (1 + 1e-9)

    @given(st.lists(st.floats(0.01, 10), min_size=2, max_size=5), st.floats(1, 9), st.floats(0, 5))
    def test_so_the_worst_task_gains_by_alpha_strictly_only_if_losses_differ(self, f, alpha, more):
        worst = int(np.argmax(f))
        q = [float(allocation_probabilities(f, a)[worst]) for a in (alpha, alpha + more)]
        terms = [inverse_size_term(x, 20, given_nonempty=True) for x in q]
        assert terms[1] <= terms[0] * (1 + 1e-9)
        if len(set(f)) == 1:
            assert terms[1] == pytest.approx(terms[0])


class TestCorollaryModelConvergence:
    """T steps (item 6): a factor L is missing, and 16 is not 32."""

    def test_the_printed_bound_is_below_the_true_error(self):
        """S = K = 1, F = 500 w^2, noise 1, start in the optimum, gamma = 4."""
        L = mu = 1000.0
        T, gamma = 1000, 4.0
        square, largest = 0.0, 0.0  # E[w^2] and its maximum, exactly
        for t in range(T):
            eta = 1 / (mu * (t + gamma))
            square = (1 - eta * L) ** 2 * square + eta**2
            largest = max(largest, square)
        error = L / 2 * square
        c = Constants(L=L, mu=mu, G=math.sqrt(L**2 * largest + 1.0), sigma=1.0)
        assert error == pytest.approx(4.97e-7, rel=1e-3)
        assert printed.t_step_bound(T, c, 0.0) == pytest.approx(2.44e-8, rel=5e-3)
        assert error > printed.t_step_bound(T, c, 0.0)
        assert error < recursion_bound(T, c, 0.0)[-1] <= t_step_bound(T, c, 0.0)

    def test_it_is_a_loss_only_with_the_missing_factor(self):
        """In other units of length (w -> 10 w: L, mu / 100; G, sigma / 10) a loss stays a loss."""
        here = Constants(L=100.0, mu=100.0, G=10.0, sigma=10.0)
        there = Constants(L=1.0, mu=1.0, G=1.0, sigma=1.0)
        assert t_step_bound(50, here, 1.0) == pytest.approx(t_step_bound(50, there, 100.0))
        ratio = printed.t_step_bound(50, here, 0.0) / printed.t_step_bound(50, there, 0.0)
        assert ratio == pytest.approx(1 / 100)

    def test_against_the_theorems_recursion_the_printed_one_fails_and_ours_does_not(self):
        rng = np.random.default_rng(0)
        failed = {"printed": 0, "corrected": 0}
        for _ in range(400):
            mu, rho = 10 ** rng.uniform(-2, 2), rng.uniform(0.2, 1.5)
            c = Constants(
                L=mu * 10 ** rng.uniform(0, 2),
                mu=mu,
                G=10 ** rng.uniform(-1, 1),
                sigma=10 ** rng.uniform(-1, 1),
                gap=rng.choice([0.0, 10 ** rng.uniform(-2, 1)]),
                tau=int(rng.integers(1, 6)),
                rho_lo=rho,
                rho_hi=rho * rng.uniform(1, 2),
            )
            distance, T = 10 ** rng.uniform(-2, 1), 300
            steps = recursion_bound(T, c, distance, steps=1)
            for form, bound in (("printed", printed.t_step_bound), ("corrected", t_step_bound)):
                closed = [bound(t, c, distance) for t in range(T + 1)]
                failed[form] += bool((steps > np.array(closed) * (1 + 1e-9)).any())
        assert failed["corrected"] == 0
        assert failed["printed"] == 118


class TestTheoremConvergenceWithAuctions:
    """Item 8: F = w^2/2, w_0 = 1, N = 20 users, T = 1000."""

    C = Constants(L=1.0, mu=1.0, G=1.0)

    def test_the_printed_bound_improves_as_people_stop_joining(self):
        bounds = [printed.auction_bound(1000, self.C, 1.0, [p] * 20) for p in (0.9, 0.01, 0.0)]
        assert bounds == pytest.approx([0.0232, 0.0059, 0.0020], abs=5e-5)
        untrained = 0.5
        assert bounds[-1] < untrained

    def test_the_corrected_one_gets_worse(self):
        nobody = [(1 - p) ** 20 for p in (0.9, 0.01, 0.0)]
        bounds = [auction_bound(1000, self.C, 1.0, nobody=x) for x in nobody]
        assert bounds[0] < bounds[1] < bounds[2] == 0.5

    @pytest.mark.parametrize("T", [0, 1, 10, 100])
    def test_not_even_while_there_are_too_few_rounds_to_say_anything(self, T):
        bounds = [auction_bound(T, self.C, 1.0, nobody=x) for x in (0.0, 0.1, 0.9, 1.0)]
        assert bounds == sorted(bounds)
        assert bounds[-1] >= 0.5

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
    def test_the_sum_over_sets_of_winners_says_nothing_about_them(self, joins):
        total = 0.0
        for won in itertools.product([False, True], repeat=len(joins)):
            if any(won):
                total += math.prod(p if w else 1 - p for p, w in zip(joins, won, strict=True))
        assert printed.joint_sum(joins) == pytest.approx(total, abs=1e-12)

    def test_winners_are_not_independent(self):
        """N = 2, S = 1, B = 1, bids in [.6, 1]: both never win, the product says a quarter."""
        from mmfl.market import budget_fair

        rng = np.random.default_rng(0)
        won = np.array(
            [
                budget_fair(0.6 + 0.4 * rng.random((2, 1)), 1.0).participation[:, 0]
                for _ in range(99)
            ]
        )
        assert won.all(axis=1).mean() == 0.0
        assert won.mean() == 0.5
        assert math.prod(won.mean(axis=0)) == pytest.approx(0.25, abs=0.01)
