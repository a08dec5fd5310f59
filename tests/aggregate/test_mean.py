from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmfl.aggregate import ChunkSum, Mean, partial_sums
from mmfl.params import Layout, Params
from mmfl.rng import stream
from mmfl.updates import CHUNK, Address, ClientFailure, ClientUpdate

LAYOUT = Layout((("w", (7,)),))


def result(client: int, *, failed: bool = False) -> ClientUpdate | ClientFailure:
    address = Address("run", 1, "task", client, 0)
    if failed:
        return ClientFailure(address, "raised")
    rng = stream(0, "delta", client)
    delta = Params(LAYOUT, rng.standard_normal(7).astype(np.float32))
    return ClientUpdate(address, delta, int(rng.integers(1, 500)), 1, 1.0, 1.0, 1.0)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_the_mean_is_weighted_by_data_size(failed):
    results = [result(k, failed=f) for k, f in enumerate(failed)]
    weights = Params(LAYOUT, np.arange(7, dtype=np.float32))
    after, _ = Mean().aggregate(weights, partial_sums(results), 0.5, None)
    good = [r for r in results if isinstance(r, ClientUpdate)]
    expected = weights.flat.astype(np.float64)
    if good:
        sizes = np.array([r.examples for r in good], dtype=np.float64)
        deltas = np.stack([r.delta.flat for r in good]).astype(np.float64)
        expected = expected + (sizes[:, None] * deltas).sum(0) / sizes.sum()
    assert np.allclose(after.flat, expected, rtol=1e-6, atol=1e-6)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_sums_formed_by_an_engine_give_the_bits_of_sums_formed_here(failed):
    results = [result(k, failed=f) for k, f in enumerate(failed)]
    formed = []
    for start in range(0, len(results), CHUNK):
        chunk = results[start : start + CHUNK]
        there = ChunkSum()
        for found in chunk:
            if isinstance(found, ClientUpdate):
                there.add(found)
        total = there.sum()
        bare = [_without_delta(r, total if r is chunk[-1] else None) for r in chunk]
        formed += bare
    here, there = list(partial_sums(results)), list(partial_sums(formed))
    assert [p.examples for p in here] == [p.examples for p in there]
    assert all(np.array_equal(a.total, b.total) for a, b in zip(here, there, strict=True))


def _without_delta(found, total):
    if isinstance(found, ClientFailure):
        return ClientFailure(found.address, found.reason, partial=total)
    return ClientUpdate(found.address, None, found.examples, 1, 1.0, 1.0, 1.0, partial=total)
