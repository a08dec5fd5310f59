"""What every partition must do, with and without overlap."""

from __future__ import annotations

import numpy as np
import pytest

from mmfl.data import PARTITIONS
from mmfl.data.arrays import Examples
from mmfl.rng import stream

LABELS = stream(0, "labels").integers(6, size=600)


@pytest.fixture(params=[(kind, o) for kind in sorted(PARTITIONS.table) for o in (False, True)])
def partition(request):
    kind, overlap = request.param
    return PARTITIONS.parse({"kind": kind, "points": [10, 30], "overlap": overlap})


def test_shards_have_the_promised_sizes_and_no_row_twice(partition):
    shards = partition.split(Examples.of(LABELS), 12, rng=stream(1, "p"))
    sizes = shards.sizes(np.arange(12))
    for client in range(12):
        rows = shards.shard(client)
        assert len(rows) == sizes[client] == len(set(rows.tolist()))
        assert 10 <= len(rows) <= 30
        assert rows.min() >= 0
        assert rows.max() < len(LABELS)


def test_a_row_lies_with_several_clients_only_with_overlap(partition):
    shards = partition.split(Examples.of(LABELS), 12, rng=stream(1, "p"))
    rows = np.concatenate([shards.shard(client) for client in range(12)])
    repeated = len(set(rows.tolist())) < len(rows)
    assert repeated == partition.overlap


def test_the_same_address_gives_the_same_shards(partition):
    one, same, other = (
        partition.split(Examples.of(LABELS), 12, rng=stream(s, "p")) for s in (1, 1, 2)
    )
    assert np.array_equal(one.shard(3), same.shard(3))
    assert not np.array_equal(one.shard(3), other.shard(3))


def test_labels_are_not_changed(partition):
    before = LABELS.copy()
    partition.split(Examples.of(LABELS), 12, rng=stream(1, "p")).shard(0)
    assert np.array_equal(LABELS, before)
