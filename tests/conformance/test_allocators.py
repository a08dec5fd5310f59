"""What every allocator promises, over the family's whole table."""

import copy
import dataclasses
import json
import pickle
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.allocate import (
    ALLOCATORS,
    Allocator,
    Assignments,
    EqualBounds,
    ExponentialWeights,
    FedFair,
    Foresight,
    JobQueues,
    Lvr,
    Optimus,
    Sequential,
    Slaq,
    StaleVr,
    Themis,
    Tilted,
    Ucb,
    Uniform,
    first_fault,
)
from mmfl.loop import State
from mmfl.rng import stream
from mmfl.runs.checkpoints import decode_state, encode_state

MEMBERS = [cls() for cls in ALLOCATORS.table.values()] + [
    EqualBounds(horizon=7, memory=inf),
    EqualBounds(learn=False),
    FedFair(alpha=1.0),
    FedFair(alpha=inf),
    FedFair(alpha=inf, floor=2),
    FedFair(sampling="stratified", floor=1),
    FedFair(sampling="credit"),
    Tilted(tilt=1e6, sampling="credit", floor=1),
    ExponentialWeights(rate=1e6, sampling="credit"),
    Foresight(alpha=1.0, sampling="stratified", floor=1),
    Foresight(alpha=1e3),
    JobQueues(demand=0.5, sigma=0.0),
    Lvr(by="norm", share=0.3),
    Optimus(sampling="credit", floor=0),
    Slaq(alpha=3.0, normalized=False, sampling="independent"),
    StaleVr(share=0.5),
    Themis(sampling="credit", floor=2),
    Sequential(rounds_each=2),
    Ucb(gamma=1.0),
    Uniform(sampling="stratified"),
    Uniform(floor=3),
]
WEIGHING = (ExponentialWeights, FedFair, Foresight, Tilted)
NAMES = {cls.__name__: cls for cls in ALLOCATORS.table.values()}

every = pytest.mark.parametrize("member", MEMBERS, ids=repr)


@st.composite
def views(draw):
    """Arguments of `make_view`: any eligibility, any kind of difficulty, some of the clients."""
    n, S = draw(st.integers(0, 30)), draw(st.integers(1, 6))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    eligible = numbers.random((n, S)) < draw(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
    eligible[numbers.random(n) < 0.1] = False
    difficulty = draw(
        st.sampled_from(
            [
                np.full(S, np.nan),
                np.zeros(S),
                np.full(S, 0.7),
                numbers.random(S),
                np.where(numbers.random(S) < 0.5, 0.0, numbers.random(S)),
                np.where(numbers.random(S) < 0.5, np.nan, numbers.random(S)),
                np.where(numbers.random(S) < 0.5, 5e-324, 1e308),
            ]
        )
    )
    population = n + draw(st.integers(0, 10))
    positions = np.sort(numbers.permutation(population)[:n])
    names = numbers.permutation([f"name{s}" for s in range(S)]).tolist()
    return {
        "eligible": eligible,
        "difficulty": difficulty,
        "clients": positions * 3 + 1,
        "positions": positions,
        "population": population,
        "round": draw(st.integers(1, 12)),
        "tasks": tuple(names),
    }


def store(state):
    """An allocator's state as it comes back from a checkpoint."""
    document, parts = encode_state(State.first({}, "x").replace(allocator=state))
    files = {name: make() for name, (_, make) in parts.items()}
    return decode_state(json.loads(json.dumps(document)), files.__getitem__).allocator


def same(one, other):
    """Whether two states are equal, with the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    return one == other or one != one


def arrays_of(view):
    values = (getattr(view, field.name) for field in dataclasses.fields(view))
    return [value for value in values if isinstance(value, np.ndarray)]


@every
@given(fields=views())
def test_answer_is_without_fault(make_view, member, fields):
    view = make_view(**fields)
    got, _ = member.allocate(view, None, rng=stream(1, "any"))
    assert first_fault(got, view) is None
    assert len(set(got.clients.tolist())) == len(got)
    assert got.clients.tolist() == sorted(got.clients.tolist())
    rows = np.searchsorted(view.clients, got.clients)
    assert view.eligible[rows, got.tasks].all()
    assert (got.probabilities > 0).all()
    assert got.clients.dtype.kind == got.tasks.dtype.kind == "i"
    assert got.probabilities.dtype == np.float64


@every
@settings(max_examples=15)
@given(fields=views())
def test_same_address_same_answer(make_view, member, fields):
    view = make_view(**fields)
    one, one_state = member.allocate(view, None, rng=stream(1, "same"))
    other, other_state = member.allocate(view, None, rng=stream(1, "same"))
    assert list(one) == list(other)
    assert same(one_state, other_state)


@every
@settings(max_examples=15)
@given(fields=views())
def test_view_is_not_changed(make_view, member, fields):
    view = make_view(**fields)
    before = [each.copy() for each in arrays_of(view)]
    for each in arrays_of(view):
        each.flags.writeable = False
    member.allocate(view, None, rng=stream(1, "view"))
    for array, copied in zip(arrays_of(view), before, strict=True):
        np.testing.assert_array_equal(array, copied)


@every
@settings(max_examples=15)
@given(fields=views())
def test_state_is_plain_data_that_the_next_round_takes(make_view, member, fields):
    state = None
    for t in range(1, 4):
        view = make_view(**(fields | {"round": t}))
        stored, kept = store(state), copy.deepcopy(state)
        assert same(stored, state)
        got, after = member.allocate(view, stored, rng=stream(1, "state", t))
        again, _ = member.allocate(view, state, rng=stream(1, "state", t))
        assert first_fault(got, view) is None
        assert list(got) == list(again)
        assert same(kept, state)
        state = after
    assert same(store(state), state)


@every
@given(fields=views())
def test_weights_matter_to_some_rules_alone_and_equal_ones_to_nobody(make_view, member, fields):
    view = make_view(**fields)
    odd = dataclasses.replace(view, weights=np.exp(np.arange(len(view.tasks)) - 2.0))
    alike = dataclasses.replace(view, weights=np.full(len(view.tasks), 0.3))
    plain, same, other = (
        member.allocate(v, None, rng=stream(1, "weights"))[0] for v in (view, alike, odd)
    )
    assert list(plain) == list(same)
    if not isinstance(member, WEIGHING):
        assert list(plain) == list(other)
    else:
        assert first_fault(other, odd) is None


def test_a_view_without_weights_counts_all_tasks_alike(make_view):
    assert make_view(np.ones((2, 3))).weights.tolist() == [1, 1, 1]


@every
def test_nobody_active_is_no_trouble(make_view, member):
    for S in (1, 3):
        view = make_view(np.ones((0, S)), np.ones(S), population=10)
        got, _ = member.allocate(view, None, rng=stream(0))
        assert len(got) == 0
        assert first_fault(got, view) is None


@every
def test_nobody_eligible_is_no_trouble(make_view, member):
    view = make_view(np.zeros((5, 3)), [0.1, 0.2, 0.3])
    assert len(member.allocate(view, None, rng=stream(0))[0]) == 0


@every
def test_one_client_with_one_task_gets_it_in_its_turn(make_view, member):
    rounds = [make_view([[False, True, False]], [0.1, 0.2, 0.3], round=t) for t in range(1, 13)]
    got = [list(member.allocate(view, None, rng=stream(0, view.round))[0]) for view in rounds]
    assert {task for each in got for _, task, _ in each} == {1}


@every
def test_member_is_a_frozen_value(member):
    assert isinstance(member, Allocator)
    twin = copy.deepcopy(member)
    assert twin == member
    assert hash(twin) == hash(member)
    assert pickle.loads(pickle.dumps(member)) == member
    for name in [*(field.name for field in dataclasses.fields(member)), "anything"]:
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            setattr(member, name, 1)
    assert twin == member


def test_members_differ():
    assert len(set(MEMBERS)) == len(MEMBERS)


@every
def test_member_prints_as_it_is_written(member):
    assert eval(repr(member), NAMES | {"inf": inf}) == member  # noqa: S307


@every
def test_member_survives_the_way_through_a_configuration(member):
    table = ALLOCATORS.dump(member)
    assert table["kind"] == ALLOCATORS.kind_of(member)
    assert ALLOCATORS.table[table["kind"]] is type(member)
    assert ALLOCATORS.parse(table) == member
    assert ALLOCATORS.parse(json.loads(json.dumps(table))) == member
    assert ALLOCATORS.parse(member) == member


@pytest.mark.parametrize("kind", ALLOCATORS.table)
def test_bare_kind_means_its_defaults(kind):
    assert ALLOCATORS.parse(kind) == ALLOCATORS.table[kind]()


@pytest.fixture
def view(make_view):
    eligible = [[True, False, True], [True, True, True], [False, True, False]]
    return make_view(eligible, clients=np.array([2, 5, 9]), tasks=("ant", "bee", "cat"))


def answer(clients, tasks, probabilities=None):
    p = [0.5] * len(clients) if probabilities is None else probabilities
    return Assignments(np.array(clients), np.array(tasks), np.array(p))


@pytest.mark.parametrize(
    ("clients", "tasks"),
    [([2, 5, 9], [2, 0, 1]), ([9, 2], [1, 0]), ([5], [1]), (np.zeros(0, int), np.zeros(0, int))],
)
def test_no_fault_is_found_where_there_is_none(view, clients, tasks):
    assert first_fault(answer(clients, tasks), view) is None


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (answer([2, 5], [0]), "vectors of the same length"),
        (answer([2, 5], [0, 0], [0.5]), "vectors of the same length"),
        (answer([[2], [5]], [[0], [0]], [[1.0], [1.0]]), "vectors of the same length"),
        (answer([2, 5], [0.0, 0.0]), "must be whole numbers"),
        (answer([2.0, 5.0], [0, 0]), "must be whole numbers"),
        (answer([2, 4], [0, 0]), "a client that is not active"),
        (answer([5, 10], [0, 0]), "a client that is not active"),
        (answer([-1], [0]), "a client that is not active"),
        (answer([5, 2], [3, 0]), "task number 3 does not exist"),
        (answer([5, 2], [-1, 0]), "task number -1 does not exist"),
        (answer([5, 2], [1, 1]), "client 2 was given task 'bee', which it may not train"),
        (answer([9, 5], [0, 0]), "client 9 was given task 'ant', which it may not train"),
        (answer([5, 5], [0, 1]), "more tasks than its capacity"),
        (answer([5, 5], [1, 1]), "more tasks than its capacity"),
        (answer([2, 5], [0, 0], [0.5, 1.5]), r"probability lies outside \[0, 1\]"),
        (answer([2, 5], [0, 0], [-0.1, 0.5]), r"probability lies outside \[0, 1\]"),
        (answer([2, 5], [0, 0], [np.nan, 0.5]), r"probability lies outside \[0, 1\]"),
    ],
)
def test_first_fault_names_the_broken_rule(view, broken, fault):
    with pytest.raises(ValueError, match=fault):
        raise ValueError(first_fault(broken, view))


def test_first_fault_knows_capacities_above_one(view):
    two = dataclasses.replace(view, capacity=np.array([1, 2, 1]))
    assert first_fault(answer([5, 5], [0, 1]), two) is None
    assert "same task twice" in first_fault(answer([5, 5], [1, 1]), two)
    assert "capacity" in first_fault(answer([2, 2], [0, 2]), two)


def test_first_fault_finds_a_client_where_nobody_is_active(make_view):
    nobody = make_view(np.ones((0, 2)))
    assert "not active" in first_fault(answer([1], [0]), nobody)
