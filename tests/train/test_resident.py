from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from mmfl.errors import EngineError
from mmfl.exchange import Params
from mmfl.train.resident import Resident
from support.helpers import one_line


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


class Odd(nn.Module):
    """A network with one weight of another type."""

    def __init__(self, kind, *, buffer=False):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        weight = torch.zeros(2, dtype=kind)
        if buffer:
            self.register_buffer("odd", weight)
        else:
            self.odd = nn.Parameter(weight, requires_grad=False)


REFUSED = {
    "float64": (Odd(torch.float64), "'odd' is torch.float64; call .float() on the network"),
    "buffer": (Odd(torch.float64, buffer=True), "'odd' is torch.float64; call .float() on"),
    "half": (Odd(torch.float16), '.float() on the network (precision = "bf16" computes in'),
    "bfloat16": (Odd(torch.bfloat16), '.float() on the network (precision = "bf16" computes in'),
    "complex": (Odd(torch.complex64), "torch.complex64; keep real and imaginary parts, and use"),
    "integer": (Odd(torch.int64), "'odd' is torch.int64; register it as a buffer"),
    "no memory": (nn.Linear(2, 2, device="meta"), "'weight' is on the device 'meta'"),
    "no weights": (nn.Flatten(), "there is nothing to train in the network"),
    "all frozen": (
        nn.Linear(1, 1).requires_grad_(False), "because requires_grad is False for all its weights"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_weights_that_cannot_be_trained_are_one_sentence(kind):
    module, rule = REFUSED[kind]
    assert rule in one_line(EngineError, lambda: Resident(module))


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64])
def test_a_buffer_that_is_no_real_number_is_no_weight_and_goes_back(kind):
    resident = Resident(Odd(kind, buffer=True))
    assert resident.layout.size == 2
    resident.module.odd.fill_(1)
    resident.set(resident.first)
    assert not resident.module.odd.any()


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
