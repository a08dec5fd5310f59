"""Clients that go by name: the same name is the same client in every task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mmfl.data import Arrays, content_hash, match_clients
from mmfl.data.tables import sort_names
from mmfl.errors import DataError, MmflWarning
from mmfl.experiment import Experiment, Task, simulate
from support.helpers import one_line


def arrays(*names, rows=30, **parts):
    groups = np.arange(rows) % len(names) if names else None
    x = np.arange(rows, dtype=np.float32)[:, None]
    y = np.arange(rows) % 2
    made = {"x_train": x, "y_train": y, "x_test": x, "y_test": y, "groups": groups}
    return Arrays.check("data", made | {"group_names": names or None} | parts)


def holders(federation, task, count):
    rows = [federation.shard(task, client) for client in range(count)]
    return [set((held % 3).tolist()) for held in rows]


def test_whole_numbers_are_sorted_by_number():
    assert sort_names(["10", "9", "100"]) == ("9", "10", "100")
    assert sort_names(["9" * 5000, "10"]) == ("10", "9" * 5000)
    assert sort_names(["10", "9", "b"]) == ("10", "9", "b")


def test_the_same_names_are_left_as_they_are():
    given = {"a": arrays("e", "n"), "b": arrays("e", "n"), "c": arrays()}
    assert match_clients(given) == (given, False)


def test_a_name_is_the_same_client_in_every_task():
    made, differ = match_clients({"a": arrays("e", "n", "s"), "b": arrays("n", "w"), "c": arrays()})
    assert differ
    assert made["a"].group_names == made["b"].group_names == ("e", "n", "s", "w")
    assert made["a"].groups[:3].tolist() == [0, 1, 2]
    assert made["b"].groups[:2].tolist() == [1, 3]
    assert made["c"].groups is None


@pytest.mark.parametrize("partition", ["auto", "by_group"])
def test_a_federation_matches_clients_by_name(partition):
    tasks = [
        Task(name=name, dataset="mnist_small", partition=kind)
        for name, kind in (("a", partition), ("b", partition), ("c", "iid"))
    ]
    experiment = Experiment(tasks=tasks, clients=4, rounds=1)
    data = {"a": arrays("e", "n", "s"), "b": arrays("n", "s", "w"), "c": arrays("x", "y", "z")}
    said = "not every task has the same clients; they are numbered in the order of all 4 names: e, "
    with pytest.warns(MmflWarning, match=said):
        found = simulate(experiment, data)
    assert found.names == ("e", "n", "s", "w")
    assert holders(found, "a", 4) == [{0}, {1}, {2}, set()]
    assert holders(found, "b", 4) == [set(), {0}, {1}, {2}]


def test_too_few_clients_is_one_sentence_with_the_names():
    tasks = [Task(name="a", dataset="mnist_small"), Task(name="b", dataset="mnist_small")]
    experiment = Experiment(tasks=tasks, clients=3, rounds=1)
    data = {"a": arrays("e", "n", "s"), "b": arrays("n", "w")}
    said = one_line(DataError, lambda: simulate(experiment, data))
    assert said == ("the data names 4 clients (e, n, s, w), but clients.count = 3; set it to 4")


def test_names_are_a_part_of_the_content():
    one, other = arrays("a", "b"), arrays("a", "c")
    assert content_hash(one) != content_hash(other)
    assert content_hash(replace(one, group_names=None)) == content_hash(
        replace(other, group_names=None)
    )


@pytest.mark.parametrize("names", [("a",), ("a", "a"), 3, [["a"], ["b"]]])
def test_names_that_do_not_fit_are_one_sentence(names):
    groups = np.arange(30) % 2
    said = one_line(DataError, lambda: arrays(groups=groups, group_names=names))
    assert "group_names must be 2 different names or more" in said
    assert "group_names must be" in one_line(DataError, lambda: arrays(group_names=["a"]))
