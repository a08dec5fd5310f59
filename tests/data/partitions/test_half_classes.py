"""Half of the classes per client: drawn at random, and repaired only where the data runs out."""

from __future__ import annotations

import warnings
from itertools import chain, combinations, pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.data import Cut, Examples, HalfClasses
from mmfl.errors import DataError, MmflWarning
from mmfl.rng import stream

MNIST = np.repeat(np.arange(10), 6000)
CLIENTS = 120  # as in the paper's Experiment 1


def split(labels, clients, seed=0, **settings):
    shards = HalfClasses(**settings).split(Examples.of(labels), clients, rng=stream(seed, "p"))
    assert isinstance(shards, Cut)
    return shards


def held(shards):
    return [shards.shard(client).tolist() for client in range(shards.clients)]


def sets(labels, shards):
    return [frozenset(labels[rows].tolist()) for rows in held(shards)]


@pytest.mark.parametrize("points", [(150, 250), None])
def test_two_clients_share_as_many_classes_as_independent_random_halves(points):
    shared = np.zeros(6)
    for seed in range(5):
        halves = sets(MNIST, split(MNIST, CLIENTS, seed, points=points))
        assert {len(half) for half in halves} == {5}
        assert len(set(halves)) > 80  # 96 of the 252 are expected
        neighbours = [len(a & b) for a, b in pairwise(halves)]
        assert 2.2 < np.mean(neighbours) < 2.8  # 2.5 are expected
        for a, b in combinations(halves, 2):
            shared[len(a & b)] += 1
    expected = np.array([comb(5, j) * comb(5, 5 - j) for j in range(6)]) / comb(10, 5)
    assert np.abs(shared / shared.sum() - expected).max() < 0.02


def test_every_class_is_drawn_alike():
    often = np.zeros(10)
    for seed in range(20):
        for half in sets(MNIST, split(MNIST, CLIENTS, seed, points=100)):
            often[list(half)] += 1
    assert np.abs(often / (20 * CLIENTS) - 0.5).max() < 0.05


def test_a_clients_classes_are_the_same_with_overlap_and_without_and_among_any_others():
    with_overlap = HalfClasses(points=200, overlap=True).split(
        Examples.of(MNIST), CLIENTS, rng=stream(0, "p")
    )
    few, many = split(MNIST, 5, points=200), split(MNIST, CLIENTS, points=200)
    alone = [frozenset(MNIST[with_overlap.shard(client)].tolist()) for client in range(CLIENTS)]
    assert sets(MNIST, many) == alone
    assert sets(MNIST, few) == alone[:5]


def test_where_there_is_enough_data_nothing_is_repaired_and_nothing_said():
    shards = split(MNIST, CLIENTS, points=(150, 250))
    assert shards.note == ""
    for rows in held(shards):
        counts = np.bincount(MNIST[rows])
        assert np.ptp(counts[counts > 0]) <= 1


def test_scarce_classes_are_used_up_without_changing_anybodys_classes():
    labels = np.repeat(np.arange(10), 100)
    plenty = np.repeat(np.arange(10), 1000)
    for seed in range(10):
        tight = split(labels, 40, seed, points=25)  # all that there is
        assert sorted(chain(*held(tight))) == list(range(1000))
        assert sets(labels, tight) == sets(plenty, split(plenty, 40, seed, points=25))
        assert tight.note == ""


def test_who_comes_first_takes_no_more_of_a_scarce_class():
    labels = np.repeat(np.arange(10), [100] + [1000] * 9)  # 60 clients hold class 0
    first = [np.count_nonzero(labels[rows] == 0) for rows in held(split(labels, 120, points=50))]
    assert sum(first) == 100
    assert set(first) <= {0, 1, 2}


@pytest.mark.parametrize("clients", [2, 4, 10])
def test_clients_whose_classes_had_to_be_changed_are_counted(clients):
    labels = np.repeat(np.arange(10), 100)
    plenty = np.repeat(np.arange(10), 10_000)
    for seed in range(10):
        settings = {"share": 0.2, "points": 900 // clients if clients > 5 else 200}
        tight = split(labels, clients, seed, **settings)
        drawn = sets(plenty, split(plenty, clients, seed, **settings))
        changed = sum(a != b for a, b in zip(sets(labels, tight), drawn, strict=True))
        said = f"{changed} of {clients} clients got classes that they did not draw"
        assert (said in tight.note) == bool(changed)
        assert "\n" not in tight.note


def test_a_class_that_nobody_drew_is_named():
    labels = np.repeat(np.arange(10), 100)
    shards = split(labels, 2, share=0.1)
    assert shards.note == "half_classes: no client holds examples of 8 of the 10 classes"


def test_more_clients_than_rows_of_a_class():
    labels = np.repeat(np.arange(4), [3, 40, 40, 40])
    shards = split(labels, 30)
    assert len(list(chain(*held(shards)))) == 123
    assert {len(half) for half in sets(labels, shards)} == {2}
    assert sum(0 in half for half in sets(labels, shards)) == 3
    assert "of 30 clients got classes that they did not draw" in shards.note
    everything = np.repeat(np.arange(4), 10)
    assert all(held(split(everything, 40)))  # one row each


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.integers(1, 12),
    st.floats(0.01, 1),
    st.integers(0, 3),
    st.integers(0, 2**40),
)
def test_scarce_data_is_shared_out_by_the_rules(supply, clients, share, slack, seed):
    labels = np.repeat(np.arange(len(supply)), supply)
    points = max(1, len(labels) // clients - slack)
    try:
        shards = split(labels, clients, seed, share=share, points=points)
    except DataError:
        reject()
    rows = held(shards)
    some = max(1, round(share * len(supply)))
    assert len(set(chain(*rows))) == clients * points
    assert all(len(half) <= some for half in sets(labels, shards))
    if "got classes that they did not draw" not in shards.note:
        assert all(len(half) == min(some, points) for half in sets(labels, shards))


EXPERIMENT = """
rounds = 1
[clients]
count = 4
[local]
steps = 1
[engine]
kind = "{engine}"
[[tasks]]
name = "scarce"
dataset = {{ kind = "synthetic", classes = 4, shape = [3], train = 100, test = 20 }}
model = {{ kind = "mlp", hidden = [2] }}
partition = {{ kind = "half_classes", share = 0.25, points = [12, 20] }}
"""


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_run_says_it_once_and_names_the_task(engine, capfd):
    experiment = Experiment.from_toml(EXPERIMENT.format(engine=engine))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(mmfl.rounds(experiment))
    said = [str(w.message) for w in caught if issubclass(w.category, MmflWarning)]
    assert len(said) == 1
    assert said[0].startswith("task 'scarce': half_classes: ")
    assert "of 4 clients got classes that they did not draw" in said[0]
    assert "half_classes" not in capfd.readouterr().err  # of the workers
