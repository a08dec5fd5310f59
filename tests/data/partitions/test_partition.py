"""Partitions: who holds which rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from mmfl.data import Dirichlet, Examples, HalfClasses, Iid, Shards
from mmfl.errors import DataError
from mmfl.rng import stream
from support.helpers import one_line

Labels = npt.NDArray[np.int64]
RNG = stream(0, "partition", "task")
KINDS = [Iid, HalfClasses, partial(Dirichlet, 0.3)]

labellings = st.lists(st.integers(0, 7), min_size=1, max_size=80).map(
    lambda values: np.array(values, np.int64)
)
shares = st.floats(0, 1, exclude_min=True)
alphas = st.floats(0, 1e308, exclude_min=True) | st.sampled_from([5e-324, 1e-3, 0.1, 1.0, 10.0])


def held(shards: Shards, clients: int) -> list[list[int]]:
    return [shards.shard(client).tolist() for client in range(clients)]


def sized(shards: Shards, clients: int) -> list[int]:
    return shards.sizes(np.arange(clients)).tolist()


def refused(act: Callable[[], object]) -> str:
    """The one line that says why the data cannot be shared out."""
    return one_line(DataError, act)


def classes_of(share: float, labels: Labels) -> int:
    return max(1, round(share * len(set(labels.tolist()))))


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Any, Labels, int]:
    """A partition without overlap, labels, and a number of clients."""
    labels = draw(labellings)
    clients = draw(st.integers(1, 12))
    low = draw(st.integers(1, 8))
    points = draw(st.none() | st.just((low, low + draw(st.integers(0, 5)))))
    partition = draw(
        st.just(Iid(points))
        | st.builds(HalfClasses, shares, st.just(points))
        | st.builds(Dirichlet, alphas, st.just(points))
    )
    return partition, labels, clients


@given(cuts(), st.integers(0, 2**40))
def test_a_cut_obeys_its_laws(cut: tuple[Any, Labels, int], seed: int) -> None:
    partition, labels, clients = cut
    try:
        shards = partition.split(Examples.of(labels), clients, rng=stream(seed, "p"))
    except DataError:
        reject()
    rows = held(shards, clients)
    everything = list(chain(*rows))
    assert len(set(everything)) == len(everything)
    assert set(everything) <= set(range(len(labels)))
    assert sized(shards, clients) == list(map(len, rows))
    assert shards.everybody is all(rows)
    if partition.points is None and not isinstance(partition, HalfClasses):
        assert len(everything) == len(labels)
    if partition.points is None and isinstance(partition, Iid):
        assert max(map(len, rows)) - min(map(len, rows)) <= 1
    if partition.points is not None:
        low, high = partition.points
        assert all(low <= len(mine) <= high for mine in rows)
    if isinstance(partition, HalfClasses):
        most = classes_of(partition.share, labels)
        assert all(len(set(labels[mine].tolist())) <= most for mine in rows)


@given(labellings, st.integers(1, 80), st.integers(0, 2**40))
def test_iid_shares_all_data_out_evenly_by_default(labels: Labels, clients: int, seed: int) -> None:
    clients = min(clients, len(labels))
    rows = held(Iid().split(Examples.of(labels), clients, rng=stream(seed, "p")), clients)
    assert sorted(chain(*rows)) == list(range(len(labels)))
    assert {len(mine) for mine in rows} <= {len(labels) // clients, -(-len(labels) // clients)}


@given(labellings, st.integers(0, 2**40))
def test_half_classes_with_all_classes_shares_all_data_out(labels: Labels, seed: int) -> None:
    clients = min(5, len(labels))
    shards = HalfClasses(share=1.0).split(Examples.of(labels), clients, rng=stream(seed, "p"))
    assert sorted(chain(*held(shards, clients))) == list(range(len(labels)))


@st.composite
def draws(draw: st.DrawFn) -> tuple[Any, Labels]:
    """A partition with overlap that the labels are enough for."""
    classes = draw(st.integers(1, 8))
    each = draw(st.integers(1, 10))
    labels = np.repeat(np.arange(classes) * 3, each)
    kind = draw(st.sampled_from([Iid, HalfClasses, Dirichlet]))
    share = draw(shares)
    enough = each * classes_of(share, labels) if kind is HalfClasses else len(labels)
    points = tuple(sorted(draw(st.tuples(st.integers(1, enough), st.integers(1, enough)))))
    own = {Iid: {}, HalfClasses: {"share": share}, Dirichlet: {"alpha": draw(alphas)}}[kind]
    return kind(**own, points=points, overlap=True), labels


@given(draws(), st.integers(0, 2**40))
def test_a_draw_obeys_its_laws(drawn: tuple[Any, Labels], seed: int) -> None:
    partition, labels = drawn
    shards = partition.split(Examples.of(labels), 10, rng=stream(seed, "p"))
    rows = held(shards, 10)
    low, high = partition.points
    assert sized(shards, 10) == list(map(len, rows))
    for mine in rows:
        assert low <= len(mine) <= high
        assert len(set(mine)) == len(mine)
        assert set(mine) <= set(range(len(labels)))
        if isinstance(partition, HalfClasses):
            assert len(set(labels[mine].tolist())) <= classes_of(partition.share, labels)


@given(draws(), st.integers(1, 5), st.integers(0, 2**40))
def test_with_overlap_other_clients_do_not_matter(
    drawn: tuple[Any, Labels], clients: int, seed: int
) -> None:
    partition, labels = drawn
    few = partition.split(Examples.of(labels), clients, rng=stream(seed, "p"))
    many = partition.split(Examples.of(labels), 10**9, rng=stream(seed, "p"))
    backwards = [many.shard(client).tolist() for client in reversed(range(clients))]
    assert held(few, clients) == backwards[::-1]
    assert few.sizes(np.array([clients - 1])).tolist() == sized(many, clients)[-1:]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_address_decides(kind: Callable[..., Any], overlap: bool) -> None:
    labels = np.arange(4000) % 10
    partition = kind(points=(20, 60), overlap=overlap)
    one, same, other = (
        partition.split(Examples.of(labels), 20, rng=stream(seed, "partition", "task"))
        for seed in (1, 1, 2)
    )
    assert held(one, 20) == held(same, 20)
    assert sized(one, 20) != sized(other, 20)
    assert held(one, 20) != held(other, 20)


@pytest.mark.parametrize("overlap", [False, True])
def test_sizes_reach_both_ends_of_the_range(overlap: bool) -> None:
    shards = Iid(points=(2, 4), overlap=overlap).split(
        Examples.of(np.zeros(400, np.int64)), 100, rng=RNG
    )
    assert set(sized(shards, 100)) == {2, 3, 4}


@pytest.mark.parametrize("overlap", [False, True])
def test_clients_have_different_halves_of_the_classes(overlap: bool) -> None:
    labels = np.arange(4000) % 10
    shards = HalfClasses(points=100, overlap=overlap).split(Examples.of(labels), 20, rng=RNG)
    halves = {tuple(sorted(set(labels[shards.shard(client)].tolist()))) for client in range(20)}
    assert {len(half) for half in halves} == {5}
    assert len(halves) > 10


def test_a_client_has_its_classes_in_equal_parts() -> None:
    labels = np.arange(4000) % 10
    shards = HalfClasses(points=100).split(Examples.of(labels), 20, rng=RNG)
    for client in range(20):
        assert set(np.unique(labels[shards.shard(client)], return_counts=True)[1]) == {20}


def test_iid_clients_see_all_classes() -> None:
    labels = np.repeat(np.arange(4), 250)
    shards = Iid().split(Examples.of(labels), 5, rng=RNG)
    for client in range(5):
        assert np.bincount(labels[shards.shard(client)], minlength=4).min() > 20


@pytest.mark.parametrize("client", [-1, 5])
def test_there_are_no_other_clients(client: int) -> None:
    with pytest.raises(IndexError, match=f"no client {client} among 5"):
        Iid().split(Examples.of(np.zeros(9)), 5, rng=RNG).shard(client)


def test_one_number_of_points_is_a_range_of_one() -> None:
    assert Iid(7) == Iid([7, 7])
    assert Iid(7).points == (7, 7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "clients", "parts"),
    [
        ({}, 21, ["21 clients", "20 training examples", "overlap"]),
        ({"points": 6}, 4, ["4 clients", "6 points each", "need 24", "there are only 20"]),
        ({"points": [6, 9]}, 4, ["6 to 9 points need at least 24", "there are only 20"]),
        ({"points": [1, 90]}, 20, ["20 clients", "1 to 90 points", "there are only 20"]),
        ({"overlap": True}, 2, ["overlap = true needs points"]),
        ({"points": [1, 21], "overlap": True}, 2, ["points up to 21 exceed"]),
    ],
)
def test_too_little_data_is_one_sentence(
    kind: Callable[..., Any], settings: dict[str, Any], clients: int, parts: list[str]
) -> None:
    labels = np.arange(20) % 4
    message = refused(lambda: kind(**settings).split(Examples.of(labels), clients, rng=RNG))
    assert [part for part in parts if part not in message] == []


def test_half_classes_says_when_a_clients_classes_are_too_few() -> None:
    labels = np.array([0] * 15 + [1] * 5)
    message = refused(
        lambda: HalfClasses(points=6, overlap=True).split(Examples.of(labels), 2, rng=RNG)
    )
    assert message == (
        "points up to 6 exceed the 5 examples that a client with 1 of the 2 classes can draw from"
    )
    message = refused(lambda: HalfClasses(points=10).split(Examples.of(labels), 2, rng=RNG))
    assert message == (
        "client 1 needs 10 examples of 1 of the 2 classes, but only 5 are left; "
        "lower points or clients.count, or set overlap = true"
    )


@pytest.mark.parametrize("clients", [5, 10, 40])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_half_classes_shares_out_all_classes_that_are_drawn_whatever_the_seed(
    clients: int, share: float
) -> None:
    labels = np.repeat(np.arange(10), 100)
    some = max(1, round(share * 10))
    for seed in range(20):
        shards = HalfClasses(share=share).split(Examples.of(labels), clients, rng=stream(seed, "p"))
        rows = held(shards, clients)
        everything = sorted(chain(*rows))
        assert everything == sorted(set(everything))
        assert all(len(np.unique(labels[list(mine)])) == some for mine in rows)
        drawn = set(labels[everything].tolist())
        assert everything == [row for row in range(1000) if labels[row] in drawn]
        if some == 10:
            assert len(drawn) == 10


def test_half_classes_uses_nearly_all_data_where_points_ask_for_it() -> None:
    labels = np.repeat(np.arange(10), 100)
    for seed in range(20):
        shards = HalfClasses(points=24).split(Examples.of(labels), 40, rng=stream(seed, "p"))
        assert len(set(chain(*held(shards, 40)))) == 960
