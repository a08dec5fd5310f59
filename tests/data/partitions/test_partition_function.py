"""A partition by a plain function of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl import Experiment
from mmfl.config import OwnFunction, imports_allowed
from mmfl.data import PARTITIONS, Arrays, ByFunction, Examples, Iid, Shards, Synthetic
from mmfl.errors import ConfigError, DataError
from mmfl.experiment import Clients, Task, simulate
from mmfl.rng import stream
from support.helpers import one_line

pytestmark = pytest.mark.usefixtures("imports")

RNG = stream(0, "partition", "task")
LABELS = np.array([0, 1, 2, 0, 1, 2])
NOTHING = np.zeros((0, 1), np.uint8)


def back(examples: Examples, clients: int, rng: object, found: Any) -> Any:
    """Returns what it is told to."""
    return found


def by_label(examples: Examples, clients: int, rng: Any, first: int = 0) -> Any:
    assert examples.labels is not None
    assert rng.random() == stream(0, "partition", "task").random()
    return (examples.labels + first) % clients


def failing(examples: Examples, clients: int, rng: object) -> Any:
    raise ZeroDivisionError("by nothing")


def split(found: Any, clients: int = 3) -> Shards:
    function = OwnFunction(f"{__name__}:back", {"found": found})
    return ByFunction(function).split(Examples.of(LABELS), clients, rng=RNG)


def held(shards: Shards, clients: int = 3) -> list[list[int]]:
    return [shards.shard(client).tolist() for client in range(clients)]


class Tensor:
    """As other libraries have them."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype)


# Calling it


@pytest.mark.parametrize("bare", [True, False])
def test_it_is_named_in_the_configuration(bare: bool) -> None:
    path = f"{__name__}:by_label"
    made = PARTITIONS.parse(path if bare else {"kind": path, "first": 1})
    shards = made.split(Examples.of(LABELS), 4, rng=stream(0, "partition", "task"))
    expected = [[0, 3], [1, 4], [2, 5], []] if bare else [[], [0, 3], [1, 4], [2, 5]]
    assert held(shards, 4) == expected
    assert not shards.everybody
    assert PARTITIONS.parse(PARTITIONS.dump(made)) == made


def test_it_may_stand_in_a_task_as_it_is() -> None:
    task = Task("a", Synthetic(), partition=by_label)
    assert task == Task("a", Synthetic(), partition=f"{__name__}:by_label")


def test_a_class_is_no_function() -> None:
    message = one_line(ConfigError, lambda: Task("a", Synthetic(), partition=Iid))
    assert message == "Task: partition must be an object such as Iid(...), got the class itself"


def test_it_is_imported_only_where_allowed() -> None:
    with imports_allowed(False), pytest.raises(Exception, match="would import code"):
        PARTITIONS.parse(f"{__name__}:by_label")


def test_its_failure_is_one_sentence() -> None:
    task = Task("a", Synthetic(), partition=failing)
    data = Arrays(NOTHING, np.arange(40) % 3, NOTHING, LABELS, 3)
    experiment = Experiment(rounds=1, clients=Clients(2), tasks=(task,))
    assert one_line(DataError, lambda: simulate(experiment, {"a": data})) == (
        "task 'a': its partition failed: ZeroDivisionError: by nothing "
        '(test_partition_function.py, line 39, in failing: raise ZeroDivisionError("by nothing"))'
    )


# What it returns


@given(st.lists(st.integers(-1, 2), min_size=6, max_size=6).filter(lambda found: max(found) >= 0))
def test_a_client_per_example(found: list[int]) -> None:
    expected = [[place for place, k in enumerate(found) if k == client] for client in range(3)]
    for form in (list, tuple, np.array, Tensor):
        shards = split(form(found))
        assert held(shards) == expected
        assert shards.everybody is all(expected)
        assert shards.sizes(np.arange(3)).tolist() == list(map(len, expected))


@given(st.lists(st.lists(st.integers(0, 5), unique=True), min_size=3, max_size=3).filter(any))
def test_a_list_of_places_per_client(found: list[list[int]]) -> None:
    for form in (list, tuple, lambda places: np.array(places, np.uint8)):
        shards = split([form(places) for places in found])
        assert held(shards) == found
        assert shards.everybody is all(found)
    assert held(split(tuple(found))) == found


def test_a_table_of_places() -> None:
    assert held(split(np.array([[0, 1], [1, 2], [5, 4]]))) == [[0, 1], [1, 2], [5, 4]]


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        ([0, 1, 2], " must return one client number per example (6), got 3"),
        (np.zeros(7, int), " must return one client number per example (6), got 7"),
        (
            [0, 1, 3, 0, 0, 0],
            ": the example at position 2 must go to a client from 0 to 2, or to nobody (-1), got 3",
        ),
        (
            np.array([0, 1, 0, 0, 0, -2]),
            ": the example at position 5 must go to a client from 0 to 2, or to nobody (-1), "
            "got -2",
        ),
        (
            [0.0, 1.0, 1.5, 0.0, 0.0, 0.0],
            ": client numbers must be a list of whole numbers, got [0.0, 1.0, 1.5, 0.0, 0.0, 0.0]",
        ),
        (
            [0, [1], 2, 0, 0, 0],
            ": client numbers must be a list of whole numbers, got [0, [1], 2, 0, 0, 0]",
        ),
        (["a"] * 6, ": client numbers must be a list of whole numbers, got ['a', 'a'"),
        ([True] * 6, ": client numbers must be a list of whole numbers, got [True, True"),
        ([-1] * 6, " gives no client any example"),
        ([[], [], []], " gives no client any example"),
        ([[0], [1]], " must return one list of positions per client (3), got 2 lists"),
        ([], " must return one list of positions per client (3), got 0 lists"),
        (np.zeros((6, 1), int), " must return one list of positions per client (3), got 6 lists"),
        ([[0], [1, 6], []], ": client 1's positions must be from 0 to 5, got 6"),
        ([[0], [1], [-1]], ": client 2's positions must be from 0 to 5, got -1"),
        ([[0], [4, 1, 4], []], ": client 1 has position 4 twice"),
        ([[0.5], [], []], ": client 0's positions must be a list of whole numbers, got [0.5]"),
        ([[0], 1, []], ": client 1's positions must be a list of whole numbers, got 1"),
        ([[0], {1, 2}, []], ": client 1's positions must be a list of whole numbers, got {1, 2}"),
        ([[[0], [1]], [], []], ": client 0's positions must be a list of whole numbers, got [[0]"),
        ([None, [], []], ": client 0's positions must be a list of whole numbers, got None"),
        (["ab", [], []], ": client numbers must be a list of whole numbers, got ['ab', [], []]"),
    ]
    + [
        (
            found,
            " must return one client number per example, or one list of positions per client, "
            f"got {found!r}",
        )
        for found in (None, 3, "012", {0: [1]}, b"abc")
    ],
)
def test_a_wrong_answer_is_one_sentence(found: Any, rule: str) -> None:
    message = one_line(DataError, lambda: split(found))
    assert message.startswith(f"partition '{__name__}:back'{rule}")
