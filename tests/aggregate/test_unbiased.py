"""Weights d / p: the expected step is that of all active clients."""

from itertools import product

import numpy as np
import pytest

from mmfl.aggregate import ActiveClients, Unbiased
from mmfl.errors import EngineError
from mmfl.exchange import Address, ClientUpdate, Layout, Params

LAYOUT = Layout((("weight", (2,)),))
SIZES, P = [10, 30, 60], [0.5, 0.2, 0.9]
DELTAS = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, -1.0]], np.float32)


def update(k, probability):
    delta = Params(LAYOUT, DELTAS[k])
    address = Address("run", 1, "task", k, 0)
    return ClientUpdate(address, delta, SIZES[k], 1, 1.0, 0.5, 1.0, probability=probability)


def step(updates):
    weights = Params(LAYOUT, np.zeros(2, np.float32))
    active = ActiveClients(np.arange(3), np.array(SIZES))
    return Unbiased().aggregate(weights, iter(updates), 0.5, None, active=active)[0].flat


def test_the_expected_step_is_that_of_all_clients():
    mean = np.zeros(2)
    for trains in product([False, True], repeat=3):
        chance = np.prod([p if b else 1 - p for p, b in zip(P, trains, strict=True)])
        mean += chance * step([update(k, P[k]) for k in range(3) if trains[k]])
    full = np.average(DELTAS, axis=0, weights=SIZES)
    np.testing.assert_allclose(mean, full, rtol=1e-6)


def test_a_turn_with_probability_0_cannot_be_weighed():
    with pytest.raises(EngineError, match="client 1 has task 'task' with probability 0"):
        step([update(1, 0.0)])
