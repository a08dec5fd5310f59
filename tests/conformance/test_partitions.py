"""What every partition must do, with and without overlap; a function of the user's included."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from mmfl.data import PARTITIONS, Examples
from mmfl.rng import stream

pytestmark = pytest.mark.usefixtures("imports")

CLIENTS = 12
LABELS = stream(0, "labels").integers(6, size=600)
OWNER = stream(0, "owner").permutation(600) % CLIENTS
EXAMPLES = Examples.of(LABELS, OWNER)
NEEDED = {"dirichlet": {"alpha": 0.5}, "given": {"path": "given.npy"}}
CASES = [
    {"kind": kind, **NEEDED.get(kind, {}), **choice}
    for kind, cls in sorted(PARTITIONS.table.items())
    for names in [{field.name for field in fields(cls)}]
    for choice in (
        [{"points": [10, 30], "overlap": o} for o in (False, True)]
        if "overlap" in names
        else [{}, {"points": [10, 30]}]
        if "points" in names
        else [{}]
    )
] + [{"kind": f"{__name__}:deal"}, {"kind": f"{__name__}:lend", "each": 20}]


def deal(examples, clients, rng):
    return rng.integers(-1, clients, size=len(examples))


def lend(examples, clients, rng, each):
    return [rng.child(k).choice(len(examples), each, replace=False) for k in range(clients)]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case.values())))
def partition(request, tmp_path):
    np.save(tmp_path / "given.npy", OWNER)
    return PARTITIONS.parse(request.param)


def split(partition, seed=1):
    return partition.split(EXAMPLES, CLIENTS, rng=stream(seed, "p"))


def test_shards_have_the_promised_sizes_and_no_row_twice(partition):
    shards = split(partition)
    sizes = shards.sizes(np.arange(CLIENTS))
    low, high = getattr(partition, "points", None) or (1, len(LABELS))
    for client in range(CLIENTS):
        rows = shards.shard(client)
        assert rows.dtype == np.int64
        assert len(rows) == sizes[client] == len(set(rows.tolist()))
        assert low <= len(rows) <= high
        assert rows.min() >= 0
        assert rows.max() < len(LABELS)


def test_it_knows_whether_everybody_holds_something(partition):
    shards = split(partition)
    assert shards.everybody is bool((shards.sizes(np.arange(CLIENTS)) > 0).all())


def test_sizes_can_be_asked_for_in_any_order(partition):
    shards = split(partition)
    asked = np.array([7, 0, 11, 7])
    assert shards.sizes(asked).tolist() == [len(shards.shard(k)) for k in asked.tolist()]
    assert shards.sizes(asked[:0]).tolist() == []


def test_a_row_lies_with_several_clients_only_with_overlap(partition):
    shards = split(partition)
    rows = np.concatenate([shards.shard(client) for client in range(CLIENTS)])
    repeated = len(set(rows.tolist())) < len(rows)
    lent = PARTITIONS.kind_of(partition).endswith(":lend")
    assert repeated == (getattr(partition, "overlap", False) or lent)


def test_the_same_address_gives_the_same_shards(partition):
    one, same, other = (split(partition, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.shard(3), same.shard(3))
    kind = PARTITIONS.kind_of(partition)
    fixed = kind in ("auto", "given") or (kind == "by_group" and partition.points is None)
    assert np.array_equal(one.shard(3), other.shard(3)) == fixed


def test_what_it_is_given_is_not_changed(partition):
    before = [EXAMPLES.rows.copy(), LABELS.copy(), OWNER.copy()]
    split(partition).shard(0)
    for now, then in zip((EXAMPLES.rows, EXAMPLES.labels, EXAMPLES.groups), before, strict=True):
        assert np.array_equal(now, then)


def test_it_round_trips(partition):
    assert PARTITIONS.parse(PARTITIONS.dump(partition)) == partition
