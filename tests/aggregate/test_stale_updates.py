"""Stale updates: the formula, the expected step, and what the allocator learns."""

from itertools import product

import numpy as np
import pytest

from mmfl.aggregate import ActiveClients, StaleUpdates, Unbiased
from mmfl.allocate import Lvr, StaleVr
from mmfl.exchange import Address, ClientUpdate, Layout, Params
from mmfl.rng import stream

LAYOUT = Layout((("weight", (5,)),))
SIZES = np.array([10, 30, 60, 20])
P = [0.5, 0.2, 0.9, 0.4]
ACTIVE = ActiveClients(np.arange(4), SIZES)


def deltas(t):
    return np.random.default_rng(t).normal(size=(4, 5)).astype(np.float32)


def updates(t, trains):
    for k in np.flatnonzero(trains).tolist():
        delta, address = Params(LAYOUT, deltas(t)[k]), Address("run", t, "task", k, 0)
        yield ClientUpdate(address, delta, int(SIZES[k]), 1, 1, 1, 1.0, probability=P[k])


def play(rule, turns, active=ACTIVE):
    weights, state = Params(LAYOUT, np.zeros(5, np.float32)), None
    for t, trains in enumerate(turns):
        weights, state = rule.aggregate(weights, updates(t, trains), 0.5, state, active=active)
    return weights.flat, state


def plain(turns, fixed=None):
    """The formula, client by client."""
    w, h, beta = np.zeros(5), {}, {}
    d = SIZES / SIZES.sum()
    for t, trains in enumerate(turns):
        G = deltas(t).astype(float)
        known = [b for b in beta.values() if b is not None]
        usual = sum(known) / len(known) if known else 0.0
        used = {i: usual if b is None else b for i, b in beta.items()}
        if fixed is not None:
            used = dict.fromkeys(used, fixed)
        step = sum((d[i] * used[i] * h[i] for i in h), np.zeros(5))
        for i in np.flatnonzero(trains):
            step += d[i] / P[i] * (G[i] - (used[i] * h[i] if i in h else 0))
        for i in np.flatnonzero(trains):
            beta[i] = min(1, max(0, G[i] @ h[i] / (h[i] @ h[i]))) if i in h else None
            h[i] = G[i]
        w = w + step
    return w


TURNS = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize("beta", [None, 0.0, 0.4, 1.0])
def test_it_is_the_formula(beta):
    np.testing.assert_allclose(
        play(StaleUpdates(beta=beta), TURNS)[0], plain(TURNS, beta), rtol=1e-5
    )


def test_with_beta_0_it_is_unbiased():
    np.testing.assert_array_equal(
        play(StaleUpdates(beta=0.0), TURNS)[0], play(Unbiased(), TURNS)[0]
    )


def test_the_expected_step_is_that_of_all_clients():
    before, rule = TURNS[:3], StaleUpdates()
    weights, state = play(rule, before)
    start, mean, chances = Params(LAYOUT, weights), np.zeros(5), 0.0
    for trains in product([False, True], repeat=4):
        if not any(trains):
            continue  # a task without updates is left alone
        chance = np.prod([p if b else 1 - p for p, b in zip(P, trains, strict=True)])
        after, _ = rule.aggregate(start, updates(9, trains), 0.5, state, active=ACTIVE)
        mean += chance * (after.flat - weights)
        chances += chance
    rest = play_stale_part(state)
    mean += (1 - chances) * rest
    np.testing.assert_allclose(mean, np.average(deltas(9), axis=0, weights=SIZES), rtol=1e-4)


def play_stale_part(state):
    beta = state["beta"]
    beta = np.where(np.isnan(beta), beta[~np.isnan(beta)].mean(), beta)
    d = SIZES[state["ids"]] / SIZES.sum()
    return (d * beta) @ np.array(state["updates"])


def test_only_active_clients_stand_in():
    _, state = play(StaleUpdates(beta=1.0), TURNS[:3])
    some = ActiveClients(np.array([0, 3]), SIZES[[0, 3]])
    start = Params(LAYOUT, np.zeros(5, np.float32))
    after, _ = StaleUpdates(beta=1.0).aggregate(
        start, updates(9, [0, 0, 0, 1]), 0.5, state, active=some
    )
    d = SIZES[[0, 3]] / SIZES[[0, 3]].sum()
    want = d[0] * state["updates"][0] + d[1] / P[3] * deltas(9)[3]
    np.testing.assert_allclose(after.flat, want, rtol=1e-5)


def test_the_state_of_an_earlier_round_stays_as_it_was():
    rule = StaleUpdates()
    weights, state = play(rule, TURNS[:3])
    kept = [v.copy() for v in state["updates"]], state["beta"].copy(), state["ids"].copy()
    start = Params(LAYOUT, weights)
    one, _ = rule.aggregate(start, updates(9, [1, 1, 1, 1]), 0.5, state, active=ACTIVE)
    two, _ = rule.aggregate(start, updates(9, [1, 1, 1, 1]), 0.5, state, active=ACTIVE)
    np.testing.assert_array_equal(one.flat, two.flat)
    np.testing.assert_array_equal(kept[0], state["updates"])
    np.testing.assert_array_equal(kept[1], state["beta"])


def test_the_allocator_is_told_the_news(make_view):
    _, state = play(StaleUpdates(), TURNS)
    h = {i: deltas(t)[i] for t, trains in enumerate(TURNS[:-1]) for i in np.flatnonzero(trains)}
    G = deltas(4).astype(float)
    beta = {i: min(1, max(0, G[i] @ h[i] / (h[i] @ h[i]))) for i in h}
    want = [np.linalg.norm(G[i] - beta[i] * h[i]) for i in range(4)]
    np.testing.assert_allclose(state["news"], want, rtol=1e-5)


def test_stale_vr_draws_by_the_news(make_view):
    n = 2000
    table = {"ids": np.arange(0, n, 2), "news": np.full(n // 2, 3.0)}
    plain_state = {"m": np.zeros(3)}  # of another aggregator
    view = make_view(np.ones((n, 2)), aggregation={"task00": table, "task01": plain_state})
    got, _ = StaleVr().allocate(view, None, rng=stream(1))
    assert set(np.round(got.probabilities, 6)) == {0.5}  # unknown news count as the mean
    table["news"] = np.where(np.arange(n // 2) < n // 4, 1.0, 5.0)
    got, _ = StaleVr().allocate(view, None, rng=stream(1))
    first = got.probabilities[got.tasks == 0]
    assert set(np.round(first, 6)) == {0.25, 0.5, 0.625}  # 1, 3 and 5 against the mean, 3


def test_without_its_aggregator_stale_vr_is_lvr_by_norm(make_view):
    view = make_view(np.ones((50, 3)), aggregation={"task00": None})
    one, _ = StaleVr(share=0.5).allocate(view, None, rng=stream(1))
    other, _ = Lvr(by="norm", share=0.5).allocate(view, None, rng=stream(1))
    assert list(one) == list(other)
