import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import RoundRobin, Sequential
from mmfl.errors import ConfigError
from mmfl.rng import stream


def tasks_of(rule, view):
    got = rule.allocate(view, None, rng=stream(0, view.round))[0]
    assert (got.probabilities == 1).all()
    return dict(zip(got.clients.tolist(), got.tasks.tolist(), strict=True))


def everybody(n, S):
    return np.ones((n, S), dtype=bool)


@st.composite
def tables(draw):
    n, S = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    bits = draw(st.integers(0, 2 ** (n * S) - 1))
    return np.array([bits >> i & 1 for i in range(n * S)], dtype=bool).reshape(n, S)


def test_round_robin_starts_in_contiguous_blocks(make_view):
    got = tasks_of(RoundRobin(), make_view(everybody(6, 3)))
    assert got == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}


@given(st.integers(1, 40), st.integers(1, 6))
def test_blocks_differ_by_one_client_at_most(make_view, K, S):
    task = list(tasks_of(RoundRobin(), make_view(everybody(K, S))).values())
    assert task == sorted(task)
    sizes = np.bincount(task, minlength=S)
    assert sizes.max() - sizes.min() <= 1


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 30))
def test_every_client_moves_on_by_one_each_round(make_view, K, S, t):
    now = tasks_of(RoundRobin(), make_view(everybody(K, S), round=t))
    then = tasks_of(RoundRobin(), make_view(everybody(K, S), round=t + 1))
    assert then == {client: (task + 1) % S for client, task in now.items()}


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 30))
def test_as_many_rounds_as_tasks_visit_every_task_once(make_view, K, S, t):
    turns = [tasks_of(RoundRobin(), make_view(everybody(K, S), round=u)) for u in range(t, t + S)]
    for client in range(K):
        assert sorted(turn[client] for turn in turns) == list(range(S))


@given(tables(), st.integers(1, 12))
def test_ineligible_turn_goes_to_the_next_eligible_task(make_view, eligible, t):
    n, S = eligible.shape
    plan = tasks_of(RoundRobin(), make_view(everybody(n, S), round=t))
    expected = {}
    for client, task in plan.items():
        ahead = [(task + step) % S for step in range(S)]
        open_ahead = [s for s in ahead if eligible[client, s]]
        if open_ahead:
            expected[client] = open_ahead[0]
    assert tasks_of(RoundRobin(), make_view(eligible, round=t)) == expected


def test_ineligible_turn_wraps_around_the_last_task(make_view):
    eligible = [[True, False, False], [True, True, False], [False, True, False]]
    got = tasks_of(RoundRobin(), make_view(eligible, round=2))
    assert got == {0: 0, 1: 0, 2: 1}


@given(st.integers(2, 30), st.integers(1, 6), st.data())
def test_round_robin_block_is_a_place_in_the_whole_population(make_view, K, S, data):
    places = data.draw(st.lists(st.integers(0, K - 1), min_size=1, unique=True).map(sorted))
    all_ids = np.arange(K) * 7 + 3
    everyone = tasks_of(RoundRobin(), make_view(everybody(K, S), round=5, clients=all_ids))
    active = make_view(
        everybody(len(places), S),
        round=5,
        clients=all_ids[places],
        positions=np.array(places),
        population=K,
    )
    got = tasks_of(RoundRobin(), active)
    assert got == {client: everyone[client] for client in all_ids[places].tolist()}


def test_sequential_trains_one_task_after_another(make_view):
    seen = [tasks_of(Sequential(), make_view(everybody(2, 3), round=t)) for t in range(1, 13)]
    assert seen == [{0: s, 1: s} for s in [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]]


@given(st.integers(1, 40), st.integers(1, 6))
def test_sequential_shares_the_planned_rounds_evenly(make_view, rounds, S):
    views = [make_view(everybody(1, S), round=t, rounds=rounds) for t in range(1, rounds + 1)]
    seen = [tasks_of(Sequential(), view)[0] for view in views]
    assert seen == sorted(seen)
    turns = np.bincount(seen, minlength=S)
    assert turns.max() - turns.min() <= 1


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 60))
def test_sequential_rounds_each_then_from_the_start_again(make_view, each, S, t):
    got = tasks_of(Sequential(rounds_each=each), make_view(everybody(3, S), round=t))
    cycle = np.repeat(np.arange(S), each).tolist()
    assert set(got.values()) == {cycle[(t - 1) % len(cycle)]}


@given(tables(), st.integers(1, 12))
def test_sequential_rests_those_who_may_not_train_the_task(make_view, eligible, t):
    S = eligible.shape[1]
    task = (t - 1) % S
    got = tasks_of(Sequential(rounds_each=1), make_view(eligible, round=t))
    assert got == dict.fromkeys(np.flatnonzero(eligible[:, task]).tolist(), task)


@pytest.mark.parametrize("rounds_each", [0, -1, 1.5, "2", True])
def test_sequential_rounds_each_is_a_count(rounds_each):
    with pytest.raises(ConfigError, match=r"Sequential: rounds_each must be .* got"):
        Sequential(rounds_each=rounds_each)


def test_round_robin_takes_no_values():
    with pytest.raises(ConfigError, match="RoundRobin"):
        RoundRobin(1)
