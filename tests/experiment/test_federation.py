"""The simulated federation: the server's rows, the clients' rows, and the pieces of evaluations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.data import Arrays, HalfClasses, Iid, Synthetic
from mmfl.errors import DataError, EngineError
from mmfl.experiment import Clients, Evaluate, Experiment, SimulatedFederation, Task, simulate
from mmfl.experiment.federation import PIECE


def labelled(train: int, test: int = 10, classes: int = 4) -> Arrays:
    """Arrays with labels only: a federation needs no more."""
    nothing = np.zeros((0, 1), np.uint8)
    return Arrays(nothing, np.arange(train) % classes, nothing, np.arange(test) % classes, classes)


def experiment_of(*partitions: Any, count: int = 5, **changes: Any) -> Experiment:
    tasks = tuple(
        Task(f"task{number}", Synthetic(), partition=partition)
        for number, partition in enumerate(partitions)
    )
    return Experiment(rounds=1, clients=Clients(count), tasks=tasks, **changes)


def federation_of(experiment: Experiment, arrays: Arrays) -> SimulatedFederation:
    return simulate(experiment, {task.name: arrays for task in experiment.tasks})


def kept(federation: SimulatedFederation, task: str, split: Any) -> list[int]:
    pieces = range(federation.pieces(task, split))
    return [row for piece in pieces for row in federation.piece(task, split, piece).tolist()]


def given_out(federation: SimulatedFederation, task: str) -> list[int]:
    return [row for k in federation.clients for row in federation.shard(task, k).tolist()]


NOT_HELD = [("server", "test"), ("clients", "validation"), ("clients", "test")]


@given(
    st.integers(20, 300),
    st.floats(0.05, 0.7),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 2**40),
)
def test_validation_rows_are_the_servers_alone(
    train: int, validation: float, overlap: bool, points: int, seed: int
) -> None:
    partition = Iid(points if overlap else None, overlap)
    experiment = experiment_of(partition, seed=seed, validation=validation)
    federation = federation_of(experiment, labelled(train))
    mine, theirs = kept(federation, "task0", "validation"), given_out(federation, "task0")
    assert len(mine) == len(set(mine)) == round(validation * train)
    assert not set(mine) & set(theirs)
    assert set(mine) | set(theirs) <= set(range(train))
    if not overlap:
        assert sorted(mine + theirs) == list(range(train))


@pytest.mark.parametrize(("source", "split"), NOT_HELD)
def test_validation_is_held_only_if_the_server_measures_on_it(source: str, split: str) -> None:
    experiment = experiment_of(Iid(), score_source=source, score_split=split)
    federation = federation_of(experiment, labelled(100))
    assert sorted(given_out(federation, "task0")) == list(range(100))
    with pytest.raises(EngineError, match="task 'task0': the server keeps no validation data"):
        federation.pieces("task0", "validation")


def test_the_server_keeps_no_training_rows() -> None:
    with pytest.raises(EngineError, match="the server keeps no train data"):
        federation_of(experiment_of(Iid()), labelled(100)).piece("task0", "train", 0)


partitions = st.sampled_from(
    [
        Iid(),
        Iid((3, 7)),
        Iid((3, 7), True),
        HalfClasses(0.5, (3, 7)),
        HalfClasses(0.5, (3, 7), True),
    ]
)


@pytest.mark.filterwarnings("ignore:.*half_classes:mmfl.errors.MmflWarning")
@given(st.lists(partitions, min_size=1, max_size=3), st.integers(1, 8), st.integers(0, 2**40))
def test_sizes_agree_with_shards(partitions: list[Any], count: int, seed: int) -> None:
    experiment = experiment_of(*partitions, count=count, seed=seed)
    federation = federation_of(experiment, labelled(400))
    assert list(federation.clients) == list(range(count))
    assert federation.tasks == tuple(task.name for task in experiment.tasks)
    asked = np.arange(count)[::-2].copy()
    sizes = federation.sizes(asked)
    assert sizes.shape == (len(asked), len(partitions))
    assert sizes.tolist() == [
        [len(federation.shard(task, int(k))) for task in federation.tasks] for k in asked
    ]


@given(st.integers(1, 300), st.integers(1, 20))
def test_pieces_cover_the_kept_rows_once(test: int, batch_size: int) -> None:
    experiment = experiment_of(Iid(), evaluate=Evaluate(batch_size=batch_size))
    federation = federation_of(experiment, labelled(200, test))
    assert sorted(kept(federation, "task0", "test")) == list(range(test))
    for split in ("test", "validation"):
        pieces = [
            len(federation.piece("task0", split, number))
            for number in range(federation.pieces("task0", split))
        ]
        assert all(length == PIECE * batch_size for length in pieces[:-1])
        assert 0 < pieces[-1] <= PIECE * batch_size


def test_the_experiment_decides_everything() -> None:
    experiment = experiment_of(HalfClasses(points=(3, 9)), Iid(), seed=3)

    def rows(experiment: Experiment, task: str) -> list[list[int]]:
        federation = federation_of(experiment, labelled(400, 50))
        return [
            given_out(federation, task),
            kept(federation, task, "validation"),
            kept(federation, task, "test"),
        ]

    assert rows(experiment, "task0") == rows(experiment, "task0")
    other = experiment_of(HalfClasses(points=(3, 9)), Iid(), seed=4)
    for one, another in zip(rows(experiment, "task1"), rows(other, "task1"), strict=True):
        assert one != another


def test_a_tasks_rows_do_not_depend_on_the_other_tasks() -> None:
    alone = federation_of(experiment_of(Iid()), labelled(100))
    together = federation_of(experiment_of(Iid(), Iid((1, 2))), labelled(100))
    assert given_out(alone, "task0") == given_out(together, "task0")
    assert kept(alone, "task0", "validation") == kept(together, "task0", "validation")


def test_tasks_on_the_same_data_are_shared_out_differently() -> None:
    for split in ("validation", "test"):
        experiment = experiment_of(Iid(), Iid(), score_split=split)
        federation = federation_of(experiment, labelled(100))
        assert given_out(federation, "task0") != given_out(federation, "task1")


@pytest.mark.parametrize(
    ("experiment", "parts"),
    [
        (experiment_of(Iid(), Iid(points=90)), ["task 'task1': ", "450", "there are only 90"]),
        (experiment_of(Iid(), Iid(overlap=True)), ["task 'task1': ", "needs points"]),
        (experiment_of(Iid(), count=91), ["task 'task0': ", "91 clients", "90 training examples"]),
        (experiment_of(Iid(), validation=1e-4), ["task 'task0': ", "0.0001", "100", "leaves 0"]),
        (experiment_of(Iid(), validation=0.9999), ["task 'task0': ", "0 for the clients"]),
    ],
)
def test_too_little_data_names_the_task(experiment: Experiment, parts: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        federation_of(experiment, labelled(100))
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("kind", [Iid, HalfClasses])
def test_a_million_clients_with_overlap(kind: type) -> None:
    experiment = experiment_of(kind(points=(10, 30), overlap=True), count=10**6)
    federation = federation_of(experiment, labelled(1000))
    assert len(federation.clients) == 10**6
    some = np.array([0, 1, 77_777, 500_000, 999_999])
    shards = [federation.shard("task0", int(client)) for client in some]
    assert federation.sizes(some).tolist() == [[len(shard)] for shard in shards]
    assert len({shard.tobytes() for shard in shards}) == 5


class Every:
    """Shards of a user's own: every third client holds so many rows."""

    everybody = False

    def __init__(self, first: int) -> None:
        self.first = first

    def sizes(self, clients: Any) -> Any:
        return np.where(clients % 3 == self.first, 2, 0)

    def shard(self, client: int) -> Any:
        return np.arange(2 if client % 3 == self.first else 0)


@pytest.mark.parametrize("count", [1, 5, 200_000])
def test_shards_of_ones_own_are_asked_who_holds_anything(count: int) -> None:
    federation = federation_of(experiment_of(Iid((1, 1), True), Iid((1, 1), True)), labelled(20))
    parts = {
        name: dataclasses.replace(part, shards=Every(number))
        for number, (name, part) in enumerate(federation.parts.items())
    }
    own = dataclasses.replace(federation, clients=range(count), parts=parts)
    holds = own.sizes(np.arange(count)) > 0
    for task, expected in zip(("task0", "task1", None), (*holds.T, holds.any(axis=1)), strict=True):
        able = own.able(task)
        found = np.arange(count) if able is None else able
        assert found.tolist() == np.flatnonzero(expected).tolist()


@pytest.mark.filterwarnings("ignore:.*half_classes:mmfl.errors.MmflWarning")
@given(st.lists(partitions, min_size=1, max_size=3), st.integers(1, 8), st.integers(0, 2**40))
def test_those_who_are_able_hold_something(partitions: list[Any], count: int, seed: int) -> None:
    experiment = experiment_of(*partitions, count=count, seed=seed)
    federation = federation_of(experiment, labelled(400))
    holds = federation.sizes(np.arange(count)) > 0
    for task, expected in zip((*federation.tasks, None), (*holds.T, holds.any(1)), strict=True):
        able = federation.able(task)
        found = np.arange(count) if able is None else able
        assert found.tolist() == np.flatnonzero(expected).tolist()
