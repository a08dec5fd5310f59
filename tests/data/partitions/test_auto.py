"""A task that names no partition."""

from __future__ import annotations

import numpy as np

from mmfl.data import AutoPartition, Examples, Iid
from mmfl.rng import stream

LABELS = np.arange(40) % 4


def test_with_groups_a_group_is_a_client():
    owner = np.arange(40) % 5
    shards = AutoPartition().split(Examples.of(LABELS, owner), 5, rng=stream(0, "p"))
    for client in range(5):
        assert shards.shard(client).tolist() == np.flatnonzero(owner == client).tolist()


def test_without_groups_everybody_gets_a_like_share():
    ours = AutoPartition().split(Examples.of(LABELS), 5, rng=stream(0, "p"))
    iid = Iid().split(Examples.of(LABELS), 5, rng=stream(0, "p"))
    for client in range(5):
        assert ours.shard(client).tolist() == iid.shard(client).tolist()
