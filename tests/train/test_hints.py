"""A failure that has a usual remedy names it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

import mmfl
from mmfl.data import Iid, Synthetic
from mmfl.experiment import Clients, LocalTraining, Task


@dataclass(frozen=True)
class Normed:
    """A network with batch normalisation, which cannot learn from one example."""

    def build(self, shape: Any, outputs: int) -> Any:
        from torch import nn

        return nn.Sequential(
            nn.Flatten(), nn.Linear(shape[0], 4), nn.BatchNorm1d(4), nn.Linear(4, outputs)
        )


@pytest.fixture
def experiment() -> mmfl.Experiment:
    task = Task("a", Synthetic(train=40, test=10), model=Normed(), partition=Iid(points=9))
    return mmfl.Experiment(
        rounds=1,
        clients=Clients(2),
        tasks=(task,),
        local=LocalTraining(epochs=1, batch_size=8),
        engine="inline",
    )


def test_a_last_batch_of_one_example_under_batch_normalisation(experiment):
    ((_, record),) = mmfl.rounds(experiment)
    assert len(record.failures) == 2
    for failure in record.failures:
        assert failure.detail.startswith("ValueError: Expected more than 1 value per channel")
        assert failure.detail.endswith('a last batch of one example: set local.remainder = "drop"')
    dropped = replace(experiment, local=replace(experiment.local, remainder="drop"))
    ((_, record),) = mmfl.rounds(dropped)
    assert record.failures == ()
