"""The lemma, theorems and corollaries on auctions, and where they fail (spec, items 9 to 12)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.market import (
    BudgetFair,
    MaxMinFair,
    best_response,
    budget_fair,
    gmm_fair,
    max_min_fair,
    max_min_optimum,
)
from mmfl.market.bids_io import IncreasingLinear, TruncatedNormal
from mmfl.theory import (
    join_budget_fair,
    join_max_min,
    join_sampled,
    no_user_probability_exp,
    printed,
)

tables = st.integers(1, 5).flatmap(
    lambda S: st.lists(
        st.lists(st.floats(0.01, 2.0), min_size=S, max_size=S), min_size=1, max_size=7
    )
)
budgets = st.floats(0.1, 10.0)


class TestJoiningProbabilityOfMaxMin:
    """Item 9: N = 100, B = 29, a bid of .40 for task 1 of Experiment 5, truncated normal."""

    OWN, OTHER = TruncatedNormal(0.5, 0.2), IncreasingLinear()

    def test_the_printed_value_is_twice_the_true_one(self):
        exact = join_max_min(0.40, 100, 29.0, self.OWN.cdf, [self.OTHER.cdf])
        below = float(self.OWN.cdf(np.array([0.40]))[0])
        assert exact == pytest.approx(0.445, abs=5e-4)
        assert printed.join_max_min_least(0.40, 100, 2, 29.0, below) == pytest.approx(
            0.871, abs=5e-4
        )

    def test_monte_carlo_agrees_with_the_exact_one(self):
        auction = MaxMinFair(budget=29.0, fractional=False)
        rng = np.random.default_rng(1)
        held = join_sampled(0.40, 100, [self.OWN, self.OTHER], auction, draws=2000, rng=rng)
        assert held.full == pytest.approx(0.445, abs=4 * held.full_error)

    @pytest.mark.parametrize("bid", [0.2, 0.3, 0.35, 0.4])
    def test_in_the_cheap_task_max_min_takes_fewer_than_budget_fair(self, bid):
        ours = join_max_min(bid, 100, 29.0, self.OWN.cdf, [self.OTHER.cdf])
        assert ours <= join_budget_fair(bid, 100, 2, 29.0, self.OWN.cdf) + 1e-12

    @pytest.mark.parametrize("bid", [0.5, 0.55, 0.6])
    def test_and_more_in_the_dear_one(self, bid):
        ours = join_max_min(bid, 100, 29.0, self.OTHER.cdf, [self.OWN.cdf])
        assert ours >= join_budget_fair(bid, 100, 2, 29.0, self.OTHER.cdf) - 1e-12


class TestCorollaryAuctionComparison:
    """Item 10: the inequality is right, "strictly greater" is reversed, exp is of the minimum."""

    @given(st.floats(0.01, 20.0))
    def test_max_min_leaves_a_task_empty_less_often(self, y):
        ours, theirs = printed.no_user_probability(y, 1.0)
        assert ours < theirs
        assert ours == pytest.approx(no_user_probability_exp(y, 1.0))
        assert theirs == pytest.approx(no_user_probability_exp(y, 1.0, 2, "budget_fair"))

    def test_for_five_bids_the_rate_is_five_times_that_of_one(self):
        """K = 5, lam = 1, B = 1."""
        assert printed.no_user_probability(1.0, 1.0) == pytest.approx((0.736, 0.845), abs=5e-4)
        true = [no_user_probability_exp(1.0, 5.0, 2, m) for m in ("max_min_fair", "budget_fair")]
        assert true == pytest.approx([0.040, 0.157], abs=5e-4)
        bids = np.random.default_rng(0).exponential(size=(20_000, 5, 2)).min(axis=1)
        assert (bids.sum(axis=1) > 1).mean() == pytest.approx(true[0], abs=0.006)
        assert (bids.max(axis=1) > 0.5).mean() == pytest.approx(true[1], abs=0.012)


class TestLemmaMaxMinFairSolutionAlgorithm:
    """Item 11: GMMFair's lemma holds; "must be included" is only "may be assumed"."""

    @given(tables, budgets)
    def test_it_holds(self, bids, budget):
        outcome = gmm_fair(bids, budget)
        assert outcome.min_take_up == max_min_optimum(bids, budget)

    def test_an_optimum_need_not_hold_the_cheapest(self):
        """S = 1, bids .1, .2, B = .25: either user alone is an optimum."""
        assert gmm_fair([[0.1], [0.2]], 0.25).min_take_up == 1 == max_min_optimum([[0.2]], 0.25)

    def test_it_bounds_whole_users_only(self):
        fractional = max_min_fair([[0.6], [0.9]], 1.0)
        assert fractional.min_take_up == pytest.approx(1.11, abs=0.005)
        assert gmm_fair([[0.6], [0.9]], 1.0).min_take_up == 1


class TestTheoremUntruthfulnessConditions:
    """Item 11: underbidding can pay (CE1), and a misreport on another task can."""

    COSTS = np.array([[0.30], [0.35], [0.40]])

    @pytest.mark.parametrize("mechanism", [max_min_fair, budget_fair])
    def test_an_underbid_without_any_reallocation_pays(self, mechanism):
        lie = self.COSTS.copy()
        lie[2] = 0.34
        kwargs = {"fractional": False} if mechanism is max_min_fair else {}
        honest, told = (mechanism(b, 1.0, payment="share", **kwargs) for b in (self.COSTS, lie))
        gain = [float(o.payment[2, 0] - o.participation[2, 0] * 0.40) for o in (honest, told)]
        assert gain == pytest.approx([0.0, 0.10])

    def test_critical_payments_take_that_gain_away(self):
        lie = self.COSTS.copy()
        lie[2] = 0.34
        told = budget_fair(lie, 1.0)
        assert told.payment[2, 0] - 0.40 == pytest.approx(-0.05)

    def test_an_overbid_for_a_task_pays_in_another(self):
        """S = 2, B = 1: user 1 ends the auction a round early, and has more of task 1's funds."""
        costs = np.array([[0.1, 0.2], [0.3, 0.1]])
        lie = costs.copy()
        lie[0, 1] = 0.9
        options = {"payment": "share", "fractional": False}
        honest, told = (max_min_fair(bids, 1.0, **options) for bids in (costs, lie))
        assert honest.utility(costs)[0] == pytest.approx(0.2)
        assert told.utility(costs)[0] == pytest.approx(0.4)
        assert told.participation[0].tolist() == [1.0, 0.0]


class TestCorollaryUntruthfulnessImpact:
    """True: one user lowers the max-min objective by at most 2."""

    @given(tables, budgets, st.data())
    def test_it_holds(self, bids, budget, data):
        honest = max_min_fair(bids, budget)
        user = data.draw(st.integers(0, len(bids) - 1))
        lie = [list(row) for row in bids]
        lie[user] = data.draw(
            st.lists(
                st.floats(0.01, 2.0) | st.just(math.inf),
                min_size=len(lie[0]),
                max_size=len(lie[0]),
            )
        )
        assert max_min_fair(lie, budget).min_take_up >= honest.min_take_up - 2 - 1e-9


class TestBudgetFairIsTruthful:
    """Item 12: not with the printed share of the budget as pay (CE1); with critical pay it is."""

    COSTS = np.array([[0.30], [0.35], [0.40]])

    def test_with_the_printed_payment_it_is_not(self):
        found = best_response(BudgetFair(budget=1.0, payment="share"), self.COSTS, 2)
        assert found.gain == pytest.approx(0.10, abs=1e-6)

    def test_with_critical_payments_it_is(self):
        found = best_response(BudgetFair(budget=1.0), self.COSTS, 2)
        assert found.gain <= 1e-9
