"""The authors' network for small images: its sizes, its outputs, and the floor of its loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from mmfl.errors import InputError
from mmfl.models import PublishedCnn
from support.helpers import one_line


@pytest.fixture
def network() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PublishedCnn().build((1, 28, 28), 47)


def test_it_has_the_layers_of_the_authors_code(network: torch.nn.Module) -> None:
    shapes = [
        tuple(weight.shape) for name, weight in network.named_parameters() if "weight" in name
    ]
    assert shapes == [(32, 1, 3, 3), (64, 32, 3, 3), (512, 3136), (47, 512)]


def test_its_outputs_are_probabilities(network: torch.nn.Module) -> None:
    out = network(torch.randn(6, 1, 28, 28))
    assert (out >= 0).all()
    torch.testing.assert_close(out.sum(1), torch.ones(6))


@pytest.mark.parametrize(("classes", "floor"), [(10, 1.46), (47, 2.89)])
def test_its_loss_has_a_floor(classes: int, floor: float) -> None:
    certain = torch.eye(classes)  # the best that it can say
    least = functional.cross_entropy(certain, torch.arange(classes)).item()
    assert least == pytest.approx(math.log(math.e + classes - 1) - 1)
    assert round(least, 2) == floor


def test_small_images_are_refused() -> None:
    assert "4 x 4" in one_line(InputError, lambda: PublishedCnn().build((1, 3, 8), 2))
