from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from mmfl.errors import EngineError
from mmfl.exchange import Params
from mmfl.train.resident import Resident


def change_of(resident, since):
    return Params(resident.layout, resident.change(since, np.empty_like(since)))


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))


def test_setting_weights_sets_parameters_and_float_buffers_and_resets_counters():
    torch.manual_seed(0)
    resident = Resident(make())
    first = resident.first
    resident.module.train()
    resident.module(torch.randn(8, 4))
    assert resident.module[1].num_batches_tracked == 1
    assert not np.array_equal(resident.flat.numpy(), first)
    resident.set(first)
    assert resident.module[1].num_batches_tracked == 0
    assert np.array_equal(resident.module[1].running_mean.numpy(), np.zeros(6))
    assert np.array_equal(change_of(resident, first).flat, np.zeros_like(first))


def test_an_optimiser_step_changes_the_flat_vector():
    torch.manual_seed(0)
    resident = Resident(make())
    first = resident.first
    sgd = torch.optim.SGD(resident.module.parameters(), lr=0.1)
    resident.module(torch.randn(8, 4)).sum().backward()
    sgd.step()
    change = change_of(resident, first)
    assert np.array_equal(
        change["2.bias"], resident.module[2].bias.detach().numpy() - first[-14:-12]
    )
    assert (change["2.bias"] != 0).all()


def test_tied_weights_count_once():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    resident = Resident(model)
    assert resident.layout.size == 9
    resident.set(np.arange(9, dtype=np.float32))
    assert torch.equal(model[1].weight, model[0].weight)


def test_weights_that_are_not_float32_are_refused():
    with pytest.raises(EngineError, match=r"'weight' is torch\.float64"):
        Resident(nn.Linear(2, 2, dtype=torch.float64))


class Moving(nn.Module):
    """A model that replaces a buffer of its own and keeps a cache that is no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("cache", torch.zeros(1), persistent=False)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            self.cache += 1
        return self.layer(x - self.mean) * self.cache


def test_a_buffer_that_is_replaced_stays_a_weight_and_a_cache_is_reset():
    resident = Resident(Moving())
    first = resident.first.copy()
    for _ in range(2):
        resident.set(first)
        resident.module.train()
        resident.module(torch.ones(3, 4))
        assert np.allclose(change_of(resident, first)["mean"], 0.1)
        assert resident.module.cache.item() == 1
    resident.set(first)
    assert np.array_equal(resident.module.mean.numpy(), np.zeros(4))
    assert resident.module.cache.item() == 0
