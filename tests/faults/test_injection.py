"""Dropouts, stragglers and virtual time; lies about losses; a run that goes on where it was."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mmfl
from crowd import TASKS, mock, play, step
from mmfl import Experiment
from mmfl.allocate import ALLOCATORS
from mmfl.evaluate import Loss
from mmfl.faults import SPEEDS, Faults, Misbehaving, Quarantine
from mmfl.faults.speeds import Constant, LogNormal, Uniform
from mmfl.rng import stream
from mmfl.updates import ClientFailure, Evaluation, EvaluationFailure


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
        assert late.detail == "needs 6.25 of 5 virtual seconds"
    for record in records(mock(changes={"faults": Faults(speed=speeds)})):
        assert record.failures == ()
        assert record.virtual == 25.0


RATES = st.floats(0.1, 100)
SPEED = st.one_of(
    st.builds(Constant, RATES),
    st.builds(LogNormal, RATES, st.floats(0, 200)),
    st.builds(lambda low, more: Uniform(low, low + more), RATES, RATES),
    st.lists(RATES, min_size=12, max_size=12),
)


@settings(max_examples=40)
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


# Misbehaviour


def test_of_two_tables_that_hit_a_turn_the_first_does():
    both = (Misbehaving(does="nan", ids=[1, 2]), Misbehaving(does="inf", ids=[2, 3]))
    for record in records(mock(changes={"faults": Faults(clients=both)})):
        assert sorted((f.address.client, f.kind) for f in record.faults) == [
            (1, "nan"), (2, "nan"), (3, "inf"),
        ]  # fmt: skip


def test_a_share_of_the_clients_misbehaves_and_always_the_same_ones():
    found = Faults(clients=(Misbehaving(does="nan", share=0.5),))
    seen = [
        {f.address.client for f in record.faults}
        for record in records(mock(changes={"faults": found, "rounds": 10}))
    ]
    assert len(set(map(frozenset, seen))) == 1
    assert 2 <= len(seen[0]) <= 10
    more = Faults(clients=(Misbehaving(does="nan", share=0.7),))
    [record, *_] = records(mock(changes={"faults": more}))
    assert seen[0] < {f.address.client for f in record.faults}


def test_they_misbehave_in_a_part_of_their_turns():
    found = Faults(clients=(Misbehaving(does="nan", ids=range(12), rate=0.25),))
    all_ = records(mock(changes={"faults": found, "rounds": 50}))
    assert sum(len(record.faults) for record in all_) == pytest.approx(150, abs=35)


def test_a_turn_that_fails_by_itself_has_no_update_to_spoil():
    def turn(job, params):
        if job.address.client < 6:
            return ClientFailure(job.address, "raised", "ValueError: no")
        return step(job, params)

    found = Faults(clients=(Misbehaving(does="nan", share=1.0),))
    for record in records(mock(turn, changes={"faults": found})):
        assert {f.address.client for f in record.faults} == set(range(6, 12))
        reasons = {f.address.client: f.reason for f in record.failures}
        assert reasons == {k: "raised" if k < 6 else "not finite" for k in range(12)}


def test_an_update_that_the_checks_refuse_anyway_is_not_spoiled():
    """Some engines check updates where they are made: then there is none to spoil."""

    def turn(job, params):
        found = step(job, params)
        odd = {"w": np.full(2, np.nan, np.float32)}
        return dataclasses.replace(found, delta=odd) if job.address.client < 6 else found

    found = Faults(clients=(Misbehaving(does="extra_tensor", share=1.0),))
    for record in records(mock(turn, changes={"faults": found})):
        assert {f.address.client for f in record.faults} == set(range(6, 12))
        reasons = {f.address.client: f.reason for f in record.failures}
        assert reasons == {k: "not finite" if k < 6 else "names" for k in range(12)}


def test_a_scaled_update_moves_the_model_by_its_factor_or_is_stopped_by_its_norm():
    for factor, moved in ((4.0, [4, 4]), (1e30, [0, 0]), (1e300, [0, 0])):
        found = Faults(clients=(Misbehaving(does={"kind": "scaled", "factor": factor}, share=1),))
        engine = mock(changes={"faults": found, "rounds": 1})
        [(state, record)] = play(engine)
        assert {f.outcome for f in record.faults} == {"accepted" if factor == 4 else "refused"}
        assert state.params["a"].flat.tolist() == moved


def test_a_false_loss_is_remembered_and_an_infinite_one_refused():
    for options, remembered in (({"factor": 3.0}, 3.0), ({"value": 9.0}, 9.0)):
        found = Faults(clients=(Misbehaving(does={"kind": "false_loss", **options}, ids=[4]),))
        *_, (state, _) = play(mock(changes={"faults": found}))
        assert np.nanmax(state.clients.loss[4]) == remembered
        assert np.nanmax(np.delete(state.clients.loss, 4, axis=0)) == 1.0
    endless = {"kind": "false_loss", "value": math.inf}
    found = Faults(clients=(Misbehaving(does=endless, ids=[4]),))
    for record in records(mock(changes={"faults": found})):
        assert [(f.address.client, f.reason) for f in record.failures] == [(4, "loss")]


def judged(task, params, client):
    return Evaluation(task, 5, 5.0, 4.0, client)


@pytest.mark.parametrize(
    ("options", "score", "f"),
    [
        ({"factor": 5.0}, "loss", 2.0),  # a quarter of the clients says 5
        ({"factor": 5.0}, "error", 0.2),
        ({"metric": 0.0}, "error", 0.4),
        ({"value": 9.0}, "loss", 3.0),
    ],
)
def test_clients_that_score_a_task_lie_about_it(options, score, f):
    does = {"kind": "false_loss", **options}
    found = Faults(clients=(Misbehaving(does=does, ids=[0, 1, 2], tasks=["a"]),))
    changes = {"score_source": "clients", "faults": found}
    if score == "loss":
        changes["score"] = Loss()
    engine = mock(test=judged, changes={**changes, "rounds": 1})
    [record] = records(engine)
    honest = {"loss": 1.0, "error": 0.2}[score]
    assert record.difficulty == pytest.approx({"a": f, "b": honest, "c": honest})
    liars = {f.address.client for f in record.faults if f.address.task == "a"}
    assert liars == {0, 1, 2}
    assert {f.outcome for f in record.faults} == {"accepted"}


def test_a_lie_that_cannot_be_is_refused_and_counted():
    def test(task, params, client):
        if client == 1:
            return EvaluationFailure(task, client, "raised")
        return judged(task, params, client)

    does = {"kind": "false_loss", "factor": 1.0, "metric": 1.5}  # an accuracy of 150%
    found = Faults(clients=(Misbehaving(does=does, ids=[0, 1], tasks=["a"]),))
    changes = {"score_source": "clients", "faults": found, "rounds": 1, "seed": 3}
    [record] = records(mock(test=test, changes=changes))
    assert record.difficulty["a"] == pytest.approx(0.2)
    evaluations = [f for f in record.faults if f.outcome == "refused"]
    assert [(f.address.task, f.address.client) for f in evaluations] == [("a", 0)]
    reasons = {(f.address.client, f.reason) for f in record.failures if f.address.task == "a"}
    assert reasons == {(0, "evaluation"), (1, "raised")}


# All together


MIXED = """
[faults]
dropout = 0.2
deadline = 3.0
speed = { kind = "lognormal", median = 20.0, sigma = 1.0 }
jitter = 0.3
clients = [
    { does = "nan", share = 0.4, rate = 0.7 },
    { does = { kind = "sign_flipped", factor = 2.0 }, share = 0.3 },
    { does = "duplicate", share = 0.5, tasks = ["image"] },
    { does = "replayed_task", share = 0.5, rate = 0.5 },
]
[quarantine]
strikes = 2
rounds = 2
"""


def test_going_on_from_any_state_gives_the_same_bits_faults_and_quarantine(small_toml):
    bad = Experiment.from_toml(small_toml + MIXED, sets=["rounds=7"])
    rounds = list(mmfl.rounds(bad))
    kinds = {f.kind for _, record in rounds for f in record.faults}
    assert kinds == {"dropout", "late", "nan", "sign_flipped", "duplicate", "replayed_task"}
    away = [any(until for _, until in state.offenders.values()) for state, _ in rounds]
    assert any(away[:-1])
    for state, record in rounds[:-1]:
        again = list(mmfl.rounds(bad, state=state))
        for (one, told), (other, before) in zip(again, rounds[record.round :], strict=True):
            assert one.fingerprint == other.fingerprint
            assert one.offenders == other.offenders
            assert told.faults == before.faults
            assert told.failures == before.failures
            assert told.virtual == before.virtual


def test_an_experiment_with_faults_is_another_one_and_one_without_is_as_it_was(small, small_toml):
    bad = Experiment.from_toml(small_toml + MIXED)
    assert Experiment.from_toml(bad.to_toml()) == bad
    assert len({small.digest, bad.digest, dataclasses.replace(bad, quarantine=None).digest}) == 3
    assert bad.lineage != small.lineage
    assert bad.world == small.world
    assert "faults" not in small.to_toml()
    assert "quarantine" not in small.to_toml()


def test_engines_that_give_too_few_or_too_many_results_are_at_fault():
    class Wrong(type(mock())):
        def train(self, jobs, params, *, merge=False):
            found = list(super().train(jobs, params, merge=merge))
            return iter(found[:-1] if self.workers == 2 else [*found, found[0]])

    for workers, sentence in ((2, "gave 11 results for 12 jobs"), (3, "more results than the 12")):
        plain = mock(workers=workers)
        engine = Wrong(*(getattr(plain, f.name) for f in dataclasses.fields(plain)))
        with pytest.raises(mmfl.errors.EngineError, match=sentence):
            play(engine)


def test_what_an_engine_was_sent_beyond_the_answer_is_recorded_and_costs_nothing():
    class Twice(type(mock())):
        def train(self, jobs, params, *, merge=False):
            for found in super().train(jobs, params, merge=merge):
                yield found
                if found.address.client in (2, 5):
                    yield ClientFailure(found.address, "duplicate", "sent twice", turn=False)

    plain = mock(changes={"quarantine": Quarantine(strikes=1)})
    engine = Twice(*(getattr(plain, f.name) for f in dataclasses.fields(plain)))
    calm = play(mock())
    for (state, record), (expected, _) in zip(play(engine), calm, strict=True):
        assert sorted(f.address.client for f in record.failures) == [2, 5]
        assert sum(record.clients.values()) == 12
        assert state.fingerprint == expected.fingerprint
        assert state.offenders == {}


def test_a_client_that_answers_with_anothers_address_loses_its_own_turn_and_no_other():
    def turn(job, params):
        found = step(job, params)
        if job.address.client in (0, 11):  # a job that was answered before, or will be later
            other = job.address._replace(client=5)
            return dataclasses.replace(found, address=other)
        return found

    for record in records(mock(turn)):
        assert sorted((f.address.client, f.reason) for f in record.failures) == [
            (0, "address"),
            (11, "address"),
        ]
        assert sum(record.clients.values()) == 10
