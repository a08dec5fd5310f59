"""Tables of bids: what is accepted, what is refused and in which words, and how bids are ranked."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction as Q

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.market import Bids, budget_fair, max_min_fair, random_within_budget, value_threshold
from mmfl.market.bids import at_most
from mmfl.market.ranking import rank_columns
from support.helpers import one_line
from support.markets import BUDGETED, RULES


def refused(bids: object) -> str:
    return one_line(InputError, lambda: Bids(bids))


# What is accepted


@pytest.mark.parametrize(
    "bids",
    [
        [[1, 2.5], [None, 0]],
        ((1, 2.5), (None, 0)),
        [[Q(1), Q(5, 2)], [None, np.float32(0)]],
        [np.array([1, 2.5]), np.array([np.inf, 0])],
        np.array([[1, 2.5], [np.inf, 0]]),
        np.array([[1, 2.5], [None, 0]], dtype=object),
        np.asfortranarray([[1, 2.5], [np.inf, 0]]),
        pd.DataFrame({"a": [1, np.nan], "b": [2.5, 0]}),
        [[1.0, 2.5], [math.inf, -0.0]],
        Bids([[1, 2.5], [None, 0]]),
    ],
)
def test_any_table_of_numbers_will_do(bids):
    values = Bids.of(bids).values
    assert values.dtype == np.float64
    assert values.tolist() == [[1, 2.5], [math.inf, 0]]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i1", "i8", "u1"])
def test_every_kind_of_number(dtype):
    assert Bids(np.array([[1, 2], [3, 0]], dtype=dtype)).values.tolist() == [[1, 2], [3, 0]]


def test_whole_numbers_up_to_the_largest():
    assert Bids(np.array([[2**64 - 1]], dtype=np.uint64)).values[0, 0] == 2.0**64
    assert Bids([[10**300]]).values[0, 0] == 1e300


@pytest.mark.parametrize("tasks", [1, 3])
def test_nobody_may_bid(tasks):
    bids = Bids(np.empty((0, tasks)))
    assert bids.shape == (0, tasks)
    assert len(bids.clients) == 0
    for rule in RULES.values():
        outcome = rule(bids, 1.0)
        assert outcome.participation.shape == (0, tasks)
        assert outcome.take_up.tolist() == [0] * tasks
        assert (outcome.min_take_up, outcome.difference, outcome.spent) == (0, 0, 0)


def test_minus_zero_is_zero():
    values = Bids(np.array([[-0.0, 0.0]])).values
    assert not np.signbit(values).any()
    assert not np.signbit(Bids([[-0.0]]).values).any()
    assert budget_fair([[-0.0], [0.0]], 1).winners[0].tolist() == [0, 1]


def test_a_table_of_bids_is_taken_as_it_is():
    bids = Bids([[1.0]])
    assert Bids.of(bids) is bids


# What is refused


@pytest.mark.parametrize(
    ("bids", "place", "given"),
    [
        ([[1, 2], [3, math.nan]], (1, 1), "nan"),
        ([[1, -2], [3, 4]], (0, 1), "-2"),
        ([[1, 2], [-math.inf, 4]], (1, 0), "-inf"),
        (np.array([[1, 2], [3, np.nan]]), (1, 1), "nan"),
        (np.array([[1, -1e-300]]), (0, 1), "-1e-300"),
        (np.array([[1, -5]], dtype=np.int8), (0, 1), "-5"),
        (np.array([[1, np.nan]], dtype=object), (0, 1), "nan"),
        ([[1, "2"]], (0, 1), "'2'"),
        ([[1, True]], (0, 1), "True"),
        ([[np.True_, 1]], (0, 0), "True"),
        ([[1, 1j]], (0, 1), "1j"),
        ([[1, Decimal(2)]], (0, 1), "Decimal"),
        ([[1, [2]]], (0, 1), "[2]"),
        (np.array([[1, b"2"]], dtype=object), (0, 1), "b'2'"),
        ([[np.ma.masked, 2]], (0, 0), "masked"),
    ],
)
def test_a_bad_cell_is_named_with_the_rule(bids, place, given):
    message = refused(bids)
    row, column = place
    assert f"row {row}, column {column} must be a number >= 0, or inf (None)" in message
    assert given in message


@pytest.mark.parametrize(
    ("bids", "words"),
    [
        ([1, 2], "rows and columns"),
        (np.ones(3), "1 dimensions"),
        (np.ones((2, 2, 2)), "3 dimensions"),
        ([[[1]]], "3 dimensions"),
        (np.float64(3), "0 dimensions"),
        (pd.Series([1, 2]), "1 dimensions"),
        ([], "rows and columns"),
        ([[]], "at least one column"),
        ([[], []], "at least one column"),
        (np.empty((3, 0)), "at least one column"),
        ([[1, 2], [3]], "row 1 differs"),
        ([[1, 2], [3, 4], [5, 6, 7]], "row 2 differs"),
        ([[1], 2], "row 1 differs"),
        ([1, [2]], "row 1 differs"),
        ([np.ones(2), np.ones(3)], "rows and columns"),
        ([np.ones((2, 2)), np.ones((2, 3))], "table of N rows and S columns"),
        (np.array([[True, False]]), "bool"),
        (np.array([["1", "2"]]), "numbers"),
        (np.array([[1j]]), "complex"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "datetime64"),
        (np.ma.array([[1.0, 2.0]], mask=[[False, True]]), "masked"),
        ([np.ma.array([1.0, 2.0], mask=[False, True])], "masked"),
        ([[10**400]], "too large"),
        ([[Q(10**400)]], "too large"),
        ("1,2", "table"),
        ([["ab"]], "must be a number"),
        (["ab", "cd"], "rows and columns"),
        (None, "table"),
        (7, "table"),
        ({"a": [1]}, "table"),
        ({1.0, 2.0}, "table"),
    ],
)
def test_what_is_no_table_of_bids_is_refused(bids, words):
    assert words in refused(bids)


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="no long doubles")
def test_a_number_beyond_all_floats_is_not_taken_for_unwilling():
    assert "too large" in refused(np.array([["1e4000"]], dtype=np.longdouble))
    assert Bids(np.array([[np.inf]], dtype=np.longdouble)).values[0, 0] == math.inf


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["", "1", "ab"]),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_nested_list_is_a_table_or_refused_in_one_line(bids):
    try:
        values = Bids(bids).values
    except InputError as error:
        message = str(error)
    else:
        message = "bids"
        assert values.shape == (len(bids), len(bids[0]))
        assert (values >= 0).all()
    assert "bid" in message
    assert "\n" not in message


# Amounts and options


@pytest.mark.parametrize("amount", [0, -1, math.nan, math.inf, -math.inf, 10**400, -(10**400)])
@pytest.mark.parametrize("rule", RULES)
def test_money_must_be_finite_and_positive(rule, amount):
    name = "threshold" if rule == "value_threshold" else "budget"
    message = one_line(InputError, lambda: RULES[rule]([[1.0]], amount))
    assert message.startswith(f"{name} must be finite and > 0, got ")


@pytest.mark.parametrize("amount", [True, "1", None, 1j, [1], Decimal(1), np.array(1.0), np.True_])
@pytest.mark.parametrize("rule", RULES)
def test_money_must_be_a_number(rule, amount):
    message = one_line(InputError, lambda: RULES[rule]([[1.0]], amount))
    assert "must be a number, got" in message


@pytest.mark.parametrize("amount", [2, 2.0, Q(2), np.float32(2), np.int64(2)])
def test_money_may_be_any_real_number(amount):
    for rule in BUDGETED.values():
        assert rule([[1.0]], amount).take_up.tolist() == [1]


@pytest.mark.parametrize("payment", ["first", "Critical", "", None, 1, ["share"]])
def test_an_unknown_payment_rule_is_refused(payment):
    for function in (budget_fair, max_min_fair):
        message = one_line(InputError, lambda f=function: f([[1.0]], 1, payment=payment))
        assert message.startswith("payment must be 'critical' or 'share', got ")


@pytest.mark.parametrize("fractional", [1, 0, None, "yes"])
def test_fractional_is_true_or_false(fractional):
    message = one_line(InputError, lambda: max_min_fair([[1.0]], 1, fractional=fractional))
    assert message.startswith("fractional must be True or False, got ")


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed):
    message = one_line(InputError, lambda: random_within_budget([[1.0]], 1, seed=seed))
    assert message.startswith("seed must be a whole number >= 0, got ")


@pytest.mark.parametrize(
    "order",
    [[[0, 1]], [[0, 1], [1, 1]], [[0, 1], [0, 2]], [[0, 1], [0.0, 1.0]], [[0, 1], [0]],
     [[0, 1], [False, True]], 5, "ab", [[0, 1], [[0], [1]]], [[0, 1], 1], [[0, 1]] * 3],
)  # fmt: skip
def test_an_order_is_a_permutation_for_each_task(order):
    bids = [[1.0, 1.0], [1.0, 1.0]]
    message = one_line(InputError, lambda: random_within_budget(bids, 9, order=order))
    assert message.startswith("order")


def test_an_order_says_who_is_asked_first():
    bids = [[0.6, 0.1], [0.5, 0.2], [None, 0.3]]
    outcome = random_within_budget(bids, 1.0, order=[[2, 1, 0], [2, 0, 1]])
    assert [rows.tolist() for rows in outcome.winners] == [[1], [2, 0]]


def test_a_drawn_order_is_one_permutation_after_the_other():
    bids = np.random.default_rng(0).uniform(0, 1, (30, 3))
    rng = np.random.default_rng(4)
    order = [rng.permutation(30) for _ in range(3)]
    drawn = random_within_budget(bids, 9, seed=4)
    given = random_within_budget(bids, 9, order=order)
    assert np.array_equal(drawn.payment, given.payment)
    assert not np.array_equal(drawn.payment, random_within_budget(bids, 9, seed=5).payment)


def test_a_posted_price_is_for_those_who_ask_strictly_less():
    outcome = value_threshold([[0.4], [0.4 - 1e-12], [None], [0.0]], 0.4)
    assert outcome.winners[0].tolist() == [3, 1]
    assert outcome.price == (0.4,)


# Names


def test_names_have_defaults():
    bids = Bids([[1, 2, 3], [4, 5, 6]])
    assert list(bids.clients) == [0, 1]
    assert bids.tasks == ("task 1", "task 2", "task 3")


def test_names_are_kept():
    bids = Bids([[1, 2], [4, 5]], clients=["anna", 7], tasks=("x", "y"))
    assert (list(bids.clients), bids.tasks) == (["anna", 7], ("x", "y"))
    outcome = budget_fair(bids, 1)
    assert outcome.bids is bids


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"clients": ["a"]}, "2 rows, but 1 clients"),
        ({"clients": ["a", "b", "c"]}, "2 rows, but 3 clients"),
        ({"tasks": ("x",)}, "2 columns, but 1 tasks"),
        ({"clients": ["a", "a"]}, "two clients are called 'a'"),
        ({"tasks": ("x", "x")}, "two tasks are called 'x'"),
        ({"clients": [["a"], ["b"]]}, "names of clients must be text or numbers"),
    ],
)
def test_names_must_fit_and_differ(names, words):
    assert words in one_line(InputError, lambda: Bids([[1, 2], [3, 4]], **names))


# Memory


def test_what_was_given_is_neither_changed_nor_shared():
    given = np.array([[1.0, -0.0], [3.0, np.inf]])
    before = given.copy()
    bids = Bids(given)
    assert not np.shares_memory(bids.values, given)
    for rule in RULES.values():
        rule(given, 2.0)
        assert np.array_equal(given, before)
        assert np.array_equal(np.signbit(given), np.signbit(before))
    given[0, 0] = 9
    assert bids.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        bids.values[0, 0] = 5


# Ranking


def check_ranking(column) -> None:
    order, inorder = rank_columns(np.array([column]))
    stable = np.argsort(column, kind="stable")
    assert np.array_equal(order[0], stable)
    assert np.array_equal(inorder[0], [*np.asarray(column)[stable], math.inf])


@settings(max_examples=200)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, math.inf]) | st.floats(0, 1), max_size=60))
def test_ranked_is_a_stable_argsort(values):
    check_ranking(np.array(values, dtype=np.float64))


@pytest.mark.parametrize("distinct", [1, 3, 1000, 10**9])
def test_ranked_on_long_arrays(distinct):
    check_ranking(np.random.default_rng(distinct).integers(0, distinct, 20_000) / 7)


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.integers(1000, 3000), st.data())
def test_ranked_where_bids_differ_in_their_last_bits_only(seed, N, data):
    rng = np.random.default_rng(seed)
    base = data.draw(st.sampled_from([5e-324, 1e-310, 1e-9, 1.0, 1e9, 1e300]))
    steps = data.draw(st.sampled_from([2, 50, 1000, 2**14, 2**40]))
    bits = np.array([base]).view(np.int64) + rng.integers(0, steps, N)
    column = bits.view(np.float64)
    column[rng.random(N) < data.draw(st.sampled_from([0.0, 0.2]))] = np.inf
    column[rng.random(N) < data.draw(st.sampled_from([0.0, 0.2]))] = 0.0
    check_ranking(column)


@given(st.integers(0, 9), st.integers(1, 4), st.integers(0, 2**32))
def test_the_t_th_smallest_bid(N, S, seed):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((N, S)) < 0.3, np.inf, rng.integers(0, 4, (N, S)) / 2)
    bids = Bids(values)
    assert bids.willing.tolist() == np.isfinite(values).sum(axis=0).tolist()
    for t in range(1, N + 3):
        columns = [[*sorted(column), math.inf, math.inf] for column in values.T.tolist()]
        assert bids.smallest(t) == [column[min(t, N + 1) - 1] for column in columns]


def test_about_equal_is_equal():
    assert at_most(3.0) == pytest.approx(3.0, rel=1.1e-9)
    assert at_most(3.0) > 3.0
    assert at_most(float(np.finfo(float).max)) == np.finfo(float).max
    assert max_min_fair([[0.1], [0.1], [0.1]], 0.3).take_up.tolist() == [3]  # 3 * 0.1 > 0.3


def test_payments_that_overflow_add_up_to_infinity():
    assert value_threshold([[0.1], [0.2], [0.3]], 1e308).spent == math.inf
    assert value_threshold([[0.1], [None]], 1e308).spent == 1e308
