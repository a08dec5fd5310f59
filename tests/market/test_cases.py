from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest

from mmfl.market import (
    Bids,
    MaxMinFair,
    Recruitment,
    best_response,
    budget_violation,
    is_budget_feasible,
    is_individually_rational,
    max_min_fair_by_rounds,
    optimality_violation,
    rationality_violation,
)
from mmfl.market.by_rounds import rounds_of
from mmfl.market.truthfulness import responses
from mmfl.market.truthfulness.cases import COUNTER_EXAMPLES, FLAWS, THEOREM, Case, Flaw

LIES = (*THEOREM, *COUNTER_EXAMPLES)


def named(case):
    return case.name


def test_names_differ_and_statements_are_sentences():
    every = (*LIES, *FLAWS)
    assert len({case.name for case in every}) == len(every)
    assert all(case.statement.endswith(".") for case in every)


@pytest.mark.parametrize("case", LIES, ids=named)
def test_the_lie_pays_what_it_says(case: Case):
    assert case.measured_gain() == pytest.approx(case.gain)
    assert case.gain > 0
    found = best_response(case.mechanism, case.costs, case.user)
    assert found.gain >= case.gain - 1e-9
    for outcome in case.outcomes():
        assert is_budget_feasible(outcome, case.mechanism.budget)
        assert is_individually_rational(outcome)


@pytest.mark.parametrize("case", THEOREM, ids=named)
def test_the_exact_auction_says_the_same(case: Case):
    assert case.mechanism == MaxMinFair(case.mechanism.budget)  # default options
    exact = [
        max_min_fair_by_rounds(bids, case.mechanism.budget).utility(case.costs)[case.user]
        for bids in (case.costs, case.false_bids)
    ]
    assert exact[1] - exact[0] == pytest.approx(case.gain)


def place(bids: Bids, user: int, s: int) -> int:
    """In which round the client's turn comes."""
    return int((bids.values[:, s] < bids.values[user, s]).sum()) + 1


@pytest.mark.parametrize("case", THEOREM, ids=named)
def test_the_conditions_of_the_theorem_hold_in_the_rounds(case: Case):
    s, B = case.task, Q(case.mechanism.budget)
    costs, lies = Bids.of(case.costs), case.false_bids
    for column in (*costs.values.T, *lies.values.T):  # no equal bids: rounds are beyond doubt
        willing = column[np.isfinite(column)]
        assert len(set(willing.tolist())) == len(willing)
    b, lie = Q(case.costs[case.user][s]), Q(case.lie[s])
    assert lie > b
    l, t = place(costs, case.user, s), place(lies, case.user, s)  # noqa: E741
    honest = {r.t: r for r in rounds_of(costs, B)}
    false = {r.t: r for r in rounds_of(lies, B)}
    assert t in false  # the negation of a) and b): no earlier bid ends the auction
    before, after = honest[l], false[t]
    assert set(after.need) == {0, 1}  # a bidder for every task: only money can end the round
    assert lie > after.funds[s] / t  # c) g) l) p): the lie needs other tasks' money
    assert s in after.poor
    part = after.C / len(after.poor)  # C / |S_{t-1}|
    if case.name == "case 1a":
        assert l < t
        assert b < before.funds[s] / l
        assert after.A <= after.C  # d)
        assert not after.ends
    elif case.name == "case 1b":
        assert l == t
        assert b > before.funds[s] / t
        assert not before.ends
        assert after.A <= after.C  # d)
        assert not after.ends
    elif case.name == "case 2":
        assert l == t  # nobody bids between the truth and the lie
        assert b > before.funds[s] / t  # e)
        assert before.A > before.C  # f)
        assert after.A > after.C  # h)
        assert min(b, before.C / len(before.poor)) < min(lie, part)  # i)
        assert before.ends
        assert after.ends
    elif case.name == "case 3":
        assert l < t
        assert b < before.funds[s] / l  # k)
        assert after.A > after.C  # j)
        assert after.ends
        assert lie < part or part > before.funds[s] / l  # m)
    else:
        assert case.name == "case 4"
        assert l == t  # nobody bids between the truth and the lie
        assert b > before.funds[s] / t  # n)
        assert before.A <= before.C  # o)
        assert after.A > after.C  # q)
        assert after.ends
        assert b < min(part, lie)  # r)


def test_a_lie_can_cost_every_task_a_client():
    (case,) = (case for case in LIES if case.name == "elsewhere")
    before, after = case.outcomes()
    assert (before.min_take_up, after.min_take_up) == (2, 1)
    assert after.participation[case.user, case.task] == 0


def test_an_underbid_can_pay_in_another_task_only():
    (case,) = (case for case in LIES if case.name == "underbid elsewhere")
    *single, _ = responses(case.mechanism, case.costs, case.user)
    found = single[case.task]
    assert found.underbid == pytest.approx(case.gain)
    assert found.in_task == 0


def test_paying_everybody_its_threshold_exceeds_the_budget():
    (case,) = (case for case in LIES if case.name == "CE10")
    mechanism, threshold = case.mechanism, case.lie[case.task]
    both = 0.0
    for user in (0, 1):
        costs = np.array(case.costs)
        costs[user, user] = threshold
        assert mechanism.recruit(costs).participation[user, user] == 1
        costs[user, user] = threshold * 1.001
        assert mechanism.recruit(costs).participation[user, user] == 0
        both += threshold
    assert both > mechanism.budget


@pytest.mark.parametrize("flaw", FLAWS, ids=named)
def test_the_printed_rule_breaks_what_the_repaired_one_keeps(flaw: Flaw):
    budget = flaw.mechanism.budget
    S = len(flaw.bids[0])
    printed = Recruitment(
        bids=Bids.of(flaw.bids),
        participation=np.array(flaw.participation),
        payment=np.array(flaw.payment),
        winners=(np.empty(0, dtype=np.int64),) * S,
        price=(None,) * S,
        fractional=(None,) * S,
    )
    repaired = flaw.mechanism.recruit(flaw.bids)
    broken = {
        "budget": budget_violation(printed, budget),
        "rationality": rationality_violation(printed),
        "optimality": optimality_violation(printed, budget),
    }
    if flaw.breaks == "waste":
        assert broken["budget"] is None
        assert broken["rationality"] is None
        assert printed.min_take_up < repaired.min_take_up - 0.1
    else:
        assert broken[flaw.breaks]
    assert is_budget_feasible(repaired, budget)
    assert is_individually_rational(repaired)
    if flaw.breaks == "optimality":
        assert optimality_violation(repaired, budget) is None


def test_the_printed_figures_of_the_specification():
    outcome = {flaw.name: flaw.mechanism.recruit(flaw.bids) for flaw in FLAWS}
    paid = {flaw.name: float(np.sum(flaw.payment)) for flaw in FLAWS}
    assert [paid[name] for name in ("CE2", "CE3", "CE5")] == pytest.approx([1.5, 1.5, 2.6])
    assert outcome["CE1b"].take_up == pytest.approx([2])
    assert outcome["CE8"].participation[0, 1] == pytest.approx(0.8 / 0.9)
    assert outcome["CE9"].participation[1, 3] == pytest.approx(1.4 / 3)
    assert outcome["CE11"].participation[0, 1] == pytest.approx(0.72)
    assert outcome["CE11"].payment[0, 1] == pytest.approx(1.8)
    assert outcome["CE11"].utility(outcome["CE11"].bids) == pytest.approx([0.0])
