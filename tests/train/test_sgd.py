from __future__ import annotations

import pytest
import torch
from torch import nn

from mmfl.exchange import LocalWork
from mmfl.train.sgd import Sgd


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-3])
def test_steps_equal_torchs_to_the_bit(momentum, weight_decay):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(2, 2))
        theirs = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(2, 2))
        theirs.load_state_dict(ours.state_dict())
        for model in (ours, theirs):
            model[0].bias.requires_grad_(False)
        work = LocalWork(8, lr=0.07, steps=1, momentum=momentum, weight_decay=weight_decay)
        pairs = [
            (ours, Sgd(ours.parameters(), work)),
            (theirs, torch.optim.SGD(theirs.parameters(), 0.07, momentum, 0, weight_decay)),
        ]
        for _ in range(20):
            x = torch.randn(8, 5)
            for model, optimizer in pairs:
                optimizer.zero_grad()
                model[:3](x).square().mean().backward()
                optimizer.step()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name
