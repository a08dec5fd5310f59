"""A client per group: alone, in a simulated federation, and in worker processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.data import Arrays, ByGroup, Examples, Iid, Shards, Synthetic
from mmfl.errors import DataError
from mmfl.experiment import Clients, Task, simulate
from mmfl.rng import stream
from support.helpers import one_line

Ints = npt.NDArray[np.int64]
RNG = stream(0, "partition", "task")


def held(shards: Shards, clients: int) -> list[list[int]]:
    return [shards.shard(client).tolist() for client in range(clients)]


def grouped(groups: npt.ArrayLike | None) -> Examples:
    size = 6 if groups is None else len(np.asarray(groups))
    return Examples.of(np.zeros(size, np.int64), groups)


def refused(act: Callable[[], object]) -> str:
    return one_line(DataError, act)


groupings = st.lists(st.integers(0, 9), min_size=1, max_size=60).map(np.array)


@given(groupings, st.integers(0, 2**40))
def test_a_groups_number_is_its_clients(groups: Ints, seed: int) -> None:
    shards = ByGroup().split(grouped(groups), 12, rng=stream(seed, "p"))
    assert held(shards, 12) == [np.flatnonzero(groups == k).tolist() for k in range(12)]
    assert not shards.everybody


@given(groupings, st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**40))
def test_points_are_the_most_that_a_client_gets(
    groups: Ints, low: int, more: int, seed: int
) -> None:
    shards = ByGroup((low, low + more)).split(grouped(groups), 10, rng=stream(seed, "p"))
    for client, rows in enumerate(held(shards, 10)):
        whole = np.flatnonzero(groups == client)
        assert set(rows) <= set(whole.tolist())
        assert min(low, len(whole)) <= len(rows) <= low + more
        assert len(rows) == len(set(rows)) == shards.sizes(np.array([client]))[0]


def test_the_seed_chooses_among_a_groups_examples() -> None:
    groups = np.arange(400) % 4
    one, other = (
        held(ByGroup(10).split(grouped(groups), 4, rng=stream(seed, "p")), 4) for seed in (1, 2)
    )
    assert all(set(a) != set(b) for a, b in zip(one, other, strict=True))
    assert {len(rows) for rows in one} == {10}


def test_everybody_has_a_group_or_not() -> None:
    assert ByGroup().split(grouped([2, 0, 1]), 3, rng=RNG).everybody
    assert not ByGroup().split(grouped([2, 0, 2]), 3, rng=RNG).everybody


def test_clients_without_a_group_cost_nothing() -> None:
    shards = ByGroup().split(grouped([5, 10**9 - 1, 5]), 10**9, rng=RNG)
    assert shards.sizes(np.array([0, 5, 10**9 - 1])).tolist() == [0, 2, 1]
    assert shards.shard(10**9 - 1).tolist() == [1]


def test_data_without_groups_is_one_sentence() -> None:
    assert refused(lambda: ByGroup().split(grouped(None), 3, rng=RNG)) == (
        "a by_group partition needs a group number per example, and this data has none; "
        "give it an array 'groups', or use another partition"
    )


def test_more_groups_than_clients_is_one_sentence() -> None:
    assert refused(lambda: ByGroup().split(grouped([0, 57, 3]), 40, rng=RNG)) == (
        "by_group: there is a group 57, but clients.count = 40; "
        "raise clients.count to 58, or number the groups from 0"
    )


# In a federation


def arrays(count: int) -> Arrays:
    """Labels and groups only; group 3 of 5 is missing."""
    groups = np.arange(count) % 5
    groups[groups == 3] = 4
    nothing = np.zeros((0, 1), np.uint8)
    return Arrays(nothing, np.arange(count) % 4, nothing, np.arange(9) % 4, 4, groups)


def experiment_of(*partitions: Any, count: int = 5) -> Experiment:
    tasks = [Task(f"t{n}", Synthetic(), partition=p) for n, p in enumerate(partitions)]
    return Experiment(rounds=1, clients=Clients(count), tasks=tuple(tasks))


def test_a_group_is_the_same_client_in_every_task() -> None:
    data = {"t0": arrays(100), "t1": arrays(60)}
    federation = simulate(experiment_of(ByGroup(), ByGroup()), data)
    for task, one in data.items():
        for client in federation.clients:
            assert one.groups is not None
            assert set(one.groups[federation.shard(task, client)].tolist()) <= {client}
    assert federation.sizes(np.arange(5)).all(axis=1).tolist() == [True, True, True, False, True]
    able = federation.able()
    assert able is not None
    assert able.tolist() == [0, 1, 2, 4]


def test_who_has_no_group_may_train_another_task() -> None:
    data = {"t0": arrays(100), "t1": arrays(60)}
    assert simulate(experiment_of(ByGroup(), Iid()), data).able() is None


def test_the_sentence_names_the_task() -> None:
    message = refused(lambda: simulate(experiment_of(ByGroup(), count=3), {"t0": arrays(100)}))
    assert message.startswith("task 't0': by_group: there is a group 4, but clients.count = 3; ")


GROUPS = """
import numpy as np
def data():
    x = np.random.default_rng(0).normal(size=(80, 5))
    y = np.arange(80) % 3
    return {"x_train": x, "y_train": y, "x_test": x, "y_test": y, "groups": np.arange(80) % 4}
"""


@pytest.mark.parametrize("kind", ["local", "inline"])
def test_workers_see_the_groups(tmp_path: Path, monkeypatch: Any, kind: str) -> None:
    (tmp_path / "groups_of_a_user.py").write_text(GROUPS)
    monkeypatch.syspath_prepend(tmp_path)
    toml = f"""
        rounds = 1
        local.epochs = 1
        engine.kind = "{kind}"
        [clients]
        count = 6
        [[tasks]]
        name = "a"
        dataset = "groups_of_a_user:data"
        partition = "by_group"
    """
    ((_, record),) = mmfl.rounds(Experiment.from_toml(toml, allow_imports=True))
    assert record.failures == ()
    assert record.clients == {"a": 4}
