"""Dropouts, stragglers and virtual time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.allocate import ALLOCATORS
from mmfl.faults import SPEEDS, Faults
from mmfl.faults.speeds import ConstantSpeed, LogNormal, UniformSpeed
from mmfl.rng import stream
from support.crowd import TASKS, mock, play, step


def records(engine):
    return [record for _, record in play(engine)]


def lost(record, kind):
    assert all(f.outcome == "lost" for f in record.faults)
    found = sorted(f.address.client for f in record.faults if f.kind == kind)
    assert found == sorted(f.address.client for f in record.failures if f.reason == kind)
    return found


# Dropouts


def test_a_dropout_is_never_asked_to_train_and_is_recorded():
    asked = []

    def turn(job, params):
        asked.append(job.address)
        return step(job, params)

    for record in records(mock(turn, changes={"faults": Faults(dropout=0.4), "rounds": 8})):
        gone = lost(record, "dropout")
        assert sum(record.clients.values()) == 12 - len(gone)
        assert not {(record.round, k) for k in gone} & {(a.round, a.client) for a in asked}
        assert math.isnan(record.virtual)
    assert 12 * 8 * 0.4 < len(asked) < 12 * 8 * 0.8


def test_each_client_drops_out_at_its_own_rate():
    rates = (1.0, 0.0, *[0.5] * 10)
    found = records(mock(changes={"faults": Faults(dropout=rates), "rounds": 60}))
    gone = np.bincount(np.concatenate([lost(r, "dropout") for r in found]), minlength=12)
    assert gone[0] == 60
    assert gone[1] == 0
    assert (np.abs(gone[2:] - 30) < 20).all()


def test_who_drops_out_does_not_depend_on_what_it_was_to_train():
    same = []
    for rule in ("uniform", "round_robin"):
        changes = {"faults": Faults(dropout=0.3), "allocator": ALLOCATORS.parse(rule)}
        same.append([lost(record, "dropout") for record in records(mock(changes=changes))])
    assert same[0] == same[1]
    assert len(set(map(tuple, same[0]))) > 1


@pytest.mark.parametrize("rule", sorted(ALLOCATORS.table))
def test_a_round_in_which_everybody_drops_out_changes_nothing(rule):
    changes = {"faults": Faults(dropout=1.0), "allocator": ALLOCATORS.parse(rule)}
    for state, record in play(mock(changes=changes)):
        assert record.clients == dict.fromkeys(TASKS, 0)
        assert state.versions == dict.fromkeys(TASKS, 0)
        assert all(not p.flat.any() for p in state.params.values())


# Stragglers


def test_virtual_time_is_examples_over_speed_and_who_needs_longer_than_the_deadline_is_late():
    speeds = tuple(float(k + 1) for k in range(12))  # a turn is 5 examples x 5 epochs
    for record in records(mock(changes={"faults": Faults(speed=speeds, deadline=5.0)})):
        assert lost(record, "late") == [0, 1, 2, 3]
        assert record.virtual == 5.0
        late = next(f for f in record.failures if f.address.client == 3)
        assert late.detail == "needs 6.25 virtual seconds; the deadline is 5"
    for record in records(mock(changes={"faults": Faults(speed=speeds)})):
        assert record.failures == ()
        assert record.virtual == 25.0


RATES = st.floats(0.1, 100)
SPEED = st.one_of(
    st.builds(ConstantSpeed, RATES),
    st.builds(LogNormal, RATES, st.floats(0, 200)),
    st.builds(lambda low, more: UniformSpeed(low, low + more), RATES, RATES),
    st.lists(RATES, min_size=12, max_size=12),
)


@given(SPEED, st.floats(0.1, 100), st.floats(0, 50), st.floats(0, 1), st.integers(0, 99))
def test_every_round_closes_by_its_deadline(speed, deadline, jitter, dropout, seed):
    found = Faults(speed=speed, deadline=deadline, jitter=jitter, dropout=dropout)
    for record in records(mock(changes={"faults": found, "seed": seed})):
        assert 0 <= record.virtual <= deadline
        gone, late = lost(record, "dropout"), lost(record, "late")
        assert not set(gone) & set(late)
        assert sum(record.clients.values()) == 12 - len(gone) - len(late)
        assert (record.virtual == deadline) >= bool(late)


WORK = {
    "epochs": ["local.epochs=2", "local.batch_size=7"],
    "drop": ["local.epochs=3", "local.batch_size=7", "local.remainder=drop"],
    "steps": ["local.steps=9", "local.batch_size=7"],
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_virtual_time_follows_the_examples_that_a_turn_really_processes(small_toml, work):
    sets = [*work, "clients.active=0.1", "faults.speed=8.0", "rounds=6"]
    bare = small_toml.replace("steps = 3", "").replace("epochs = 1", "")
    found = [r for _, r in mmfl.rounds(Experiment.from_toml(bare, sets=sets))]
    assert [r.virtual * 8 for r in found] == [r.samples for r in found]
    assert {name for r in found for name in r.tasks if r.clients[name]} == {"dense", "image"}


def test_a_clients_speed_stays_and_its_turns_jitter():
    fixed, shaky = (
        Faults(speed=LogNormal(10.0, 1.0), jitter=jitter, deadline=1e-9) for jitter in (0.0, 0.5)
    )
    for found, same in ((fixed, True), (shaky, False)):
        said = [
            {f.address.client: f.detail for f in record.failures}
            for record in records(mock(changes={"faults": found}))
        ]
        assert (said[0] == said[1]) is same
        assert len(set(said[0].values())) == 12


@pytest.mark.parametrize("kind", ["lognormal", "uniform"])
def test_speeds_are_spread_as_they_say(kind):
    options = {"lognormal": {"median": 7.0, "sigma": 0.5}, "uniform": {"low": 2.0, "high": 4.0}}
    speed = SPEEDS.parse({"kind": kind, **options[kind]})
    ids = np.arange(20_000)
    rates = speed.rates(ids, ids, rng=stream(0, "speed"))
    assert np.array_equal(rates[100:200], speed.rates(ids[100:200], ids, rng=stream(0, "speed")))
    if kind == "lognormal":
        assert np.median(rates) == pytest.approx(7.0, rel=0.03)
        assert np.log(rates).std() == pytest.approx(0.5, rel=0.03)
    else:
        assert rates.min() >= 2
        assert rates.max() <= 4
        assert rates.mean() == pytest.approx(3.0, rel=0.01)
