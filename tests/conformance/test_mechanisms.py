"""What every auction promises, over the family's whole table.

A new mechanism is covered by its row in `mmfl.market.MECHANISMS`; only if it has options without a
default, `EXAMPLES` needs a line.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mmfl.market
from mmfl.errors import InputError
from mmfl.market import (
    MECHANISMS,
    Bids,
    Fraction,
    Mechanism,
    Recruitment,
    is_budget_feasible,
    is_individually_rational,
)
from support.helpers import one_line
from support.markets import cases

EXAMPLES = {
    "budget_fair": [{"budget": 2.0}, {"budget": 0.7, "payment": "share"}],
    "gmm_fair": [{"budget": 2.0}],
    "greedy_within_budget": [{"budget": 2.0}],
    "max_min_fair": [
        {"budget": 2.0, "payment": payment, "fractional": fractional}
        for payment in ("critical", "share")
        for fractional in (True, False)
    ],
    "random_within_budget": [{"budget": 2.0}, {"budget": 3.0, "seed": 5}],
    "value_threshold": [{"threshold": 0.4}],
}
MEMBERS = [(kind, options) for kind in MECHANISMS.table for options in EXAMPLES.get(kind, [{}])]
TABLE = [[0.3, 0.1, None], [0.2, 0.0, 0.6], [0.2, 0.8, 0.5], [None, 0.1, 0.3]]


@pytest.fixture(params=MEMBERS, ids=lambda member: f"{member[0]}-{member[1]}", scope="module")
def named(request) -> tuple[str, dict[str, object], Mechanism]:
    kind, options = request.param
    try:
        return kind, options, MECHANISMS.table[kind](**options)
    except InputError as error:
        return pytest.fail(f"give {kind!r} options that work in EXAMPLES, {__file__}: {error}")


@pytest.fixture(scope="module")
def member(named) -> Mechanism:
    return named[2]


def arrays(outcome: Recruitment) -> list[np.ndarray]:
    return [outcome.participation, outcome.payment, *outcome.winners]


def test_examples_are_of_kinds_that_exist():
    assert EXAMPLES.keys() <= MECHANISMS.table.keys()


# A mechanism is a value


def test_it_is_a_frozen_value(member):
    assert pickle.loads(pickle.dumps(member)) == member
    assert copy.deepcopy(member) == member
    assert hash(copy.copy(member)) == hash(member)
    for field in dataclasses.fields(member):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(member, field.name, None)


def test_it_prints_as_it_is_made(named):
    _, options, member = named
    assert type(member)(**options) == member
    shown = repr(member)
    assert shown.startswith(type(member).__name__ + "(")
    assert [name for name in options if f"{name}=" not in shown] == []


def test_it_round_trips_through_a_table(named):
    kind, options, member = named
    table = MECHANISMS.dump(member)
    assert table["kind"] == kind == MECHANISMS.kind_of(member)
    assert table.items() >= options.items()
    assert MECHANISMS.parse(table) == member
    assert MECHANISMS.parse(member) is member


def test_wrong_options_are_one_sentence(named):
    kind, options, _ = named
    cls = MECHANISMS.table[kind]
    for name in options:
        for wrong in ([], math.nan):
            changed = {**options, name: wrong}
            assert name in one_line(InputError, lambda changed=changed: cls(**changed))
    assert "colour" in one_line(InputError, lambda: cls(**options, colour="red"))
    needed = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
    for name in needed:
        rest = {key: value for key, value in options.items() if key != name}
        assert f"{name} is missing" in one_line(InputError, lambda rest=rest: cls(**rest))


def test_it_says_what_it_is_for(member):
    doc = type(member).__doc__
    assert doc
    assert [f.name for f in dataclasses.fields(member) if f"{f.name}:" not in doc] == []
    assert type(member).recruit.__doc__


# What it decides


@settings(max_examples=15)
@given(case=cases(most=30))
def test_it_is_the_function_of_the_same_name(named, case):
    kind, options, member = named
    function = getattr(mmfl.market, kind)
    ours, theirs = member.recruit(case.bids), function(case.bids, **options)
    for one, other in zip(arrays(ours), arrays(theirs), strict=True):
        assert np.array_equal(one, other)
    assert ours.price == theirs.price
    assert ours.fractional == theirs.fractional
    assert ours.stop == theirs.stop


@settings(max_examples=25)
@given(case=cases(most=60))
def test_the_verifiers_accept_it(member, case):
    outcome = member.recruit(case.bids / case.budget)
    assert is_individually_rational(outcome)
    if hasattr(member, "budget"):
        assert is_budget_feasible(outcome, member.budget)


@settings(max_examples=25)
@given(case=cases(most=30))
def test_every_field_has_its_shape_and_type(member, case):
    bids = Bids(case.bids / case.budget)
    outcome = member.recruit(bids)
    N, S = bids.shape
    assert isinstance(outcome, Recruitment)
    assert outcome.bids is bids
    x, pay = outcome.participation, outcome.payment
    for table in (x, pay):
        assert table.shape == (N, S)
        assert table.dtype == np.float64
        assert (table >= 0).all()
        assert np.isfinite(table).all()
    assert (x <= 1).all()
    assert len(outcome.winners) == len(outcome.price) == len(outcome.fractional) == S
    for s in range(S):
        rows, part = outcome.winners[s], outcome.fractional[s]
        assert rows.ndim == 1
        assert rows.dtype == np.int64
        price = outcome.price[s]
        if price is not None:
            assert type(price) is float
            assert len(rows)
            assert (pay[rows, s] == price).all()
        more = [] if part is None else [part.user]
        assert sorted(rows.tolist() + more) == np.flatnonzero(x[:, s]).tolist()
        assert (x[rows, s] == 1).all()
        if part is not None:
            assert isinstance(part, Fraction)
            assert tuple(map(type, part)) == (int, float, float)
            assert (x[part.user, s], pay[part.user, s]) == part[1:]
    assert outcome.stop in ("exhausted", "budget", None)
    assert outcome.take_up.tolist() == x.sum(axis=0).tolist()
    assert outcome.spend.tolist() == pay.sum(axis=0).tolist()
    assert outcome.spent == pytest.approx(pay.sum())
    assert outcome.min_take_up == outcome.take_up.min()
    assert outcome.difference == outcome.take_up.max() - outcome.take_up.min()
    for name in ("min_take_up", "difference", "spent"):
        assert type(getattr(outcome, name)) is float


@settings(max_examples=15)
@given(case=cases(most=30), seed=st.integers(0, 9))
def test_utility_is_pay_minus_the_cost_of_what_is_done(member, case, seed):
    outcome = member.recruit(case.bids / case.budget)
    N, S = case.bids.shape
    costs = np.random.default_rng(seed).uniform(0, 1, (N, S))
    expected = (outcome.payment - outcome.participation * costs).sum(axis=1)
    assert outcome.utility(costs) == pytest.approx(expected)
    truthful = outcome.utility(case.bids / case.budget)
    assert (truthful >= -1e-9 * S * (1 + outcome.payment.max(initial=0))).all()


@pytest.mark.parametrize("S", [1, 3])
def test_nobody_is_recruited_from_nobody(member, S):
    outcome = member.recruit(np.empty((0, S)))
    assert outcome.participation.shape == outcome.payment.shape == (0, S)
    assert [rows.tolist() for rows in outcome.winners] == [[]] * S
    assert outcome.price == outcome.fractional == (None,) * S
    assert (outcome.min_take_up, outcome.difference, outcome.spent) == (0, 0, 0)


def test_nobody_is_recruited_from_the_unwilling(member):
    outcome = member.recruit([[None, None], [math.inf, math.inf]])
    assert not outcome.participation.any()
    assert outcome.spent == 0


def test_someone_is_recruited_where_money_abounds(member):
    assert member.recruit(np.full((5, 2), 1e-6)).take_up.tolist() == [5, 5]


def test_the_bids_are_not_changed(member):
    given = np.array(TABLE, dtype=float)
    given[np.isnan(given)] = np.inf
    before = given.copy()
    given.flags.writeable = False
    outcome = member.recruit(given)
    assert np.array_equal(given, before)
    assert not any(np.shares_memory(array, given) for array in arrays(outcome))
    assert not any(np.shares_memory(array, outcome.bids.values) for array in arrays(outcome))


def test_the_same_bids_give_the_same_outcome(member):
    one, other = member.recruit(TABLE), member.recruit(Bids(TABLE))
    for first, second in zip(arrays(one), arrays(other), strict=True):
        assert np.array_equal(first, second)
    assert (one.price, one.fractional, one.stop) == (other.price, other.fractional, other.stop)


@pytest.mark.parametrize(
    "bids", [[[math.nan]], [[-1.0]], [1.0], [[]], "x", [[True]], [[1], [1, 2]]]
)
def test_bad_bids_are_refused_in_one_line(member, bids):
    one_line(InputError, lambda: member.recruit(bids))


def test_outcomes_can_be_pickled(member):
    outcome = member.recruit(TABLE)
    again = pickle.loads(pickle.dumps(outcome))
    for first, second in zip(arrays(outcome), arrays(again), strict=True):
        assert np.array_equal(first, second)
    assert again.bids.tasks == outcome.bids.tasks
