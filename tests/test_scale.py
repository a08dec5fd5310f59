"""A round costs what its active clients cost, however many clients there are.

The crowd is so large that whoever makes a list of it, once, gets no answer but `MemoryError`.
"""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.allocate import EqualBounds, FedFair, RoundRobin, Sequential, Uniform
from mmfl.exchange import Evaluation
from mmfl.experiment import Clients
from mmfl.faults import Faults, Misbehaving, Quarantine
from mmfl.faults.speeds import LogNormal
from support.crowd import TASKS, mock, play

HUGE = 10**13
ACTIVE = 40


@dataclasses.dataclass(frozen=True)
class Ocean:
    """Everybody holds five examples of everything; nobody has been asked."""

    count: int
    asked: list[int]
    tasks: tuple[str, ...] = TASKS

    @property
    def clients(self):
        return range(self.count)

    @property
    def sums(self):
        return {}

    def sizes(self, clients):
        self.asked.append(len(clients))
        return np.full((len(clients), len(self.tasks)), 5)

    def able(self, task=None):
        return None


def sea(count, **changes):
    """Rounds of 40 active clients."""
    clients = Clients(min(count, 2**31 - 1), ACTIVE / count)
    engine = mock(changes={"clients": clients} | changes)
    return dataclasses.replace(engine, federation=Ocean(count, []))


@pytest.mark.parametrize(
    "rule",
    [
        *(FedFair(), FedFair(sampling="stratified", floor=2), Uniform()),
        *(RoundRobin(), Sequential(), EqualBounds()),
    ],
)
def test_a_crowd_of_any_size(rule):
    engine = sea(HUGE, allocator=rule)
    records = [record for _, record in play(engine)]
    assert [len(record.assignments) for record in records] == [ACTIVE] * 4
    assert max(record.assignments.clients.max() for record in records) > HUGE // 2
    assert max(engine.federation.asked) <= ACTIVE


def test_a_crowd_of_any_size_is_judged_by_a_few():
    def test(task, params, client):
        return Evaluation(task, 5, 1.0, 2.0, client)

    engine = sea(HUGE, score_source="clients", score_clients=7)
    engine = dataclasses.replace(engine, test=test)
    records = [record for _, record in play(engine)]
    assert all(record.failures == () for record in records)
    assert records[-1].difficulty == pytest.approx(dict.fromkeys(TASKS, 0.6))
    assert max(engine.federation.asked) <= ACTIVE


def test_faults_and_a_quarantine_in_a_crowd_of_any_size():
    found = Faults(
        dropout=0.2,
        speed=LogNormal(10.0, 1.0),
        deadline=3.0,
        clients=(Misbehaving(does="nan", share=0.3),),
    )
    engine = sea(HUGE, faults=found, quarantine=Quarantine(strikes=1), score_source="clients")
    changes = {"score_clients": 7}
    engine = dataclasses.replace(
        engine,
        experiment=dataclasses.replace(engine.experiment, **changes),
        test=lambda task, params, client: Evaluation(task, 5, 1.0, 2.0, client),
    )
    rounds = play(engine)
    assert {f.kind for _, record in rounds for f in record.faults} == {"dropout", "late", "nan"}
    assert len(rounds[-1][0].offenders) > 10
    assert max(engine.federation.asked) <= ACTIVE


def peak(count):
    """The most memory that is held at a time within some rounds."""
    engine = sea(count, rounds=8, allocator=FedFair(sampling="stratified"))
    tracemalloc.start()
    try:
        for _ in mmfl.rounds(engine.experiment, engine=engine):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_depends_on_the_active_clients_and_not_on_all():
    peak(4000)  # what is made once and kept
    assert peak(HUGE) <= 1.1 * peak(4000)


def test_a_run_with_shards_of_a_crowd_of_any_size(tmp_path):
    text = f"""
    rounds = 2
    clients = {{ count = {10**9}, active = {20 / 10**9} }}
    local = {{ steps = 1, batch_size = 4 }}
    engine = "inline"
    """
    for name, kind in (("a", "iid"), ("b", "half_classes"), ("c", "dirichlet")):
        alpha = ", alpha = 0.5" if kind == "dirichlet" else ""
        text += f"""
        [[tasks]]
        name = "{name}"
        dataset = {{ kind = "synthetic", classes = 4, shape = [4], train = 200, test = 40 }}
        model = {{ kind = "mlp", hidden = [4] }}
        partition = {{ kind = "{kind}", points = [3, 9], overlap = true{alpha} }}
        """
    run = mmfl.run(Experiment.from_toml(text), tmp_path / "run")
    assert run.rounds == 2
