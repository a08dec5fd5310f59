"""The Dirichlet partition: its distribution, its limits, and what happens when classes run out."""

from __future__ import annotations

from itertools import chain
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.data import Dirichlet, Examples, Shards
from mmfl.errors import ConfigError, DataError
from mmfl.rng import stream
from support.helpers import one_line
from support.marks import slow

RNG = stream(0, "partition", "task")
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
LABELS = np.repeat(np.arange(4) * 2, (PRIOR * 2000).astype(int))
ALPHAS = [5e-324, 1e-3, 0.05, 1.0, 10.0, 1e3, 1e308]


def counted(labels: npt.NDArray[np.int64], shards: Shards, clients: int) -> npt.NDArray[np.int64]:
    """(clients, classes) examples of each class."""
    _, place = np.unique(labels, return_inverse=True)
    shares = [
        np.bincount(place[shards.shard(k)], minlength=place.max() + 1) for k in range(clients)
    ]
    return np.array(shares)


# The distribution


@pytest.mark.parametrize("alpha", [5e-324, 0.05, 1.0, 1e308, *map(slow, (1e-3, 10.0, 1e3))])
def test_counts_are_dirichlet_multinomial(alpha: float) -> None:
    n, clients = 100, 2000
    shards = Dirichlet(alpha, n, overlap=True).split(Examples.of(LABELS), clients, rng=RNG)
    shares = counted(LABELS, shards, clients) / n
    variance = PRIOR * (1 - PRIOR) * (1 / n + (1 - 1 / n) / (alpha + 1))
    error = np.sqrt(variance / clients)
    assert (np.abs(shares.mean(axis=0) - PRIOR) < 4 * error).all()
    assert shares.var(axis=0) == pytest.approx(variance, rel=0.2)


def test_a_large_alpha_approaches_the_prior() -> None:
    shards = Dirichlet(1e6, 1000, overlap=True).split(Examples.of(LABELS), 20, rng=RNG)
    assert counted(LABELS, shards, 20) / 1000 == pytest.approx(np.tile(PRIOR, (20, 1)), abs=0.06)
    shards = Dirichlet(1e12).split(Examples.of(LABELS), 20, rng=RNG)
    assert np.abs(counted(LABELS, shards, 20) - PRIOR * 100).max() <= 1


@pytest.mark.parametrize("alpha", [5e-324, 1e-6, 1e-3])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_small_alpha_leaves_one_class_each(alpha: float, overlap: bool) -> None:
    partition = Dirichlet(alpha, (5, 10), overlap)
    found = counted(LABELS, partition.split(Examples.of(LABELS), 60, rng=RNG), 60)
    assert np.mean((found > 0).sum(axis=1) == 1) > 0.95
    assert (found.sum(axis=0) > 0).all()


@pytest.mark.parametrize("alpha", [5e-324, 1e-3])
def test_a_small_alpha_shares_all_data_out_by_class(alpha: float) -> None:
    shards = Dirichlet(alpha).split(Examples.of(LABELS), 60, rng=RNG)
    found = counted(LABELS, shards, 60)
    assert found.sum(axis=0).tolist() == (PRIOR * 2000).tolist()
    assert np.mean((found > 0).sum(axis=1) == 1) > 0.9


def test_fewer_alpha_fewer_classes() -> None:
    kinds = []
    for alpha in (0.01, 0.5, 5.0, 100.0):
        shards = Dirichlet(alpha, 50).split(Examples.of(LABELS), 40, rng=RNG)
        kinds.append((counted(LABELS, shards, 40) > 0).sum())
    assert kinds == sorted(set(kinds))


# Running out


@given(st.sampled_from(ALPHAS), st.integers(0, 2**40))
def test_classes_that_run_out_hand_over_to_the_others(alpha: float, seed: int) -> None:
    labels = np.array([0] * 2 + [1] * 3 + [2] * 5)
    examples = Examples.of(labels)
    everything = Dirichlet(alpha, 10, overlap=True).split(examples, 3, rng=stream(seed, "p"))
    assert sorted(everything.shard(2).tolist()) == list(range(10))
    turns = Dirichlet(alpha, 2).split(examples, 5, rng=stream(seed, "p"))
    assert sorted(chain(*(turns.shard(k).tolist() for k in range(5)))) == list(range(10))


def test_a_client_has_the_same_proportions_with_overlap_and_without() -> None:
    found = [
        counted(LABELS, partition.split(Examples.of(LABELS), clients, rng=RNG), 1)[0]
        for partition, clients in [
            (Dirichlet(1.0, 300), 5),
            (Dirichlet(1.0, 300, overlap=True), 10**9),
        ]
    ]
    assert found[0].tolist() == found[1].tolist()


def test_the_first_clients_do_not_notice_those_after_them() -> None:
    few, many = (Dirichlet(0.3, (5, 20)).split(Examples.of(LABELS), k, rng=RNG) for k in (5, 50))
    assert [few.shard(k).tolist() for k in range(5)] == [many.shard(k).tolist() for k in range(5)]


def test_without_points_sizes_differ_and_a_client_may_hold_nothing() -> None:
    labels = np.repeat(np.arange(2), 10)
    emptied = 0
    for seed in range(20):
        shards = Dirichlet(0.05).split(Examples.of(labels), 20, rng=stream(seed, "p"))
        sizes = shards.sizes(np.arange(20))
        assert sizes.sum() == 20
        assert shards.everybody is bool(sizes.all())
        assert [len(shards.shard(k)) for k in range(20)] == sizes.tolist()
        emptied += not sizes.all()
    assert emptied > 0


def test_one_class_is_no_special_case() -> None:
    shards = Dirichlet(0.1).split(Examples.of(np.zeros(12, np.int64)), 4, rng=RNG)
    assert shards.sizes(np.arange(4)).tolist() == [3, 3, 3, 3]


def test_a_thousand_clients_take_no_time() -> None:
    labels = np.arange(60_000) % 10
    start = perf_counter()
    for points in (None, (10, 60)):
        Dirichlet(0.1, points).split(Examples.of(labels), 1000, rng=RNG)
    Dirichlet(0.1, 250, overlap=True).split(Examples.of(labels), 10**9, rng=RNG).shard(10**9 - 1)
    assert perf_counter() - start < 5  # here: 0.3


# Sentences


@pytest.mark.parametrize("alpha", [0, -1.0, float("inf"), float("nan"), "0.5"])
def test_alpha_must_be_a_positive_number(alpha: object) -> None:
    message = one_line(ConfigError, lambda: Dirichlet(alpha))
    assert message.startswith("Dirichlet: alpha must be ")
    assert message.endswith(f"got {alpha!r}")


def test_alpha_has_no_default() -> None:
    assert one_line(ConfigError, Dirichlet) == "Dirichlet: alpha is missing"


def test_real_targets_have_no_classes() -> None:
    examples = Examples(np.arange(5), None)
    assert one_line(DataError, lambda: Dirichlet(1.0).split(examples, 2, rng=RNG)) == (
        "a dirichlet partition needs one class number per example; use iid"
    )
