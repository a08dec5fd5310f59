"""A GPU that fails in a worker costs the client that is to blame its turn, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import mmfl
from mmfl.experiment import Local, LocalTraining


class Asserts(nn.Linear):
    """Fails, with its device, on one example; as a class number that is too large does on a GPU."""

    def forward(self, x):
        if self.training and (x > 50).any():
            from mmfl.train import DeviceLostError
            from mmfl.train.device import Device

            def check(device):
                raise DeviceLostError("the device is lost")

            Device.check = check
            raise RuntimeError("CUDA error: device-side assert triggered")
        return super().forward(x)


@pytest.mark.slow
def test_only_the_client_that_is_to_blame_fails():
    x = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    owner = np.arange(80) % 4
    x[owner == 2, 0] = 100.0
    task = mmfl.Task(
        "a",
        data=(x, np.arange(80) % 3, x[:8], np.arange(8) % 3),
        model=lambda: Asserts(4, 3),
        normalize="none",
        partition=lambda examples, clients, rng: owner[examples.rows],
    )
    experiment = mmfl.Experiment(
        tasks=[task], clients=4, rounds=1, engine=Local(2), local=LocalTraining(epochs=1)
    )
    ((_, record),) = mmfl.rounds(experiment)
    (failure,) = record.failures
    assert (failure.address.client, failure.reason) == (2, "worker")
    assert record.clients == {"a": 3}
