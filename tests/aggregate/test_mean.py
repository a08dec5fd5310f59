from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.aggregate import ChunkSum, Mean, partial_sums
from mmfl.exchange import CHUNK, Address, ClientFailure, ClientUpdate, Layout, Params, PartialSum
from mmfl.rng import stream

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


def test_the_mean_has_the_bits_of_sums_that_begin_with_zero():
    minus = np.array([-0.0, -0.0, 1.0, -1.0, 1e-30, 3.0, -0.0])
    weights = Params(LAYOUT, np.array([-0.0, 0.0, -1 / 3, 1 / 3, 0.1, 1e7, 5.0], np.float32))
    for count in (1, 2, 3):
        expected = np.zeros(7)
        for _ in range(count):
            expected += minus
        expected = (expected / (3 * count) + weights.flat).astype(np.float32)
        parts = iter([PartialSum(minus.copy(), 3) for _ in range(count)])
        after, _ = Mean().aggregate(weights, parts, 0.5, None)
        assert after.flat.tobytes() == expected.tobytes()


def test_a_sum_that_an_aggregator_took_or_released_cannot_be_read_any_more():
    parts = [PartialSum(np.ones(7), 1), PartialSum(np.ones(7), 1)]
    Mean().aggregate(Params(LAYOUT, np.zeros(7, np.float32)), parts, 0.5, None)
    for part in parts:
        with pytest.raises(ValueError, match="was taken or released"):
            _ = part.total


def test_sums_that_are_kept_are_not_overwritten_and_released_memory_is_used_again():
    results = [result(k) for k in range(4 * CHUNK)]
    kept = list(partial_sums(results))
    addresses = []
    for number, part in enumerate(partial_sums(results)):
        assert part.total.tobytes() == kept[number].total.tobytes()
        addresses.append(part.total.ctypes.data)
        part.release()
    assert len(set(addresses)) == 1


def _without_delta(found, total):
    if isinstance(found, ClientFailure):
        return ClientFailure(found.address, found.reason, partial=total)
    return ClientUpdate(found.address, None, found.examples, 1, 1.0, 1.0, 1.0, partial=total)
