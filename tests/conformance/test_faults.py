"""What every misbehaviour must do: be stopped or survive, hurt nobody else, and be counted."""

from __future__ import annotations

import dataclasses
from contextlib import closing

import numpy as np
import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.allocate import RoundRobin, Uniform
from mmfl.experiment import Inline, Local
from mmfl.faults import MISBEHAVIOURS, Faults, Misbehaving
from mmfl.faults.speeds import LogNormal
from mmfl.runs import RunStore
from mmfl.runs.faults import counts
from support.crowd import TASKS, mock, play

# From kind to the reason for which the checks refuse it; None = they cannot know.
REFUSED_FOR = {
    "nan": "not finite",
    "inf": "not finite",
    "wrong_shape": "shape",
    "missing_tensor": "names",
    "extra_tensor": "names",
    "absurd_weight": "examples",
    "scaled": None,
    "sign_flipped": None,
    "duplicate": "duplicate",
    "replayed_round": "address",
    "replayed_task": "address",
    "false_loss": None,
}
KINDS = sorted(MISBEHAVIOURS.table)
HARMLESS = {"duplicate", "false_loss"}  # the model is the one that honest clients make


LOST = Faults(dropout=0.3, speed=LogNormal(20.0, 1.0), deadline=1.0)


def faults(kind, **who) -> Faults:
    return Faults(clients=(Misbehaving(does=kind, **who),))


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def many(small_toml) -> Experiment:
    """So many turns in a round that the local engine sums them up where they are made."""
    sets = [
        "clients.count=80", "clients.active=1.0", "rounds=2", "tasks.dense.dataset.train=900",
        "tasks.image.partition={kind='iid',points=[6,9],overlap=true}",
    ]  # fmt: skip
    return Experiment.from_toml(small_toml, sets=sets)


@pytest.fixture(scope="module")
def engine(many):
    with closing(Local(workers=2).open(many, data_dir=None)) as engine:
        yield engine


def test_the_table_says_what_stops_each_kind():
    assert sorted(REFUSED_FOR) == KINDS


def test_it_is_refused_for_its_reason_or_accepted_and_costs_nobody_else_a_turn(kind):
    for state, record in play(mock(changes={"faults": faults(kind, ids=[3, 7])})):
        reason = REFUSED_FOR[kind]
        expected = [] if reason is None else [(3, reason), (7, reason)]
        found = sorted((f.address.client, f.reason) for f in record.failures)
        assert found == expected
        assert all(f.turn == (kind != "duplicate") for f in record.failures)
        outcome = "accepted" if reason is None else "refused"
        assert sorted((f.address.client, f.kind, f.outcome) for f in record.faults) == [
            (3, kind, outcome),
            (7, kind, outcome),
        ]
        lost = sum(f.turn for f in record.failures)
        assert sum(record.clients.values()) == 12 - lost
        assert all(np.isfinite(p.flat).all() for p in state.params.values())


def test_it_happens_only_at_the_tasks_that_are_named(kind):
    engine = mock(changes={"faults": faults(kind, share=1.0, tasks=["b"]), "rounds": 3})
    records = [record for _, record in play(engine)]
    for record in records:
        assert len(record.faults) == (record.assignments.tasks == TASKS.index("b")).sum()
        assert {f.address.task for f in (*record.faults, *record.failures)} <= {"b"}
    assert any(record.faults for record in records)


def test_store_record_and_run_agree(kind, small, tmp_path):
    bad = dataclasses.replace(small, faults=faults(kind, share=0.5, rate=0.8))
    records = [record for _, record in mmfl.rounds(bad)]
    run = mmfl.run(bad, tmp_path / "run")
    assert run.status == "finished"
    assert run == Run.load(tmp_path / "run")
    said = [
        (f.address.task, f.address.client, f.kind, f.outcome) for r in records for f in r.faults
    ]
    assert said
    with closing(RunStore.open(tmp_path / "run")) as store:
        counted = {(c.task, c.client, c.kind, c.outcome): c.number for c in counts(store)}
    assert counted == {key: said.count(key) for key in said}
    tally = run.faults[kind]
    assert tally.injected == len(said) == tally.refused + tally.accepted
    assert tally.refused == sum(outcome == "refused" for *_, outcome in said)
    assert list(run.faults) == [kind]
    lost = [f for r in records for f in r.failures if f.reason != "duplicate"]
    assert run.failures == len(lost)


@pytest.mark.parametrize("rule", [Uniform(), RoundRobin()], ids=["uniform", "round_robin"])
def test_an_attack_on_one_task_leaves_the_others_as_they_are_to_the_bit(kind, rule, small):
    calm = dataclasses.replace(small, allocator=rule)
    attack = faults(kind, share=0.6, tasks=["dense"])
    (one, _), *_ = reversed(list(mmfl.rounds(calm)))
    attacked = list(mmfl.rounds(dataclasses.replace(calm, faults=attack)))
    other, _ = attacked[-1]
    assert any(record.faults for _, record in attacked)
    assert one.params["image"].flat.tobytes() == other.params["image"].flat.tobytes()
    same = one.params["dense"].flat.tobytes() == other.params["dense"].flat.tobytes()
    assert same == (kind in HARMLESS)
    assert np.isfinite(other.params["dense"].flat).all()


@pytest.fixture(scope="module")
def expected(many):
    """From kind to what the inline engine, the plainest one, makes of it; None = no faults."""

    def final(found):
        return _final(dataclasses.replace(many, faults=found, engine=Inline()), None)

    made = {kind: final(faults(kind, share=0.3, rate=0.5)) for kind in KINDS}
    return made | {None: final(None), "lost": final(LOST)}


def _final(experiment, engine):
    rounds = list(mmfl.rounds(experiment, engine=engine))
    happened = [(f.address, f.kind, f.outcome) for _, r in rounds for f in r.faults]
    failed = [(f.address, f.reason, f.detail) for _, r in rounds for f in r.failures]
    return rounds[-1][0].fingerprint, happened, failed


def test_workers_give_the_faults_and_bits_of_the_inline_engine(kind, many, engine, expected):
    bad = dataclasses.replace(many, faults=faults(kind, share=0.3, rate=0.5))
    found = _final(bad, engine)
    assert found == expected[kind]
    assert found[1]


def test_chunks_are_of_those_who_are_not_lost_whoever_sums_them_up(many, engine, expected):
    found = _final(dataclasses.replace(many, faults=LOST), engine)
    assert found == expected["lost"]
    assert {kind for _, kind, _ in found[1]} == {"dropout", "late"}


@pytest.mark.parametrize("who", [{"share": 1.0, "rate": 0.0}, {"ids": []}, None], ids=str)
def test_faults_that_hit_nobody_change_no_bit(who, many, engine, expected):
    found = None if who is None else faults("scaled", **who)
    final = _final(dataclasses.replace(many, faults=found), engine)
    assert final == (expected[None][0], [], [])
