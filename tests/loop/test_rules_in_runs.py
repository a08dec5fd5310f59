"""Every allocation rule in a whole run: resumed after any round, it ends with the same bits."""

import json
from dataclasses import replace

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.aggregate import Mean, Unbiased
from mmfl.allocate import ALLOCATORS, Lvr, Uniform
from mmfl.runs.checkpoints import decode_state, encode_state

TINY = """
rounds = 4
seed = 5
clients = { count = 9, active = 0.7 }
local = { steps = 1, batch_size = 8, lr = 0.1 }
engine = { kind = "inline" }
[[tasks]]
name = "b"
target = 0.8
dataset = { kind = "synthetic", classes = 2, train = 60, test = 20 }
model = { kind = "mlp", hidden = [3] }
[[tasks]]
name = "a"
dataset = { kind = "synthetic", classes = 4, train = 80, test = 20 }
model = { kind = "mlp", hidden = [3] }
partition = { kind = "half_classes", points = [4, 8] }
[[tasks]]
name = "c"
dataset = { kind = "synthetic", classes = 3, train = 90, test = 20, noise = 2.0 }
model = { kind = "mlp", hidden = [3] }
"""

DEFAULTS = [cls() for cls in ALLOCATORS.table.values()]
CREDITS = [replace(rule, sampling="credit") for rule in DEFAULTS if hasattr(rule, "sampling")]


def load(allocator):
    aggregator = getattr(allocator, "aggregator", "mean")
    return replace(Experiment.from_toml(TINY), allocator=allocator, aggregator=aggregator)


def through_a_checkpoint(state):
    document, parts = encode_state(state)
    files = {name: make() for name, (_, make) in parts.items()}
    return decode_state(json.loads(json.dumps(document)), files.__getitem__)


@pytest.mark.parametrize("rule", DEFAULTS + CREDITS, ids=repr)
def test_resumed_after_any_round_it_ends_with_the_same_bits(rule):
    experiment = load(rule)
    straight = [state for state, _ in mmfl.rounds(experiment)]
    for state in straight[:-1]:
        resumed = [s for s, _ in mmfl.rounds(experiment, state=through_a_checkpoint(state))]
        assert resumed[-1].fingerprint == straight[-1].fingerprint


def test_the_view_tells_turns_targets_and_the_aggregators_state(monkeypatch):
    seen, allocate = [], Uniform.allocate

    def watch(self, view, state, *, rng):
        seen.append(view)
        return allocate(self, view, state, rng=rng)

    monkeypatch.setattr(Uniform, "allocate", watch)
    experiment = load(Uniform())
    for aggregator in (Mean(), "server_momentum"):
        seen.clear()
        done = list(mmfl.rounds(replace(experiment, aggregator=aggregator)))
        total = np.zeros(3, int)
        for view, (_, record) in zip(seen, done, strict=True):
            assert view.turns.tolist() == total.tolist()
            total += [record.clients[task] for task in view.tasks]
            np.testing.assert_allclose(view.targets, [1 - 0.8, np.nan, np.nan])
        last = done[-2][0].aggregator
        assert seen[-1].aggregation is last
    seen.clear()
    list(mmfl.rounds(replace(experiment, score="loss")))
    assert np.isnan(seen[0].targets).all()


def test_the_unbiased_mean_knows_who_could_have_trained(monkeypatch):
    told, aggregate = [], Unbiased.aggregate

    def listen(self, params, updates, difficulty, state, *, active):
        updates = list(updates)
        told.append((active, updates))
        return aggregate(self, params, iter(updates), difficulty, state, active=active)

    monkeypatch.setattr(Unbiased, "aggregate", listen)
    for _, record in mmfl.rounds(load(Lvr())):
        given = dict(zip(record.assignments.clients.tolist(), record.assignments, strict=True))
        for active, updates in told:
            assert len(active.ids) <= record.active
            assert (active.examples > 0).all()
            for update in updates:
                row = active.ids.tolist().index(update.address.client)
                assert active.examples[row] == update.examples
                assert given[update.address.client].probability == update.probability
        told.clear()
