"""What every aggregator must do."""

from __future__ import annotations

import numpy as np
import pytest

from mmfl.aggregate import AGGREGATORS, WANTS, ActiveClients, Aggregator, partial_sums, wanted_by
from mmfl.exchange import Address, ClientFailure, ClientUpdate, Layout, Params
from mmfl.rng import stream

LAYOUT = Layout((("weight", (3, 4)), ("bias", (3,))))


@pytest.fixture(params=sorted(AGGREGATORS.table))
def aggregator(request) -> Aggregator:
    return AGGREGATORS.parse(request.param)


def params(*address) -> Params:
    values = stream(0, "weights", *address).standard_normal(LAYOUT.size)
    return Params(LAYOUT, values.astype(np.float32))


def update(client: int, delta: Params, examples: int = 10) -> ClientUpdate:
    address = Address("run", 1, "task", client, 0)
    return ClientUpdate(address, delta, examples, examples, 1.0, 0.5, 1.0)


def merged(aggregator, results):
    if aggregator.mergeable:
        return partial_sums(iter(results))
    return (result for result in results if isinstance(result, ClientUpdate))


def aggregate(aggregator, weights, results, state=None):
    told = dict.fromkeys(wanted_by(aggregator), 0.5)
    if "active" in told:
        held = {r.address.client: getattr(r, "examples", 10) for r in results}
        told["active"] = (
            ActiveClients(*map(np.array, zip(*sorted(held.items()), strict=True)))
            if held
            else ActiveClients(np.empty(0, np.int64), np.empty(0, np.int64))
        )
    after, state = aggregator.aggregate(weights, merged(aggregator, results), 0.5, state, **told)
    assert after.layout == weights.layout
    assert after.flat.dtype == np.float32
    return after, state


def test_without_updates_nothing_changes(aggregator):
    weights = params("w")
    after, _ = aggregate(aggregator, weights, [])
    assert np.array_equal(after.flat, weights.flat)


def test_failures_alone_change_nothing(aggregator):
    weights = params("w")
    failures = [ClientFailure(Address("run", 1, "task", k, 0), "raised") for k in range(9)]
    after, _ = aggregate(aggregator, weights, failures)
    assert np.array_equal(after.flat, weights.flat)


def test_arguments_are_not_changed_and_the_result_has_memory_of_its_own(aggregator):
    weights, delta = params("w"), params("d")
    before = weights.flat.copy(), delta.flat.copy()
    after, _ = aggregate(aggregator, weights, [update(k, delta) for k in range(5)])
    after.flat[:] = 0
    assert np.array_equal(weights.flat, before[0])
    assert np.array_equal(delta.flat, before[1])


def test_it_wants_what_there_is(aggregator):
    assert set(wanted_by(aggregator)) <= set(WANTS)


def test_clients_that_agree_are_followed(aggregator):
    weights, delta = params("w"), params("d")
    after, _ = aggregate(aggregator, weights, [update(k, delta) for k in range(11)])
    step = after.flat - weights.flat
    if AGGREGATORS.kind_of(aggregator) in ("fed_adam", "fed_yogi"):  # steps of their own length
        assert (step * delta.flat > 0).all()
        return
    far = 1.0
    if "loss" in wanted_by(aggregator):  # it may go only part of the way
        far = float(step.dot(delta.flat) / delta.flat.dot(delta.flat))
        assert 0 < far <= 1
    assert np.allclose(step, far * delta.flat, atol=1e-6)


def test_the_same_updates_give_the_same_bits(aggregator):
    weights = params("w")
    results = [update(k, params("d", k), examples=k + 1) for k in range(20)]
    first, _ = aggregate(aggregator, weights, results)
    second, _ = aggregate(aggregator, weights, results)
    assert np.array_equal(first.flat, second.flat)


def test_state_can_be_handed_on(aggregator):
    weights = params("w")
    results = [update(k, params("d", k)) for k in range(3)]
    after, state = aggregate(aggregator, weights, results)
    again, _ = aggregate(aggregator, after, results, state)
    assert np.isfinite(again.flat).all()
    assert not np.array_equal(again.flat, after.flat)


def test_running_statistics_are_averaged_and_take_no_steps_of_their_own(aggregator):
    """A variance that a server's momentum or Adam moves on would soon be negative."""
    layout = Layout((("weight", (4,)), ("norm.running_mean", (2,)), ("norm.running_var", (2,))))
    wanted = np.array([0.5, 0.25, 0.5, 0.25], np.float32)
    weights, state = Params(layout, np.zeros(8, np.float32)), None
    for _ in range(6):
        own = np.concatenate([np.full(4, 1e-3), 0.5 * (wanted - weights.flat[4:])])
        delta = Params(layout, own.astype(np.float32))
        results = [update(k, delta) for k in range(5)]
        weights, state = aggregate(aggregator, weights, results, state)
        assert (weights["norm.running_var"] <= wanted[2:]).all()
    np.testing.assert_allclose(weights.flat[4:], wanted, rtol=0.05)
