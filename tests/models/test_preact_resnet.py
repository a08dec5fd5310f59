"""Pre-activation residual networks."""

from __future__ import annotations

import pytest
import torch

from mmfl.errors import ConfigError, InputError
from mmfl.models import MODELS
from support.helpers import one_line


def build(model, shape=(3, 8, 8), outputs=5, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS.parse(model).build(shape, outputs)


def images(n, *shape, seed=0):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def weights(model) -> int:
    return sum(p.numel() for p in model.parameters())


def by_hand(depth, width, blocks, outputs) -> int:
    """Stem; per block two norms and two 3 x 3 convolutions, a 1 x 1 where the width changes."""
    total, before = 9 * depth * width, width
    for stage, count in enumerate(blocks):
        wide = width * 2**stage
        for _ in range(count):
            total += 2 * before + 9 * before * wide + 2 * wide + 9 * wide * wide
            total += before * wide if before != wide else 0
            before = wide
    return total + before * outputs + outputs


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_preact_resnet18_has_the_known_number_of_weights(norm):
    model = build({"kind": "preact_resnet18", "norm": norm}, (3, 32, 32), 10)
    assert weights(model) == by_hand(3, 64, (2, 2, 2, 2), 10) == 11_171_146


@pytest.mark.parametrize(
    ("depth", "width", "blocks"), [(1, 4, [1]), (3, 6, [2, 1]), (2, 5, [1, 2, 1])]
)
def test_others_have_the_number_that_follows_from_their_settings(depth, width, blocks):
    model = build({"kind": "preact_resnet", "width": width, "blocks": blocks}, (depth, 8, 8), 7)
    assert weights(model) == by_hand(depth, width, blocks, 7)


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_there_is_nothing_but_weights(norm):
    assert list(build({"kind": "preact_resnet", "norm": norm}).buffers()) == []


def alone_and_together(norm, mode):
    model = getattr(build({"kind": "preact_resnet", "width": 4, "norm": norm}), mode)()
    x = images(6, 3, 8, 8)
    with torch.inference_mode():
        return model(x)[:1], model(x[:1])


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_group_norm_knows_no_batch_and_batch_norm_does_also_at_test_time(mode):
    together, alone = alone_and_together("group", mode)
    assert torch.allclose(together, alone, atol=1e-5)
    together, alone = alone_and_together("batch", mode)
    assert not torch.allclose(together, alone, atol=1e-2)


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_training_and_testing_compute_the_same(norm):
    model = build({"kind": "preact_resnet", "width": 4, "norm": norm})
    x = images(4, 3, 8, 8)
    with torch.inference_mode():
        assert torch.equal(model.train()(x), model.eval()(x))


def test_groups_fit_any_width():
    model = build({"kind": "preact_resnet", "width": 6, "norm": "group", "groups": 4})
    groups = [m.num_groups for m in model.modules() if isinstance(m, torch.nn.GroupNorm)]
    assert groups == [2, 2, 2, 4, 4, 4]  # of 6, 6, 6, 12, 12 and 24 channels


def test_each_stage_halves_the_image_and_doubles_the_width():
    model = build({"kind": "preact_resnet", "width": 4, "blocks": [1, 1, 1]})
    shapes = []
    x = images(2, 3, 12, 20)
    for part in model[:4]:
        x = part(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(4, 12, 20), (4, 12, 20), (8, 6, 10), (16, 3, 5)]


@pytest.mark.parametrize(
    ("model", "least", "shape"),
    [
        ("preact_resnet", 8, (3, 7, 8)),
        ("preact_resnet", 8, (3, 8, 7)),
        ("preact_resnet", 8, (64,)),
        ("preact_resnet18", 16, (3, 15, 15)),
        ({"kind": "preact_resnet", "blocks": [1]}, 2, (1, 1, 1)),
    ],
)
def test_images_that_are_too_small_are_one_sentence(model, least, shape):
    message = one_line(InputError, lambda: build(model, shape))
    assert f"needs images of at least {least} x {least} pixels, got examples {shape}" in message


def test_the_smallest_image_can_be_trained_on_alone():
    model = build({"kind": "preact_resnet", "width": 2}, (1, 8, 8)).train()
    model(images(1, 1, 8, 8)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    "options", [{"norm": "layer"}, {"blocks": []}, {"blocks": [2, 1001]}, {"width": 0}]
)
def test_wrong_settings_are_one_sentence(options):
    from mmfl.models import PreactResnet

    assert one_line(ConfigError, lambda: PreactResnet(**options)).startswith("PreactResnet: ")
