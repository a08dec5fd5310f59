from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from mmfl.errors import InputError
from mmfl.market import (
    BudgetFair,
    GMMFair,
    GreedyWithinBudget,
    MaxMinFair,
    Recruitment,
    ValueThreshold,
    audit,
    best_response,
    budget_fair,
)

THREE = [[0.30], [0.35], [0.40]]


def test_an_auction_is_checked_in_one_call():
    found = audit(BudgetFair(1.0, "share"), THREE)
    assert (found.budget, found.overspent, found.irrational) == (1.0, None, None)
    assert found.optimum == 2
    assert not found.proved
    assert found.users == 3
    assert (found.best.user, found.gain) == (2, pytest.approx(0.10))
    each = [best_response(BudgetFair(1.0, "share"), THREE, user) for user in range(3)]
    assert found.tried == sum(response.tried for response in each)


@pytest.mark.parametrize(
    ("mechanism", "tasks", "proved"),
    [
        (BudgetFair(1.0), 2, True),
        (BudgetFair(1.0, "share"), 1, False),
        (MaxMinFair(1.0, fractional=False), 1, True),
        (MaxMinFair(1.0, fractional=False), 2, False),
        (MaxMinFair(1.0), 1, False),
        (MaxMinFair(1.0, "share", fractional=False), 1, False),
        (GMMFair(1.0), 1, False),
        (GreedyWithinBudget(1.0), 1, False),
        (ValueThreshold(0.5), 2, True),
    ],
    ids=repr,
)
def test_what_a_theorem_says_is_not_contradicted(mechanism, tasks, proved):
    costs = np.random.default_rng(0).random((5, tasks))
    found = audit(mechanism, costs)
    assert found.proved is proved
    if proved:
        assert found.gain == 0


def test_without_a_budget_nothing_is_held_against_one():
    found = audit(ValueThreshold(0.38), THREE)
    assert (found.budget, found.overspent, found.optimum) == (None, None, None)


def changed(**parts) -> type:
    class Broken:
        budget = 1.0

        def recruit(self, bids) -> Recruitment:
            return dataclasses.replace(budget_fair(bids, 1.0), **parts)

    return Broken()


def test_violations_are_said():
    found = audit(changed(payment=np.array([[0.6], [0.6], [0.0]])), THREE)
    assert "more than the budget" in found.overspent
    assert found.irrational is None
    found = audit(changed(payment=np.array([[0.2], [0.4], [0.0]])), THREE)
    assert "less than its bid" in found.irrational
    assert found.overspent is None


def test_a_function_can_be_audited():
    found = audit(lambda bids: budget_fair(bids, 1.0, payment="share"), THREE)
    assert found.budget is None
    assert found.gain == pytest.approx(0.10)


def test_those_around_the_cuts_are_looked_at_first():
    """One of 60 clients gains: the first loser gets the last winner's place, and 1/9."""
    costs = np.array([*np.linspace(0.01, 0.08, 8), 0.105, 0.108, *np.linspace(0.2, 0.9, 50)])
    costs = costs[:, None]
    outcome = BudgetFair(1.0, "share").recruit(costs)
    assert outcome.take_up == pytest.approx([9])
    found = audit(BudgetFair(1.0, "share"), costs, users=2, tries=100)
    assert found.users == 2
    assert found.best.user == 9
    assert found.gain == pytest.approx(1 / 9 - 0.108)


def test_few_users_and_nobody():
    costs = np.random.default_rng(1).random((30, 2))
    assert audit(MaxMinFair(3.0), costs, users=4, tries=64).users == 4
    assert audit(MaxMinFair(3.0), costs[:3], users=None, tries=64).users == 3
    for empty in (np.empty((0, 2)), [[math.inf]]):
        found = audit(MaxMinFair(1.0), empty)
        assert found.gain == 0
        assert found.outcome.spent == 0


def test_the_same_seed_looks_at_the_same_clients():
    costs = np.random.default_rng(2).random((40, 2))
    first, again = (audit(MaxMinFair(4.0), costs, users=5, tries=64, seed=3) for _ in range(2))
    assert first.best == again.best
    assert first.tried == again.tried


@pytest.mark.parametrize("options", [{"users": 0}, {"users": 1.5}, {"tries": 0}, {"tries": True}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError, match="must be"):
        audit(BudgetFair(1.0), THREE, **options)
