"""Momentum, Adam and Yogi at the server, against the formulas of their papers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import mmfl
from mmfl.aggregate import FedAdam, FedYogi, Mean, ServerMomentum, partial_sums
from mmfl.errors import ConfigError
from mmfl.exchange import Address, ClientUpdate, Layout, Params
from mmfl.rng import stream
from support.experiments import write_small
from support.helpers import one_line

LAYOUT = Layout((("weight", (7,)),))
SIZES = (3, 1, 6)


def flat(*address: object) -> np.ndarray:
    return stream(0, "server", *address).standard_normal(LAYOUT.size).astype(np.float32)


def updates(t: int) -> list[ClientUpdate]:
    return [
        ClientUpdate(
            Address("run", t, "task", k, 0), Params(LAYOUT, flat(t, k)), n, n, 1.0, 0.5, 1.0
        )
        for k, n in enumerate(SIZES)
    ]


def mean(t: int) -> np.ndarray:
    return sum(n * flat(t, k).astype(float) for k, n in enumerate(SIZES)) / sum(SIZES)


def follow(aggregator, rounds=5) -> np.ndarray:
    weights, state = Params(LAYOUT, flat("w")), None
    for t in range(rounds):
        weights, state = aggregator.aggregate(weights, partial_sums(updates(t)), 0.5, state)
    return weights.flat


def test_momentum_is_the_papers():
    w, v = flat("w").astype(float), np.zeros(7)
    for t in range(5):
        v = 0.8 * v + mean(t)
        w = w + 0.5 * v
    np.testing.assert_allclose(follow(ServerMomentum(0.8, lr=0.5)), w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", [FedAdam, FedYogi])
def test_adam_and_yogi_are_the_papers(rule):
    w, m, v = flat("w").astype(float), np.zeros(7), np.full(7, 0.01**2)
    for t in range(5):
        d = mean(t)
        m = 0.7 * m + 0.3 * d
        s = d**2
        v = 0.9 * v + 0.1 * s if rule is FedAdam else v - 0.1 * s * np.sign(v - s)
        w = w + 0.05 * m / (np.sqrt(v) + 0.01)
    found = follow(rule(lr=0.05, beta1=0.7, beta2=0.9, tau=0.01))
    np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)


def test_without_momentum_it_is_the_mean():
    np.testing.assert_array_equal(follow(ServerMomentum(0.0)), follow(Mean()))


@pytest.mark.parametrize("aggregator", [ServerMomentum(), FedAdam(), FedYogi()])
def test_a_round_without_updates_changes_neither_weights_nor_state(aggregator):
    weights = Params(LAYOUT, flat("w"))
    weights, state = aggregator.aggregate(weights, partial_sums(updates(0)), 0.5, None)
    same, still = aggregator.aggregate(weights, iter(()), 0.5, state)
    np.testing.assert_array_equal(same.flat, weights.flat)
    assert still is state


@pytest.mark.parametrize("kind", ["server_momentum", "fed_adam", "fed_yogi"])
def test_a_run_is_resumed_with_its_averages(kind, tmp_path):
    text = write_small("a", "b", train=40, test=10, engine='kind = "inline"')
    experiment = mmfl.Experiment.from_toml(text, sets=["rounds=4", f"aggregator.kind={kind}"])
    straight = mmfl.run(experiment, out=tmp_path / "straight")
    mmfl.run(dataclasses.replace(experiment, rounds=2), out=tmp_path / "part")
    longer = mmfl.run(experiment, out=tmp_path / "part", resume=True)
    assert longer.fingerprint == straight.fingerprint


def test_settings_are_strict():
    assert "momentum" in one_line(ConfigError, lambda: ServerMomentum(1.0))
    assert "beta2" in one_line(ConfigError, lambda: FedYogi(beta2=-0.1))
    assert "tau" in one_line(ConfigError, lambda: FedAdam(tau=0))
