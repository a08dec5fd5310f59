"""The verifiers accept what the auctions decide, and find what is wrong with anything else."""

from __future__ import annotations

import dataclasses
import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.market import (
    Bids,
    Recruitment,
    budget_fair,
    budget_violation,
    gmm_fair,
    is_budget_feasible,
    is_individually_rational,
    is_max_min_optimal,
    max_min_fair,
    max_min_optimum,
    optimality_violation,
    rationality_violation,
)
from support.helpers import one_line
from support.markets import BUDGETED, FIXED_SHARE, RULES, cases

TABLE = Bids(
    [[0.2, 0.9], [0.3, 0.4], [0.5, None]], clients=["anna", "bert", "carl"], tasks=("x", "y")
)


@pytest.fixture
def outcome() -> Recruitment:
    """Anna and Bert win x for 0.5, Bert wins y for 0.9."""
    found = budget_fair(TABLE, 2.0)
    assert found.payment.tolist() == [[0.5, 0], [0.5, 0.9], [0, 0]]
    return found


def tampered(outcome: Recruitment, field: str, row: int, s: int, value: float) -> Recruitment:
    array = getattr(outcome, field).copy()
    array[row, s] = value
    return dataclasses.replace(outcome, **{field: array})


# Our own outcomes pass


@pytest.mark.parametrize("rule", RULES)
@given(case=cases(most=100))
def test_they_accept_every_auction(rule, case):
    outcome = RULES[rule](*case)
    assert rationality_violation(outcome) is None
    assert is_individually_rational(outcome, case.bids)
    if rule in BUDGETED:
        assert budget_violation(outcome, case.budget, per_task=rule in FIXED_SHARE) is None
    if rule == "gmm_fair":
        assert optimality_violation(outcome, case.budget) is None


# Budget


def test_overspending_is_named_with_both_amounts(outcome):
    assert is_budget_feasible(outcome, 1.9)
    assert is_budget_feasible(outcome, 1.9 / (1 + 1e-9))
    assert not is_budget_feasible(outcome, 1.9 / (1 + 3e-9))
    said = budget_violation(outcome, 1.8)
    assert "1.9" in said
    assert "1.8" in said


def test_a_task_that_overspends_its_share_is_named(outcome):
    assert is_budget_feasible(outcome, 2.0, per_task=True)
    said = budget_violation(outcome, 1.9, per_task=True)
    assert "'x'" in said
    assert "1" in said
    assert "0.95" in said
    second = tampered(tampered(outcome, "payment", 0, 0, 0.2), "payment", 1, 1, 1.2)
    assert "'y'" in budget_violation(second, 1.9, per_task=True)
    assert not is_budget_feasible(second, 1.9, per_task=True)


@pytest.mark.parametrize("payment", [math.nan, math.inf, 1.7e308])
def test_payments_that_are_no_amounts_break_every_budget(outcome, payment):
    wrong = tampered(tampered(outcome, "payment", 0, 0, payment), "payment", 1, 0, payment)
    assert not is_budget_feasible(wrong, 100.0)
    assert not is_budget_feasible(wrong, 100.0, per_task=True)


def test_payments_beyond_all_floats_that_cancel_do_too(outcome):
    wrong = tampered(tampered(outcome, "payment", 0, 0, math.inf), "payment", 1, 0, -math.inf)
    assert not is_budget_feasible(wrong, 100.0)


@pytest.mark.parametrize("budget", [0, -1, math.nan, "1"])
def test_a_budget_is_an_amount_here_too(outcome, budget):
    for act in (budget_violation, optimality_violation):
        assert "budget" in one_line(InputError, lambda act=act: act(outcome, budget))


# Rationality


@pytest.mark.parametrize(
    ("field", "row", "s", "value", "words"),
    [
        ("payment", 1, 0, 0.29, ("'bert'", "'x'", "0.29", "0.3", "less")),
        ("payment", 1, 1, 0.39, ("'bert'", "'y'", "0.39", "0.4", "less")),
        ("payment", 1, 1, -1.0, ("'bert'", "'y'", "-1", "less")),
        ("payment", 2, 0, 0.1, ("'carl'", "'x'", "0.1", "without taking part")),
        ("payment", 2, 1, 0.1, ("'carl'", "'y'", "0.1", "without taking part")),
        ("payment", 2, 1, -0.1, ("'carl'", "'y'", "-0.1")),
        ("payment", 0, 0, math.nan, ("'anna'", "'x'", "nan")),
        ("payment", 0, 0, math.inf, ("'anna'", "'x'", "inf")),
        ("participation", 2, 0, 1.0, ("'carl'", "'x'", "paid 0", "0.5", "less")),
        ("participation", 2, 1, 1.0, ("'carl'", "'y'", "unwilling")),
        ("participation", 0, 0, 1.5, ("'anna'", "'x'", "1.5")),
        ("participation", 0, 0, -0.5, ("'anna'", "'x'", "-0.5")),
        ("participation", 0, 0, math.nan, ("'anna'", "'x'", "nan")),
        ("participation", 0, 0, 0.0, ("'anna'", "'x'", "0.5", "without taking part")),
        ("participation", 0, 1, 0.5, ("'anna'", "'y'", "paid 0", "0.9", "participation 0.5")),
    ],
)
def test_the_first_wrong_cell_is_named(outcome, field, row, s, value, words):
    assert is_individually_rational(outcome)
    wrong = tampered(outcome, field, row, s, value)
    said = rationality_violation(wrong)
    assert [word for word in words if word not in said] == []
    assert not is_individually_rational(wrong)
    later = tampered(wrong, "payment", 2, 1, 7.0)
    if (row, s) != (2, 1):
        assert rationality_violation(later) == said


def test_rounding_is_no_violation(outcome):
    assert is_individually_rational(tampered(outcome, "payment", 1, 0, 0.3 * (1 - 1e-10)))
    assert not is_individually_rational(tampered(outcome, "payment", 1, 0, 0.3 * (1 - 1e-8)))


def test_outcomes_can_be_held_against_other_bids(outcome):
    costs = Bids([[0.2, 0.9], [0.6, 0.4], [0.5, None]], clients=["a", "b", "c"])
    assert is_individually_rational(outcome)
    assert not is_individually_rational(outcome, costs)
    said = rationality_violation(outcome, costs)
    assert "'b'" in said
    assert "0.6" in said


# Optimality


def best_by_trying(values: np.ndarray, budget: float) -> int:
    """Every choice of users for every task, none of them clever."""
    N, S = values.shape
    best = 0
    chosen = [[list(rows) for n in range(N + 1) for rows in combinations(range(N), n)]] * S
    for choice in product(*chosen):
        cost = sum(values[rows, s].sum() for s, rows in enumerate(choice))
        if cost <= budget * (1 + 1e-9):
            best = max(best, min(map(len, choice)))
    return best


@given(
    st.integers(0, 4), st.integers(1, 2), st.integers(0, 2**32), st.sampled_from([0.1, 0.5, 1, 3])
)
def test_the_optimum_is_that_of_trying_everything(N, S, seed, budget):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((N, S)) < 0.15, np.inf, rng.integers(0, 11, (N, S)) / 10)
    best = best_by_trying(values, budget)
    assert max_min_optimum(values, budget) == best
    assert gmm_fair(values, budget).min_take_up == best


def test_the_optimum_of_huge_bids_does_not_overflow():
    assert max_min_optimum(np.full((7, 2), 1e308), 1.0) == 0
    assert max_min_optimum(np.full((7, 1), 1e308), 1e308) == 1


def test_a_task_that_could_have_more_is_named():
    bids = Bids([[0.1, 0.1], [0.1, 0.1], [0.1, 0.3]], tasks=("x", "y"))
    assert max_min_optimum(bids, 0.8) == 3
    few = max_min_fair(bids, 0.8, fractional=False)
    said = optimality_violation(few, 0.8)
    assert "'x'" in said
    assert "2" in said
    assert "3" in said
    assert not is_max_min_optimal(few, 0.8)
    assert is_max_min_optimal(gmm_fair(bids, 0.8), 0.8)
    nonsense = tampered(gmm_fair(bids, 0.8), "participation", 0, 1, math.nan)
    assert "'y'" in optimality_violation(nonsense, 0.8)


# Shapes


@pytest.mark.parametrize("field", ["payment", "participation"])
@pytest.mark.parametrize("shape", [(3, 1), (3, 3), (2, 2), (6,), (1, 3, 2)])
def test_outcomes_of_another_shape_are_refused(outcome, field, shape):
    wrong = dataclasses.replace(outcome, **{field: np.zeros(shape)})
    for act in (
        lambda: budget_violation(wrong, 1.0),
        lambda: is_budget_feasible(wrong, 1.0, per_task=True),
        lambda: rationality_violation(wrong),
        lambda: optimality_violation(wrong, 1.0),
    ):
        message = one_line(InputError, act)
        assert field in message
        assert str(shape) in message


def test_bids_of_another_shape_are_refused(outcome):
    assert "3" in one_line(InputError, lambda: rationality_violation(outcome, [[1, 2]]))
    assert "costs" in one_line(InputError, lambda: outcome.utility([[1, 2]]))


def test_nothing_is_wrong_with_nobody():
    nobody = max_min_fair(np.empty((0, 2)), 1.0)
    assert is_individually_rational(nobody)
    assert is_budget_feasible(nobody, 1.0, per_task=True)
    assert is_max_min_optimal(nobody, 1.0)
