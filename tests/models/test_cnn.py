from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mmfl.models import Cnn


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.booleans(), st.sampled_from([4, 5, 8, 11]))
def test_rectifying_after_pooling_gives_the_bits_of_rectifying_before(seed, coarse, side):
    """Outputs and gradients, with ties (coarse weights and images make many) and without."""
    torch.manual_seed(seed)
    ours = Cnn(channels=(3, 4), dense=6).build((2, side, side), 5)
    x = torch.randn(6, 2, side, side)
    if coarse:
        x = x.round()
        with torch.no_grad():
            for parameter in ours.parameters():
                parameter.mul_(3).round_()
    layers = list(ours)
    for place in (1, 4):
        assert isinstance(layers[place], nn.MaxPool2d)
        layers[place : place + 2] = layers[place + 1], layers[place]
    usual = nn.Sequential(*layers)

    def outcome(network):
        outputs = network(x)
        loss = nn.functional.cross_entropy(outputs, torch.arange(6) % 5)
        return outputs, *torch.autograd.grad(loss, list(ours.parameters()))

    assert all(torch.equal(a, b) for a, b in zip(outcome(ours), outcome(usual), strict=True))
