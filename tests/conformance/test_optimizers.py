"""What every optimizer must do in local training."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl import Clients, Experiment
from mmfl.exchange import Address, Job
from mmfl.experiment import Inline, Local, LocalOverride
from mmfl.optimizers import OPTIMIZERS
from mmfl.train import Trainer

TEXT = """
rounds = 2
clients = 3
[local]
batch_size = 8
steps = 6
prox = 0.1
clip_norm = 2.0
[engine]
kind = "inline"
[[tasks]]
name = "it"
dataset = { kind = "synthetic", classes = 3, shape = [6], train = 90, test = 30 }
partition = { kind = "iid", points = 20, overlap = true }
"""


class Tied(nn.Module):
    """A weight that is used twice, and one that is frozen."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.again.weight = self.first.weight
        self.last.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(torch.tanh(self.again(torch.tanh(self.first(x)))))


@pytest.fixture(params=sorted(OPTIMIZERS.table))
def experiment(request) -> Experiment:
    return Experiment.from_toml(TEXT, sets=[f"local.optimizer={request.param}"])


def turns(experiment: Experiment, clients: list[int], **changes: object) -> list[np.ndarray]:
    experiment = experiment.resolved()
    trainer = Trainer.of(experiment, {"it": experiment.tasks[0].dataset.load(None)})
    weights = trainer.initial("it").flat
    work = dataclasses.replace(experiment.work("it", 0), **changes)
    jobs = [Job(Address("run", 1, "it", client, 0), 0, work) for client in clients]
    found = [trainer.train(job, weights) for job in jobs]
    return [one.delta.flat.copy() for one in found]


def test_a_turn_does_not_depend_on_the_turns_before_it(experiment):
    alone = turns(experiment, [1])
    after = turns(experiment, [0, 2, 1])
    assert np.array_equal(alone[0], after[2])


def test_all_of_them_have_the_same_bits_with_any_number_of_workers():
    table = Experiment.from_toml(TEXT)
    (task,) = table.tasks
    kinds = sorted(OPTIMIZERS.table)
    local = [LocalOverride(optimizer=OPTIMIZERS.parse(kind)) for kind in kinds]
    tasks = [
        dataclasses.replace(task, name=kind, local=own)
        for kind, own in zip(kinds, local, strict=True)
    ]
    whole = dataclasses.replace(table, tasks=tuple(tasks), clients=Clients(18))
    runs = {}
    for engine in (Inline(), Local(workers=2)):
        runs[engine] = list(mmfl.rounds(dataclasses.replace(whole, engine=engine)))
    (one, _), (other, _) = (found[-1] for found in runs.values())
    assert one.fingerprint == other.fingerprint
    assert not any(record.failures for found in runs.values() for _, record in found)
    moved = {one.params[kind].flat.tobytes() for kind in kinds}
    assert len(moved) == len(kinds)


def test_it_lowers_the_loss(experiment):
    optimizer = experiment.local.optimizer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        w = nn.Parameter(torch.randn(20))
    made = optimizer.build([w], {"adadelta": 20.0}.get(OPTIMIZERS.kind_of(optimizer), 0.05))
    before = w.detach().square().sum()
    for _ in range(60):
        made.zero_grad()
        w.square().sum().backward()
        made.step()
    assert w.detach().square().sum() < 0.8 * before


def test_tied_weights_move_once_and_frozen_ones_not_at_all(experiment):
    task = dataclasses.replace(experiment.tasks[0], model=Tied)
    (moved,) = turns(dataclasses.replace(experiment, tasks=(task,)), [1], prox=0.0)
    assert np.isfinite(moved).all()
    layout = list(dict(Tied().named_parameters()))
    assert layout == ["first.weight", "first.bias", "again.bias", "last.weight", "last.bias"]
    assert np.abs(moved[:36]).min() > 0
    assert np.array_equal(moved[-3:], np.zeros(3))
