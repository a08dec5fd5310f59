"""From rows to tensors: shape, layout, scale, and changes in training only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl.data import Arrays, Augment, AutoNormalize
from mmfl.data.preparation import Given, Half, Standard, Unscaled
from mmfl.errors import DataError
from mmfl.models import MODELS
from mmfl.rng import stream
from mmfl.train.inputs import Inputs
from mmfl.train.layers import supports_channels_last
from support.helpers import one_line

G = np.random.default_rng(0)
COLOUR = G.integers(0, 256, (20, 5, 7, 3), np.uint8)
ROWS = np.array([3, 1, 12])


def inputs(x, normalize=Unscaled(), augment=Augment()) -> Inputs:  # noqa: B008
    y = np.arange(len(x))
    data = Arrays.check("it", {"x_train": x, "y_train": y, "x_test": x[::-1], "y_test": y})
    return Inputs(data, normalize, augment)


@pytest.mark.parametrize(
    ("x", "shape"),
    [(COLOUR, (3, 3, 5, 7)), (COLOUR[..., 0], (3, 1, 5, 7)), (COLOUR[:, 0, 0], (3, 3))],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_model_sees_channels_first(x, shape, dtype):
    found, y = inputs(x.astype(dtype)).train(ROWS)
    assert tuple(found.shape) == shape
    assert found.dtype == torch.float32
    assert y.tolist() == ROWS.tolist()
    plain = x[ROWS].astype(np.float32)
    if found.ndim == 4:
        assert found.is_contiguous(memory_format=torch.channels_last)
        plain = plain.reshape(3, 5, 7, -1).transpose(0, 3, 1, 2)
    assert np.array_equal(found.numpy(), plain)


def test_tokens_are_given_as_they_are():
    tokens = G.integers(0, 50, (20, 6))
    found, _ = inputs(tokens, AutoNormalize()).train(ROWS)
    assert found.dtype == torch.int64
    assert np.array_equal(found.numpy(), tokens[ROWS])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("normalize", [Standard(), Half(), Given(mean=[0.1, 0.2, 0.3], std=0.5)])
def test_scaling_is_by_channel_in_training_and_in_tests(normalize, dtype):
    made = inputs(COLOUR.astype(dtype), normalize)
    data = Arrays.check(
        "it", {"x_train": COLOUR.astype(dtype), "y_train": np.arange(20),
               "x_test": COLOUR.astype(dtype), "y_test": np.arange(20)},
    )  # fmt: skip
    mean, std = normalize.scaling(data)
    scaled = (COLOUR.astype(np.float64) - mean) / std
    for batch, rows in ((made.train, ROWS), (made.test, 19 - ROWS)):
        found, _ = batch(rows)
        np.testing.assert_allclose(found.permute(0, 2, 3, 1).numpy(), scaled[ROWS], rtol=1e-5)


def test_scaled_to_mean_0_and_deviation_1():
    found, _ = inputs(COLOUR, Standard()).train(np.arange(20))
    np.testing.assert_allclose(found.mean((0, 2, 3)).numpy(), 0, atol=1e-6)
    np.testing.assert_allclose(found.std((0, 2, 3), correction=0).numpy(), 1, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_data_itself_is_never_changed(dtype):
    x = COLOUR.astype(dtype)
    before = x.copy()
    made = inputs(x, Half(), Augment(crop=1, flip=True))
    for _ in range(2):
        made.train(ROWS, rng=stream(0, "a"))[0].zero_()
        made.test(ROWS)[0].zero_()
    assert np.array_equal(x, before)


def test_only_training_with_a_stream_is_augmented():
    plain, changed = inputs(COLOUR), inputs(COLOUR, augment=Augment(crop=2, flip=True))
    rows = np.arange(20)
    assert torch.equal(changed.train(rows)[0], plain.train(rows)[0])
    assert torch.equal(changed.test(rows)[0], plain.test(rows)[0])
    one, same, other = (changed.train(rows, rng=stream(s, "a"))[0] for s in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, plain.train(rows)[0])


def test_the_border_of_a_crop_is_black_before_it_is_scaled():
    white = np.full((8, 4, 4), 255, np.uint8)
    found, _ = inputs(white, Half(), Augment(crop=3)).train(np.arange(8), rng=stream(0, "a"))
    assert set(found.unique().tolist()) == {-1.0, 1.0}


def test_an_augmented_table_is_refused_before_training():
    message = one_line(DataError, lambda: inputs(COLOUR[:, 0, 0], augment=Augment(flip=True)))
    assert message == "augment is for images, not for tables"


def conv(depth, side, stride, groups=1):
    return nn.Sequential(nn.Conv2d(depth, 8, side, stride, groups=groups), nn.ReLU())


class Viewing(nn.Module):
    """A user's network: its `forward` needs the usual layout."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.last = nn.Linear(4 * 5 * 7, 20)

    def forward(self, x):
        return self.last(self.conv(x).view(len(x), -1))


def test_channels_last_is_left_to_networks_that_support_it():
    assert all(supports_channels_last(conv(*c)) for c in ((8, 1, 2), (4, 1, 1), (4, 3, 2)))
    assert not any(supports_channels_last(conv(*c)) for c in ((4, 1, 2), (8, 1, 2, 8)))
    assert supports_channels_last(MODELS.parse("preact_resnet").build((3, 16, 16), 2))
    hooked, patched = conv(8, 3, 1), conv(8, 3, 1)
    hooked[0].register_forward_hook(lambda module, given, found: None)
    patched[0].forward = lambda x: x
    assert not any(map(supports_channels_last, (hooked, patched, Viewing())))
    asked = Viewing().to(memory_format=torch.channels_last)
    assert supports_channels_last(asked)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("depth", [1, 3])
def test_images_lie_channels_last_or_not(last, depth):
    x = COLOUR[..., :depth]
    data = Arrays.check("it", {"x_train": x, "y_train": np.arange(20), "x_test": x, "y_test": np.arange(20)})  # fmt: skip # noqa: E501
    found, _ = Inputs(data, Unscaled(), Augment(), channels_last=last).train(ROWS)
    assert (found.stride(1) == 1) == last
    assert np.array_equal(found.numpy(), x[ROWS].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("given", [Viewing, lambda: Viewing().requires_grad_()])
def test_view_after_a_convolution_works(given):
    y = np.arange(20)
    task = mmfl.Task("a", data=(COLOUR, y, COLOUR, y), model=given)
    ((_, record),) = mmfl.rounds(
        mmfl.Experiment(tasks=[task], clients=2, rounds=1, engine="inline")
    )
    assert record.failures == ()
