"""Who misbehaves, when and how; and a run that goes on where it was."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.config import component
from mmfl.engines import MockEngine
from mmfl.exchange import ClientFailure, Evaluation, EvaluationFailure, Params
from mmfl.faults import Faults, Misbehaving
from mmfl.objectives import LossScore
from support.crowd import LAYOUT, TASKS, mock, play, step


def records(engine):
    return [record for _, record in play(engine)]


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


def test_where_clients_misbehave_no_engine_is_trusted_to_have_checked():
    found = Faults(clients=(Misbehaving(does="nan", ids=[5]),))
    asked = []

    class Sums(MockEngine):
        def train(self, jobs, params, *, merge=False):
            asked.append(merge)
            for update in super().train(jobs, params, merge=merge):
                yield dataclasses.replace(update, delta=Params.pack(LAYOUT, update.delta))

    for changes, merge in (({"faults": found}, False), ({}, True)):
        plain = mock(changes={**changes, "rounds": 1}, merges=True)
        engine = Sums(*(getattr(plain, f.name) for f in dataclasses.fields(plain)))
        [record] = records(engine)
        assert [f.address.client for f in record.failures] == ([] if merge else [5])
        assert asked.pop() is merge


@component
class Odd:
    """Sends its update so many times."""

    times: int

    def send(self, update, *, tasks, rng):
        assert tasks == TASKS
        return [update] * self.times


@pytest.mark.parametrize("times", [0, 1, 3])
def test_ones_own_misbehaviour(times):
    found = Faults(clients=(Misbehaving(does=Odd(times), ids=[5]),))
    for record in records(mock(changes={"faults": found})):
        assert [f.kind for f in record.faults] == ["test_injection:Odd"]
        reasons = {0: ["dropout"], 1: [], 3: ["duplicate"] * 2}
        assert [f.reason for f in record.failures] == reasons[times]
        assert sum(record.clients.values()) == 12 - (times == 0)


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
        changes["score"] = LossScore()
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
    assert bad.engine_table == small.engine_table
    assert "faults" not in small.to_toml()
    assert "quarantine" not in small.to_toml()
