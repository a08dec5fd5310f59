import subprocess
import sys
from math import inf, nan

import numpy as np
import pytest

from mmfl.allocate import Assignment, Assignments, FedFair, Uniform, assign
from mmfl.errors import InputError
from mmfl.rng import stream

ELIGIBLE = [[True, True, False], [False, True, True], [False, False, False], [True, True, True]]


def test_takes_lists():
    got = assign([0.5, 0.3, 0.2], [4, 7, 8, 9], ELIGIBLE, round=1, seed=0)
    assert isinstance(got, Assignments)
    assert [each.client for each in got] == [4, 7, 9]
    assert all(ELIGIBLE[[4, 7, 8, 9].index(each.client)][each.task] for each in got)


def test_lists_tuples_and_arrays_mean_the_same():
    lists = assign([0.5, 0.3, 0.2], [4, 7, 8, 9], ELIGIBLE, round=1, seed=0)
    arrays = assign(
        np.array([0.5, 0.3, 0.2], dtype=np.float32).astype(float).round(6),
        np.array([4, 7, 8, 9], dtype=np.uint16),
        np.array(ELIGIBLE),
        round=np.int64(1),
        seed=np.int32(0),
    )
    tuples = assign((0.5, 0.3, 0.2), (4, 7, 8, 9), tuple(map(tuple, ELIGIBLE)), round=1, seed=0)
    assert list(lists) == list(arrays) == list(tuples)


def test_items_are_client_task_probability():
    got = assign([0.2, 0.4, 0.6], [3], round=2, seed=5, alpha=2.0)
    (only,) = got
    assert isinstance(only, Assignment)
    assert only == got[0] == got[-1]
    assert only.client == 3
    assert only.probability == pytest.approx([1 / 6, 2 / 6, 3 / 6][only.task])
    assert [type(value) for value in only] == [int, int, float]


def test_everybody_may_train_everything_by_default():
    explicit = assign([0.1, 0.9], range(30), np.ones((30, 2), dtype=bool), round=1, seed=0)
    assert list(assign([0.1, 0.9], range(30), round=1, seed=0)) == list(explicit)


def test_same_round_and_seed_same_answer():
    def ask(round_, seed):
        return list(assign([0.1, 0.9, 0.5], range(50), round=round_, seed=seed))

    assert ask(3, 1) == ask(3, 1)
    assert ask(3, 1) != ask(4, 1)
    assert ask(3, 1) != ask(3, 2)


@pytest.mark.parametrize("sampling", ["independent", "stratified"])
def test_order_of_active_clients_does_not_matter(sampling):
    rng = np.random.default_rng(0)
    ids = rng.choice(1000, size=40, replace=False)
    eligible = rng.random((40, 3)) < 0.6
    order = np.argsort(ids)
    options = {"round": 1, "seed": 0, "sampling": sampling, "floor": 2}
    shuffled = assign([0.1, 0.9, 0.5], ids, eligible, **options)
    ascending = assign([0.1, 0.9, 0.5], ids[order], eligible[order], **options)
    assert list(shuffled) == list(ascending)
    assert shuffled.clients.tolist() == sorted(ids[eligible.any(axis=1)].tolist())
    rows = {client: row for row, client in enumerate(ids.tolist())}
    assert all(eligible[rows[client], task] for client, task, _ in shuffled)


@pytest.mark.parametrize("known", [{"tasks": 3}, {"eligible": np.ones((300, 3), dtype=bool)}])
def test_unknown_difficulty_is_uniform(known):
    got = assign(None, range(300), round=1, seed=0, alpha=inf, **known)
    assert np.unique(got.probabilities).tolist() == [1 / 3]
    assert (got.counts(3) > 60).all()
    uniform = assign([0.1, 0.2, 0.9], range(300), round=1, seed=0, alpha=1.0)
    assert list(got) == list(uniform)


def test_is_the_rule_of_the_round_loop(make_view):
    f = [0.5, 0.3, 0.2]
    view = make_view(ELIGIBLE, f, clients=np.array([4, 7, 8, 9]), round=6)
    for options in ({}, {"alpha": 1.5, "floor": 1}, {"sampling": "stratified"}):
        rule = FedFair(**options)
        expected = rule.allocate(view, None, rng=stream(2, "allocate", 6))[0]
        got = assign(f, [4, 7, 8, 9], ELIGIBLE, round=6, seed=2, **options)
        assert list(got) == list(expected)
    one = assign(f, [4, 7, 8, 9], ELIGIBLE, round=6, seed=2, alpha=1)
    uniform = Uniform().allocate(view, None, rng=stream(2, "allocate", 6))[0]
    assert list(one) == list(uniform)


def test_more_than_ten_tasks_keep_their_order(make_view):
    f = np.arange(12.0)
    view = make_view(np.ones((20, 12)), f)
    expected = FedFair().allocate(view, None, rng=stream(0, "allocate", 1))[0]
    assert list(assign(f, range(20), round=1, seed=0)) == list(expected)


def test_floor_and_sampling_are_passed_on():
    lonely = assign([1.0, 0.0], range(9), round=1, seed=0)
    assert lonely.counts(2).tolist() == [9, 0]
    assert assign([1.0, 0.0], range(9), round=1, seed=0, floor=4).counts(2).tolist() == [5, 4]
    even = assign([1.0, 1.0], range(10), round=1, seed=0, sampling="stratified")
    assert even.counts(2).tolist() == [5, 5]


@pytest.mark.parametrize("active", [[], (), np.arange(0), np.zeros(0)])
def test_nobody_active_is_an_empty_answer(active):
    got = assign([0.5, 0.5], active, round=1, seed=0, floor=1)
    assert len(got) == 0
    assert list(got) == []
    assert got.counts(2).tolist() == [0, 0]


def test_nobody_active_with_an_empty_list_of_rows():
    assert len(assign([0.5, 0.5], [], np.zeros((0, 2), dtype=bool), round=1, seed=0)) == 0


def test_arguments_are_not_changed():
    f, ids, eligible = np.array([0.5, 0.2]), np.array([9, 3]), np.array([[True, False]] * 2)
    before = [each.copy() for each in (f, ids, eligible)]
    assign(f, ids, eligible, round=1, seed=0, sampling="stratified", floor=2)
    assert all((a == b).all() for a, b in zip(before, (f, ids, eligible), strict=True))


def test_slices_are_assignments_too():
    got = assign([0.5, 0.2], range(6), round=1, seed=0)
    assert isinstance(got[1:4], Assignments)
    assert list(got[1:4]) == list(got)[1:4]
    with pytest.raises(IndexError):
        got[6]


GOOD = {"difficulty": [0.5, 0.2], "active": [1, 2], "round": 1, "seed": 0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"active": [1.0, 2.0]}, "active must be a list of client ids, whole numbers from 0"),
        ({"active": [-1, 2]}, "active must be a list of client ids"),
        ({"active": [True, False]}, "active must be a list of client ids"),
        ({"active": ["a", "b"]}, "active must be a list of client ids"),
        ({"active": [[1, 2]]}, "active must be a list of client ids"),
        ({"active": 3}, "active must be a list of client ids"),
        ({"active": [None, 1]}, "active must be a list of client ids"),
        ({"active": [2**64]}, "active must be a list of client ids"),
        ({"active": [4, 2, 4]}, "active names client 4 twice"),
        ({"difficulty": []}, "difficulty must be a non-empty vector"),
        ({"difficulty": [[0.5, 0.2]]}, "difficulty must be a non-empty vector"),
        ({"difficulty": 0.5}, "difficulty must be a non-empty vector"),
        ({"difficulty": [[0.5, 0.2]], "tasks": 2}, "difficulty must be a non-empty vector"),
        ({"difficulty": [0.5, nan]}, "difficulty must be finite and >= 0, got nan for task 1"),
        ({"difficulty": [0.5, inf]}, "difficulty must be finite and >= 0, got inf for task 1"),
        ({"difficulty": [-0.5, 1]}, "difficulty must be finite and >= 0, got -0.5 for task 0"),
        ({"difficulty": None}, "give tasks=S"),
        ({"difficulty": None, "tasks": 0}, "tasks must be a whole number >= 1, got 0"),
        (
            {"eligible": [[True, True]]},
            r"eligible must be booleans of shape \(2, 2\), got bool of shape \(1, 2\)",
        ),
        (
            {"eligible": [[True], [True]]},
            r"eligible must be booleans of shape \(2, 2\), got bool of shape \(2, 1\)",
        ),
        ({"eligible": [[1, 0], [1, 1]]}, "eligible must be booleans .* got int64"),
        ({"eligible": True}, "eligible must be booleans"),
        ({"alpha": 0.5}, "alpha must be .* got 0.5"),
        ({"alpha": nan}, "alpha must be .* got nan"),
        ({"difficulty": None, "tasks": 2, "alpha": 0.5}, "alpha must be .* got 0.5"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"seed": 1.5}, "seed must be a whole number >= 0, got 1.5"),
        ({"round": 1.5}, "got 1.5"),
        ({"round": None}, "got None"),
        ({"sampling": "systematic"}, "sampling must be .* got 'systematic'"),
        ({"floor": -1}, "floor must be .* got -1"),
        ({"floor": 0.5}, "floor must be .* got 0.5"),
    ],
)
def test_bad_input_is_one_clear_sentence(wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        assign(**(GOOD | wrong))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"difficulty": ["hard", "easy"]}, "difficulty"),
        ({"difficulty": [[0.5], [0.5, 0.2]]}, "difficulty"),
        ({"active": [[1], [1, 2]]}, "active"),
        ({"active": [2**63]}, "active"),
        ({"eligible": [[True], [True, False]]}, "eligible"),
        ({"difficulty": None, "eligible": True}, "eligible"),
        ({"difficulty": None, "tasks": -1}, "tasks"),
        ({"difficulty": None, "tasks": 1.5}, "tasks"),
        ({"alpha": "3"}, "alpha"),
    ],
)
def test_malformed_input_is_one_clear_sentence_too(wrong, field):
    with pytest.raises(InputError, match=field) as caught:
        assign(**(GOOD | wrong))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module", ["mmfl", "mmfl.allocate"])
def test_import_does_not_import_torch(module):
    code = f"import sys, {module}; print('torch' in sys.modules, '{module}' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_assign_does_not_import_torch():
    code = (
        "import sys; from mmfl.allocate import assign; "
        "assign([.5, .2], [1], round=1, seed=0); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"


def test_weights_are_those_of_the_round_loop(make_view):
    f, w = [0.5, 0.3, 0.2], [1.0, 4.0, 0.5]
    view = make_view(ELIGIBLE, f, clients=np.array([4, 7, 8, 9]), round=6, weights=np.array(w))
    expected = FedFair(alpha=2.0).allocate(view, None, rng=stream(2, "allocate", 6))[0]
    got = assign(f, [4, 7, 8, 9], ELIGIBLE, round=6, seed=2, alpha=2.0, weights=w)
    assert list(got) == list(expected)
    everybody = assign(f, [1], round=1, seed=0, alpha=2.0, weights=w)
    assert everybody.probabilities[0] == pytest.approx([0.5, 1.2, 0.1][everybody.tasks[0]] / 1.8)
    unknown = assign(None, range(99), tasks=3, round=1, seed=0, weights=w)
    assert set(unknown.probabilities.round(9)) == {round(x / 5.5, 9) for x in w}
