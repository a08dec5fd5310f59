from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl.errors import InputError
from mmfl.market import BudgetFair, GMMFair, MaxMinFair, budget_fair, manipulability
from mmfl.market.truthfulness import InTask, mark_ups
from mmfl.market.truthfulness.cases import COUNTER_EXAMPLES

THREE = [[0.30], [0.35], [0.40]]


def always(costs):
    return lambda rng: costs


def small(rng):
    return rng.random((5, 2)) / rng.uniform(0.5, 2.5)


def test_a_table_counted_by_hand():
    """Share pay: two of three win at .50; the third gains .10 by an underbid."""
    found = manipulability(BudgetFair(1.0, "share"), always(THREE), instances=2, factors=(0.8, 1.5))
    assert (found.instances, found.users, found.pairs) == (2, 6, 6)
    assert found.pairs_that_gain == found.pairs_underbid == found.users_who_gain
    assert found.pairs_that_gain == pytest.approx(1 / 3)
    assert found.instances_with_gain == 1
    assert found.in_task == InTask(found.pairs_that_gain, found.pairs_underbid, 1.0, 0.0)
    assert found.mean_gain == pytest.approx(0.10)
    assert found.largest_gain == pytest.approx(0.10)
    assert found.relative_gain == found.pairs_elsewhere == 0  # who gains is not paid by the truth
    assert found.mean_fall == found.largest_fall == found.any_fall == 0  # two win, come what may
    assert found.truthful == pytest.approx((0.20 + 0.15) / 3)
    # x 0.8: the third wins, too; x 1.5: whoever marks up loses
    assert found.blind == pytest.approx({0.8: (0.20 + 0.15 + 0.10) / 3, 1.5: 0.0})
    assert found.best_blind == (0.8, pytest.approx(0.15))
    # all x 0.8: three win and share 1; all x 1.5: one wins, and gets 1
    assert found.together[0.8] == pytest.approx((3 / 2, 1.0))
    assert found.together[1.5] == pytest.approx((1 / 2, 1.0))


def test_winners_who_are_paid_their_bids():
    """Either client can ask .9 instead of .1, or withdraw and leave its task without anybody."""
    costs = [[0.1, math.inf], [math.inf, 0.1]]
    found = manipulability(GMMFair(1.0), always(costs), instances=1, factors=(2.0,))
    assert (found.users, found.pairs) == (2, 2)
    assert found.pairs_that_gain == found.users_who_gain == found.instances_with_gain == 1
    assert found.largest_gain == pytest.approx(0.8)
    assert found.relative_gain == found.in_task.relative_gain == pytest.approx(8.0)
    assert (found.pairs_underbid, found.pairs_elsewhere) == (0, 0)
    assert (found.mean_fall, found.largest_fall, found.any_fall) == (0, 0, 1)
    assert (found.truthful, found.blind[2.0]) == (0, pytest.approx(0.1))
    assert found.together[2.0] == pytest.approx((1.0, 2.0))
    assert found.best_blind == (2.0, pytest.approx(0.1))


def test_gains_through_another_task_are_told_apart():
    (case,) = (case for case in COUNTER_EXAMPLES if case.name == "elsewhere")
    found = manipulability(case.mechanism, always(case.costs), instances=1)
    assert found.pairs_elsewhere > 0
    assert found.largest_gain >= case.gain
    assert found.largest_fall == found.any_fall == 1


def test_nobody_gains_under_budget_fair():
    found = manipulability(BudgetFair(1.0), small, instances=4)
    assert found.pairs == 40
    assert found.users_who_gain == found.pairs_that_gain == found.pairs_underbid == 0
    assert found.instances_with_gain == found.mean_gain == found.largest_gain == 0
    assert found.relative_gain == found.mean_fall == found.largest_fall == 0
    assert found.in_task == InTask(0, 0, 0, 0)
    assert found.best_blind == (1.0, found.truthful)


def test_the_impact_of_lies_on_the_take_up():
    for mechanism in (MaxMinFair(1.0), MaxMinFair(1.0, fractional=False)):
        found = manipulability(mechanism, small, instances=4, factors=())
        assert found.pairs_that_gain > 0
        assert found.largest_fall <= found.any_fall <= 1 + 1e-9
        if not mechanism.fractional:
            assert found.largest_fall <= 0
            assert found.in_task.pairs_underbid == 0  # section 5.6: proved


def test_integer_share_and_critical_pay_differ_by_underbids_alone():
    """In the misreported task: overbids pay for the same pairs, underbids only with share pay."""
    critical, share = (
        manipulability(MaxMinFair(1.0, pay, False), small, instances=6, factors=())
        for pay in ("critical", "share")
    )
    assert critical.in_task.pairs_underbid == 0
    assert share.in_task.pairs_that_gain == pytest.approx(
        critical.in_task.pairs_that_gain + share.in_task.pairs_underbid
    )


def test_the_same_seed_is_the_same_study_and_functions_are_mechanisms():
    def rule(bids):
        return budget_fair(bids, 1.0, payment="share")

    first = manipulability(BudgetFair(1.0, "share"), small, instances=2, users=3, seed=5)
    assert first == manipulability(rule, small, instances=2, users=3, seed=5)
    assert first != manipulability(rule, small, instances=2, users=3, seed=6)
    assert (first.users, first.pairs) == (6, 12)


def test_mark_ups_alone_are_the_same_as_within_the_study():
    study = manipulability(MaxMinFair(1.0), small, instances=3, users=2, seed=1)
    alone = mark_ups(MaxMinFair(1.0), small, instances=3, users=2, seed=1)
    assert (alone.truthful, alone.blind, alone.together) == (
        study.truthful,
        study.blind,
        study.together,
    )
    assert alone.best_blind == study.best_blind


def test_the_error_of_a_blind_gain_is_over_instances():
    """Gains of .1 and .3 a client: their mean is .2, and its standard error .1."""
    tables = iter([[[0.1]], [[0.3]]])
    found = mark_ups(GMMFair(1.0), lambda rng: next(tables), instances=2, factors=(2.0,))
    assert found.blind[2.0] == pytest.approx(0.2)
    assert found.error[2.0] == pytest.approx(0.1)


def test_clients_that_are_not_there_or_not_willing_gain_nothing():
    for costs in (np.empty((0, 2)), [[math.inf, math.inf]]):
        found = manipulability(MaxMinFair(1.0), always(costs), instances=1)
        assert (found.pairs, found.users_who_gain, found.truthful) == (0, 0, 0)
        assert set(found.together.values()) == {(1.0, 1.0)}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"instances": 0}, "instances must be at least 1, got 0"),
        ({"instances": 2.0}, "instances must be a whole number, got 2.0"),
        ({"users": True}, "users must be a whole number, got True"),
        ({"users": -1}, "users must be at least 1, got -1"),
        ({"factors": (0,)}, "a factor must be a finite number > 0, got 0"),
        ({"factors": (math.inf,)}, "a factor must be a finite number > 0, got inf"),
        ({"most": 0}, "most must be at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(InputError, match=f"^{sentence}$"):
        manipulability(BudgetFair(1.0), always(THREE), **options)
