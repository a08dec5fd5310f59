"""What every model must do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from mmfl.exchange import Shape
from mmfl.models import MODELS
from mmfl.train.resident import Resident

IMAGES = Shape((2, 16, 16))
SERIES = Shape((1, 12, 3))
SHAPES = dict.fromkeys(("cnn1d", "gru", "lstm", "transformer"), SERIES)
FALLS_TO = {"published_cnn": 0.85}  # its loss has a floor, and classes may die


@pytest.fixture(params=sorted(MODELS.table))
def model(request):
    return MODELS.parse(request.param)


def build(model, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model.build(shape_of(model), 5)


def shape_of(model):
    return SHAPES.get(MODELS.kind_of(model), IMAGES)


def test_it_gives_one_output_per_class_for_any_batch(model):
    module = build(model)
    for examples in (1, 7):
        assert module.eval()(torch.zeros(examples, *shape_of(model))).shape == (examples, 5)


def test_initial_weights_come_from_torchs_generator_alone(model):
    one, same, other = (Resident(build(model, seed)).first for seed in (0, 0, 1))
    assert one.tobytes() == same.tobytes()
    assert one.tobytes() != other.tobytes()


def test_building_leaves_global_randomness_alone(model):
    state = torch.random.get_rng_state()
    build(model)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_it_learns(model):
    module = build(model).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        y = torch.arange(20) % 5
        x = torch.randn(5, *shape_of(model))[y]
    sgd = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(100):
        loss = functional.cross_entropy(module(x), y)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
        if losses[-1] < FALLS_TO.get(MODELS.kind_of(model), 0.5) * losses[0]:
            return
    pytest.fail(f"it does not learn: {losses}")
