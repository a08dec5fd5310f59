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
from mmfl.loop import State
from mmfl.runs import RunStore
from mmfl.runs.faults import count_faults
from support.crowd import TASKS, mock, play
from support.sweeping import TEXT

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


def test_store_record_and_run_agree(kind, tmp_path):
    quick = Experiment.from_toml(TEXT, allow_imports=True)
    bad = dataclasses.replace(quick, faults=faults(kind, share=0.5, rate=0.8))
    records = [record for _, record in mmfl.rounds(bad)]
    run = mmfl.run(bad, tmp_path / "run")
    assert run.status == "finished"
    assert run == Run.load(tmp_path / "run")
    said = [
        (f.address.task, f.address.client, f.kind, f.outcome) for r in records for f in r.faults
    ]
    assert said
    with closing(RunStore.open(tmp_path / "run")) as store:
        counted = {(c.task, c.client, c.kind, c.outcome): c.number for c in count_faults(store)}
    assert counted == {key: said.count(key) for key in said}
    tally = run.faults[kind]
    assert tally.injected == len(said) == tally.refused + tally.accepted
    assert tally.refused == sum(outcome == "refused" for *_, outcome in said)
    assert list(run.faults) == [kind]
    lost = [f for r in records for f in r.failures if f.reason != "duplicate"]
    assert run.failed == len(lost)


@pytest.fixture(scope="module", params=[Uniform(), RoundRobin()], ids=["uniform", "round_robin"])
def calm(request, small_toml) -> tuple[Experiment, State]:
    """An experiment without faults, and how it ends."""
    experiment = dataclasses.replace(Experiment.from_toml(small_toml), allocator=request.param)
    *_, (state, _) = mmfl.rounds(experiment)
    return experiment, state


def test_an_attack_on_one_task_leaves_the_others_as_they_are_to_the_bit(kind, calm):
    experiment, one = calm
    attack = faults(kind, share=0.6, tasks=["dense"])
    attacked = list(mmfl.rounds(dataclasses.replace(experiment, faults=attack)))
    other, _ = attacked[-1]
    assert any(record.faults for _, record in attacked)
    assert one.params["image"].flat.tobytes() == other.params["image"].flat.tobytes()
    same = one.params["dense"].flat.tobytes() == other.params["dense"].flat.tobytes()
    assert same == (kind in HARMLESS)
    assert np.isfinite(other.params["dense"].flat).all()


def _final(experiment, engine=None):
    """What is left of a run: its last bits, the faults and the failures."""
    rounds = list(mmfl.rounds(experiment, engine=engine))
    happened = [(f.address, f.kind, f.outcome) for _, r in rounds for f in r.faults]
    failed = [(f.address, f.reason, f.detail) for _, r in rounds for f in r.failures]
    return rounds[-1][0].fingerprint, happened, failed


def _with_both_engines(many, engine, found):
    """What workers make of these faults, and what the inline engine does, the plainest one."""
    bad = dataclasses.replace(many, faults=found)
    return _final(bad, engine), _final(dataclasses.replace(bad, engine=Inline()))


def test_workers_give_the_faults_and_bits_of_the_inline_engine(many, engine):
    """Every kind in one run, each with clients of its own."""
    n = len(KINDS)
    groups = [
        Misbehaving(does=kind, ids=tuple(range(k, many.clients.count, n)), rate=0.5)
        for k, kind in enumerate(KINDS)
    ]
    ours, theirs = _with_both_engines(many, engine, Faults(clients=tuple(groups)))
    assert ours == theirs
    for task in (task.name for task in many.tasks):
        assert {kind for address, kind, _ in ours[1] if address.task == task} == set(KINDS)


def test_chunks_are_of_those_who_are_not_lost_whoever_sums_them_up(many, engine):
    ours, theirs = _with_both_engines(many, engine, LOST)
    assert ours == theirs
    assert {kind for _, kind, _ in ours[1]} == {"dropout", "late"}


def test_faults_that_hit_nobody_change_no_bit(many, engine):
    nobody = [
        Misbehaving(does="scaled", **who) for who in ({"share": 1.0, "rate": 0.0}, {"ids": ()})
    ]
    ours = _final(dataclasses.replace(many, faults=Faults(clients=tuple(nobody))), engine)
    assert ours == (_final(dataclasses.replace(many, engine=Inline()))[0], [], [])
