"""What bad updates can do to the aggregators that are there to withstand them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.aggregate import ClippedMean, Mean, Median, MultiKrum, TrimmedMean, norm_of, partial_sums
from mmfl.aggregate.collected import COORDINATES
from mmfl.exchange import Address, ClientUpdate, Layout, Params
from mmfl.rng import stream

SIZE = 12
LAYOUT = Layout((("w", (SIZE,)),))
ZERO = Params(LAYOUT, np.zeros(SIZE, np.float32))


def update(client, values, examples=10):
    delta = Params(Layout((("w", (len(values),)),)), np.asarray(values, np.float32))
    return ClientUpdate(Address("run", 1, "task", client, 0), delta, examples, 1, 1.0, 1.0, 1.0)


def step(aggregator, updates, start=ZERO):
    after, state = aggregator.aggregate(start, iter(updates), 0.5, None)
    assert state is None
    return after.flat - start.flat


def crowd(good, bad, seed, shift):
    """Good updates around 1, and bad ones around `shift`; in a random order."""
    rng = stream(seed, "crowd")
    values = [rng.normal(1, 0.1, SIZE) for _ in range(good)]
    values += [rng.normal(shift, 5, SIZE) for _ in range(bad)]
    order = rng.permutation(good + bad)
    return np.array(values, np.float32), [update(k, values[k]) for k in order]


crowds = (st.integers(0, 10**6), st.sampled_from([-1e4, 1e4, 100.0]))


@given(st.integers(1, 9), st.data(), *crowds)
def test_the_median_stays_among_the_good_ones_if_they_are_the_majority(good, data, seed, shift):
    bad = data.draw(st.integers(0, good - 1))
    values, updates = crowd(good, bad, seed, shift)
    found = step(Median(), updates)
    assert (values[:good].min(0) <= found).all()
    assert (found <= values[:good].max(0)).all()


@given(st.integers(3, 12), *crowds)
def test_the_trimmed_mean_stays_among_the_good_ones(n, seed, shift):
    bad = int(0.3 * n)
    values, updates = crowd(n - bad, bad, seed, shift)
    found = step(TrimmedMean(trim=0.3), updates)
    assert (values[: n - bad].min(0) <= found + 1e-6).all()
    assert (found <= values[: n - bad].max(0) + 1e-6).all()


def test_a_trimmed_mean_without_trimming_is_the_plain_mean():
    values, updates = crowd(5, 2, 0, 9.0)
    assert np.allclose(step(TrimmedMean(trim=0.0), updates), values.mean(0), atol=1e-6)


@given(st.integers(3, 12), *crowds)
def test_multi_krum_chooses_no_bad_one(n, seed, shift):
    bad = (n - 3) // 2
    values, updates = crowd(n - bad, bad, seed, shift)
    krum = MultiKrum(bad=0.49)
    f = min(int(0.49 * n), bad)
    chosen = krum.choose([u.delta.flat for u in updates])
    assert len(chosen) == n - f
    kept = [updates[k].address.client for k in chosen]
    if f == bad:
        assert max(kept) < n - bad
        assert np.allclose(step(krum, updates), values[kept].mean(0), atol=1e-5)


def test_multi_krum_of_identical_updates_and_of_few():
    same = [update(k, np.ones(SIZE)) for k in range(6)]
    assert np.allclose(step(MultiKrum(), same), 1)
    for n in (1, 2, 3):
        assert len(MultiKrum().choose([u.delta.flat for u in same[:n]])) == n


@given(st.integers(1, 9), st.integers(0, 9), st.floats(0.01, 100), *crowds)
def test_a_clipped_step_is_no_longer_than_the_limit(good, bad, limit, seed, shift):
    _, updates = crowd(good, bad, seed, shift)
    assert norm_of(step(ClippedMean(norm=limit), updates)) <= limit * 1.0001


def test_clipping_by_the_median_norm_shortens_the_long_half_only():
    updates = [update(k, np.eye(SIZE)[k] * (k + 1)) for k in range(5)]  # norms 1 to 5
    assert np.allclose(step(ClippedMean(), updates)[:5] * 5, [1, 2, 3, 3, 3])


def test_without_long_updates_clipping_is_the_mean_weighted_by_data_size():
    updates = [update(k, np.full(SIZE, k), examples=1 + k) for k in range(5)]
    expected, _ = Mean().aggregate(ZERO, partial_sums(iter(updates)), 0.5, None)
    assert np.allclose(step(ClippedMean(norm=1e6), updates), expected.flat)


def test_updates_of_nothing_but_zeros_are_no_trouble():
    updates = [update(k, np.zeros(SIZE)) for k in range(5)]
    for aggregator in (ClippedMean(), Median(), TrimmedMean(), MultiKrum()):
        assert not step(aggregator, updates).any()


@pytest.mark.parametrize("aggregator", [Median(), TrimmedMean(), MultiKrum()])
def test_blocks_of_coordinates_are_put_together(aggregator):
    size = 2 * COORDINATES + 7
    rng = stream(0, "blocks")
    values = rng.normal(0, 1, (7, size)).astype(np.float32)
    start = Params(Layout((("w", (size,)),)), np.zeros(size, np.float32))
    found = step(aggregator, [update(k, values[k]) for k in range(7)], start)
    if isinstance(aggregator, MultiKrum):
        apart = ((values[:, None].astype(np.float64) - values[None]) ** 2).sum(2)
        scores = np.sort(apart, axis=1)[:, 1:5].sum(1)  # f = 1: n - f - 2 = 4 nearest
        expected = values[np.sort(np.argsort(scores)[:6])].mean(0)
    else:
        out = {Median: 3, TrimmedMean: 1}[type(aggregator)]
        expected = np.sort(values, axis=0)[out : 7 - out].mean(0)
    assert np.allclose(found, expected, atol=1e-6)
