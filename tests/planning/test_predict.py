"""Plans against formulas, and the laws they keep."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.allocate import FedFair, RoundRobin, Uniform
from mmfl.errors import InputError, NoClientsError
from mmfl.experiment import RecruitmentSettings
from mmfl.market import BudgetFair, MaxMinFair, ValueThreshold
from mmfl.market.bids_io import UniformBids
from mmfl.planning import Estimate, History, Knowledge, Learning, Plan, Planning, Reach
from mmfl.planning.surrogate import Fixed
from mmfl.theory import (
    allocation_probabilities,
    expected_clients,
    expected_take_up,
    join_budget_fair,
    join_max_min,
    lowest,
    no_user_probability,
    starvation_probability,
)
from support.crowd import TASKS, Crowd, experiment
from support.helpers import one_line

HARD = {"a": 0.1, "b": 0.3, "c": 0.9}


def planned(
    made: Experiment,
    *,
    table=None,
    alphas=(),
    budgets=(),
    draws: int = 20,
    predictors=None,
    targets=None,
) -> Plan:
    """A plan for a federation that is a table of sizes."""
    N = made.clients.count
    planning = Planning(
        experiment=made,
        federation=Crowd(np.full((N, 3), 5) if table is None else np.array(table)),
        knowledge=Knowledge(
            "difficulty" if predictors is None else "runs",
            predictors or {task: Fixed(f) for task, f in HARD.items()},
        ),
        targets=targets or {},
        alphas=tuple(alphas) or (None,),
        budgets=tuple(budgets) or (None,),
        draws=draws,
    )
    return planning.summarize(planning.trials())


def pool(count: int = 12, active: float = 1.0, **changes) -> Experiment:
    base = experiment()
    clients = dataclasses.replace(base.clients, count=count, active=active)
    return dataclasses.replace(base, clients=clients, **changes)


def near(found: Estimate, truth: float) -> None:
    """Within four and a half standard errors, which are not zero."""
    assert found.error > 0
    assert found.mean == pytest.approx(truth, abs=4.5 * found.error)


@pytest.mark.parametrize("alpha", [3.0, math.inf])
def test_clients_and_starving_are_as_the_formulas_say(alpha):
    table = [[5, 5, 5]] * 4 + [[5, 5, 0]] * 3 + [[0, 5, 5]] * 2 + [[5, 0, 0]]
    holds = np.array(table) > 0
    T, m = 8, 4

    def chances(alpha: float) -> np.ndarray:
        """(K, S) each client's probabilities over the tasks that it may train."""
        p = np.zeros(holds.shape)
        for row, may in zip(p, holds, strict=True):
            row[may] = allocation_probabilities(np.array(list(HARD.values()))[may], alpha)
        return p

    made = pool(10, 0.4, allocator=FedFair(), rounds=T)
    (scenario,) = planned(made, table=table, alphas=[alpha], draws=60).scenarios
    first, later = chances(1.0), chances(alpha)  # difficulties are not known in the first round
    assert scenario.active.mean == m
    for s, task in enumerate(TASKS):
        found = scenario.tasks[task]
        near(found.clients, np.mean([expected_clients(first[:, s], m)] + (T - 1) * [
            expected_clients(later[:, s], m)]))  # fmt: skip
        near(found.starved, np.mean([starvation_probability(first[:, s], m)] + (T - 1) * [
            starvation_probability(later[:, s], m)]))  # fmt: skip


def hired(mechanism, **more) -> RecruitmentSettings:
    return RecruitmentSettings(mechanism=mechanism, bids=UniformBids(), **more)


def unit(x):
    return np.clip(x, 0.0, 1.0)


N, B = 20, 5.0
JOIN = {
    "budget_fair": (BudgetFair(B), lambda b: join_budget_fair(b, N, 3, B, unit)),
    "max_min_fair": (
        MaxMinFair(B, fractional=False),
        lambda b: join_max_min(b, N, B, unit, [unit, unit], tol=1e-3),
    ),
}


@pytest.mark.parametrize("kind", JOIN)
def test_take_up_is_as_the_joining_probability_says(kind):
    mechanism, join = JOIN[kind]
    made = pool(N, recruitment=hired(mechanism), rounds=1)
    (scenario,) = planned(made, draws=100).scenarios
    truth = expected_take_up(N, UniformBids(), join, cells=60)
    for found in scenario.tasks.values():
        assert found.take_up is not None
        near(found.take_up, truth)
    assert scenario.nobody == Estimate(0.0, 0.0)
    assert scenario.spent is not None
    assert scenario.spent.mean <= B


@pytest.mark.parametrize("kind", JOIN)
def test_the_chance_that_some_task_recruits_nobody_is_as_the_formula_says(kind):
    mechanism = dataclasses.replace(JOIN[kind][0], budget=0.2)
    made = pool(N, recruitment=hired(mechanism), rounds=1)
    (scenario,) = planned(made, draws=100).scenarios
    assert scenario.nobody is not None
    near(scenario.nobody, no_user_probability(0.2, [lowest(unit, N)] * 3, kind))
    assert 0.05 < scenario.nobody.mean < 0.95


def test_a_budget_at_which_nobody_is_recruited_does_not_stop_the_plan():
    made = pool(recruitment=hired(MaxMinFair(1.0, fractional=False)))
    plan = planned(made, budgets=[1e-9, 4.0], draws=5)
    nothing, something = plan.scenarios
    assert nothing.nobody == Estimate(1.0, 0.0)
    assert nothing.spent == Estimate(0.0, 0.0)
    for task in TASKS:
        empty = nothing.tasks[task]
        assert (empty.clients.mean, empty.starved.mean, empty.share.mean) == (0.0, 1.0, 0.0)
        assert (empty.take_up, empty.nobody) == (Estimate(0.0, 0.0), Estimate(1.0, 0.0))
        assert something.tasks[task].nobody == Estimate(0.0, 0.0)
    assert any('recruitment.empty = "stop"' in note for note in plan.notes)
    leave = dataclasses.replace(made, recruitment=hired(MaxMinFair(1.0), empty="leave_out"))
    assert planned(leave, budgets=[1e-9], draws=2).notes == ()


def test_recruited_clients_of_whom_none_is_ever_active_are_still_recruited_and_paid():
    made = pool(active=0.01, recruitment=hired(BudgetFair(2.0)))
    (scenario,) = planned(made, draws=3).scenarios
    assert scenario.active.mean == 0
    assert scenario.spent is not None
    assert scenario.spent.mean > 0
    assert all(o.take_up.mean > 0 and o.starved.mean == 1 for o in scenario.tasks.values())


def test_without_an_auction_nobody_active_is_the_experiments_mistake():
    assert "leaves no client active" in one_line(NoClientsError, lambda: planned(pool(active=0.01)))


@settings(max_examples=8)
@given(
    st.lists(st.floats(1, 6), min_size=1, max_size=3, unique=True),
    st.sampled_from(["independent", "stratified"]),
    st.integers(0, 2),
    st.floats(0.2, 1.0),
)
def test_turns_add_up_to_the_active_clients(alphas, sampling, floor, active):
    made = pool(active=active, allocator=FedFair(1.0, sampling, floor), rounds=3)
    plan = planned(made, alphas=alphas, draws=2)
    assert plan.alphas == tuple(alphas)
    for scenario in plan.scenarios:
        outlooks = scenario.tasks.values()
        assert sum(o.clients.mean for o in outlooks) == pytest.approx(round(active * 12))
        assert sum(o.share.mean for o in outlooks) == pytest.approx(1.0)
        if 3 * floor <= round(active * 12) and floor:
            assert all(o.starved.mean == 0 for o in outlooks)


def test_a_larger_alpha_sends_more_clients_to_the_hardest_task():
    plan = planned(pool(allocator=FedFair(), rounds=10), alphas=[1, 2, 5], draws=10)
    clients = [scenario.tasks["c"].clients.mean for scenario in plan.scenarios]
    assert clients == sorted(clients)
    assert clients[-1] > 2 * clients[0]


def test_a_larger_budget_recruits_and_spends_more():
    made = pool(recruitment=hired(BudgetFair(1.0)), allocator=FedFair())
    plan = planned(made, budgets=[1, 2, 4], alphas=[1, 3], draws=10)
    assert plan.budgets == (1, 2, 4)
    for alpha in (1, 3):
        cells = [plan.at(alpha, budget) for budget in (1, 2, 4)]
        assert [c.spent.mean for c in cells] == sorted(c.spent.mean for c in cells)
        assert cells[0].tasks["a"].take_up.mean < cells[2].tasks["a"].take_up.mean
        assert cells[0].tasks["a"].take_up == plan.at(1, 1).tasks["a"].take_up


def test_the_same_plan_twice_is_the_same_and_more_draws_begin_alike():
    made = pool(active=0.5, allocator=FedFair())
    few, again, many = (planned(made, alphas=[2], draws=n) for n in (3, 3, 30))
    assert few == again
    few_, many_ = few.scenarios[0].tasks["a"].clients, many.scenarios[0].tasks["a"].clients
    assert few_ != many_
    assert many_.error < 2 * few_.error


def test_if_all_tasks_are_equally_hard_alpha_makes_no_difference():
    made = pool(active=0.5, allocator=FedFair())
    predictors = {task: Fixed(1.0) for task in TASKS}
    plan = planned(made, alphas=[1, 5], predictors=predictors, draws=3)
    assert plan.scenarios[0].tasks == plan.scenarios[1].tasks


def learner(d: float) -> Learning:
    """A task whose difficulty after so many turns is (U + 1)^-d, known up to U = 100."""
    f = np.arange(2.0, 102.0) ** -d
    alone = History(np.ones(100, np.int64), f, 1 - f)
    return Learning.of([alone], bounds=(0.0, 1.0), beta=0.5)


def test_rounds_to_a_target_are_read_off_the_curve():
    made = pool(allocator=Uniform(sampling="stratified"), rounds=20)  # 4 clients for each task
    predictors = {"a": learner(0.5), "b": learner(0.1), "c": learner(0.5)}
    targets = {"a": 0.75, "b": 0.9}
    (scenario,) = planned(made, predictors=predictors, targets=targets, draws=3).scenarios
    # beta is 1/2, so a round is worth 2: (2t + 1)^-1/2 <= 1/4 from t = 8 on
    assert scenario.tasks["a"].reach == Reach(0.75, 8.0, 8.0, 8.0, 1.0, 0.0)
    assert scenario.tasks["b"].reach == Reach(0.9, math.inf, math.inf, math.inf, 0.0, 0.0)
    assert scenario.tasks["c"].reach is None
    assert scenario.tasks["a"].metric.mean == pytest.approx(1 - 41**-0.5, abs=1e-3)
    assert scenario.tasks["a"].difficulty.mean == pytest.approx(41**-0.5, abs=1e-3)
    assert scenario.tasks["a"].extrapolated == 0


def test_what_is_beyond_the_runs_is_marked_as_extrapolated():
    made = pool(allocator=Uniform(sampling="stratified"), rounds=60)
    predictors = dict.fromkeys(TASKS, learner(0.5))
    targets = {"a": 0.5, "b": 0.905}
    (scenario,) = planned(made, predictors=predictors, targets=targets, draws=2).scenarios
    assert scenario.tasks["a"].extrapolated == 1.0
    assert scenario.tasks["a"].reach.extrapolated == 0.0
    # (2t + 1)^-1/2 <= 0.095 from t = 55 on, where U = 110
    assert scenario.tasks["b"].reach.median == pytest.approx(55, abs=1)
    assert scenario.tasks["b"].reach.extrapolated == 1.0


def test_where_few_draws_reach_a_target_the_later_quantiles_are_never():
    reach = Reach.of(0.8, [3, 5, math.inf, math.inf], [False, True, True, True])
    assert (reach.low, reach.median, reach.high) == (3, 5, math.inf)
    assert (reach.reached, reach.extrapolated) == (0.5, 0.5)


def test_an_estimate_knows_its_error():
    assert Estimate.of([1.0, 2.0, 3.0]) == Estimate(2.0, pytest.approx(1 / math.sqrt(3)))
    assert math.isnan(Estimate.of([1.0]).error)
    assert math.isnan(Estimate.of([]).mean)


SIMPLE = """
rounds = 2
[clients]
count = 6
[[tasks]]
name = "a"
dataset = { kind = "synthetic", train = 60, test = 20 }
target = 0.7
[[tasks]]
name = "b"
dataset = { kind = "synthetic", train = 60, test = 20 }
"""


@pytest.fixture
def simple() -> Experiment:
    return Experiment.from_toml(SIMPLE)


def test_from_python_it_is_one_call(simple):
    plan = mmfl.plan(simple, alphas=[1, math.inf], difficulty={"a": 0.1, "b": 0.2}, draws=2)
    assert [scenario.alpha for scenario in plan.scenarios] == [1, math.inf]
    assert plan.at(math.inf, None).tasks["b"].clients.mean > 4
    data = plan.data()
    assert data["scenarios"][1]["alpha"] == "inf"
    assert data["scenarios"][0]["budget"] is None
    assert data["scenarios"][0]["tasks"]["a"]["metric"] is None


def test_with_nothing_known_it_says_that_alpha_makes_no_difference(simple):
    plan = mmfl.plan(simple, alphas=[1, 4], draws=2)
    assert plan.source == "equal"
    assert "alpha makes no difference" in plan.notes[0]
    uniform = dataclasses.replace(simple, allocator=Uniform())
    assert mmfl.plan(uniform, draws=1).notes == ()


MISTAKES = [
    ({"alphas": [0.5]}, "alpha must be greater than or equal to 1, got 0.5"),
    ({"alphas": [math.nan]}, "alpha must be greater than or equal to 1, got nan"),
    ({"budgets": [3]}, "budget: the experiment has no [recruitment], so nothing is spent"),
    ({"draws": 0}, "draws must be a whole number >= 1, got 0"),
    ({"draws": 2.5}, "draws must be a whole number >= 1, got 2.5"),
    ({"difficulty": {"a": 0.1}}, "difficulty: task 'b' is missing; every task needs one"),
    (
        {"difficulty": {"a": 0.1, "bb": 1}},
        "difficulty: no task is called 'bb'; did you mean 'b'?",
    ),
    (
        {"difficulty": {"a": 0.1, "b": -1}},
        "difficulty of task 'b' must be finite and >= 0, got -1",
    ),
    ({"beta": 0.5}, "beta applies only to the curves of runs; give a run"),
    ({"beta": 1.5, "runs": ["x"]}, "beta must be in [0, 1], got 1.5"),
    ({"targets": 0.8}, "target: only learning curves show when it is reached; give a run"),
    (
        {"runs": ["x"], "difficulty": {"a": 1, "b": 1}},
        "difficulty and runs cannot be used together: both say how hard the tasks are",
    ),
]


@pytest.mark.parametrize(("asked", "sentence"), MISTAKES)
def test_what_makes_no_sense_is_refused_in_a_sentence(simple, asked, sentence):
    assert one_line(InputError, lambda: mmfl.plan(simple, **asked)) == sentence


def test_an_axis_that_the_experiment_does_not_have_is_refused(simple):
    turns = dataclasses.replace(simple, allocator=RoundRobin())
    said = one_line(InputError, lambda: mmfl.plan(turns, alphas=[1]))
    assert said == "alpha: the allocator 'round_robin' has no alpha"
    posted = dataclasses.replace(simple, recruitment=hired(ValueThreshold(0.5)))
    said = one_line(InputError, lambda: mmfl.plan(posted, budgets=[1]))
    assert said == "budget: the mechanism 'value_threshold' has no budget"
    paid = dataclasses.replace(simple, recruitment=hired(BudgetFair(0.5)))
    said = one_line(InputError, lambda: mmfl.plan(paid, budgets=[-1]))
    assert said == "budget must be greater than 0, got -1.0"


def test_a_plan_follows_the_weights_of_tasks():
    base = pool(12, 0.5, allocator=FedFair(alpha=2.0), rounds=6)
    weights = {"a": 9.0, "b": 1.0, "c": 1.0}
    tasks = tuple(dataclasses.replace(task, weight=weights[task.name]) for task in base.tasks)
    [scenario] = planned(dataclasses.replace(base, tasks=tasks), draws=60).scenarios
    p = allocation_probabilities(list(HARD.values()), 2.0, list(weights.values()))
    first = allocation_probabilities([1.0] * 3, 2.0, list(weights.values()))  # nothing is known yet
    for share, task in zip((first + 5 * p) / 6, TASKS, strict=True):
        near(scenario.tasks[task].clients, 6 * share)
