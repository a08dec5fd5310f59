"""Scaling and random changes of examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.data import NORMALIZATIONS, Arrays, Augment, AutoNormalize
from mmfl.data.preparation import Given, Half, Standard, Unscaled
from mmfl.errors import ConfigError, DataError
from mmfl.rng import stream
from support.helpers import one_line

SHAPES = {"table": (5,), "grey": (4, 6), "colour": (4, 6, 3)}


def arrays(x) -> Arrays:
    x = np.asarray(x)
    y = np.arange(len(x)) % 2
    return Arrays.check("it", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})


def drawn(shape, dtype, size=400):
    g = np.random.default_rng(0)
    if dtype == np.uint8:
        return g.integers(0, 256, (size, *shape), dtype=np.uint8)
    return (g.normal(3.0, 2.0, (size, *shape)) * (1 + np.arange(shape[-1]))).astype(dtype)


def axes(x):
    """Over which the statistics of a channel or a feature are taken."""
    return {2: 0, 3: (0, 1, 2), 4: (0, 1, 2)}[x.ndim]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_statistics_are_those_of_float64(shape, dtype):
    x = drawn(shape, dtype)
    mean, std = Standard().scaling(arrays(x))
    exact = x.astype(np.float64)
    assert mean.dtype == std.dtype == np.float32
    np.testing.assert_allclose(mean, exact.mean(axes(x)).reshape(-1), rtol=1e-6)
    np.testing.assert_allclose(std, exact.std(axes(x)).reshape(-1), rtol=1e-6)


@given(
    offset=st.floats(-1e6, 1e6).map(np.float32),
    scale=st.sampled_from([1e-12, 1e-4, 1.0, 1e8]),
    size=st.integers(2, 60),
)
def test_neither_a_large_offset_nor_a_small_scale_spoils_them(offset, scale, size):
    noise = np.random.default_rng(size).standard_normal((size, 2))
    noise[:, 1] += float(offset)
    x = (noise * scale).astype(np.float32)
    exact = x.astype(np.float64)
    mean, std = Standard().scaling(arrays(x))
    np.testing.assert_allclose(std, exact.std(0), rtol=1e-6)
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3e5, 1e-20, 1e20])
def test_a_feature_that_never_changes_becomes_0(value):
    x = np.column_stack([np.full(100, value), np.arange(100)]).astype(np.float32)
    mean, std = Standard().scaling(arrays(x))
    assert std[0] == 1
    assert np.array_equal((x[:, 0] - mean[0]) / std[0], np.zeros(100))
    assert std[1] == np.float32(x[:, 1].std(dtype=np.float64))


def test_statistics_in_pieces_are_those_of_the_whole():
    x = np.random.default_rng(0).integers(0, 256, (3000, 1000), dtype=np.uint8)
    mean, std = Standard().scaling(arrays(x))
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(std, x.std(0), rtol=1e-6)


@pytest.mark.parametrize("normalize", [AutoNormalize(), Half()])
def test_byte_images_go_from_minus_1_to_1(normalize):
    mean, std = normalize.scaling(arrays(drawn((4, 4), np.uint8)))
    assert (mean.tolist(), std.tolist()) == ([127.5], [127.5])


def test_only_byte_images_are_scaled_by_themselves():
    for x in (drawn((4,), np.uint8), drawn((4, 4), np.float32), np.ones((4, 4), np.int64)):
        assert AutoNormalize().scaling(arrays(x)) is None
    assert Unscaled().scaling(arrays(drawn((4, 4), np.uint8))) is None


def test_half_means_the_same_for_pixels_of_either_type():
    mean, std = Half().scaling(arrays(np.array([[[0.0]], [[1.0]]])))
    assert ((np.array([0, 1]) - mean) / std).tolist() == [-1, 1]


@pytest.mark.parametrize(("dtype", "unit"), [(np.uint8, 255), (np.float32, 1)])
def test_given_numbers_are_of_a_pixel_from_0_to_1(dtype, unit):
    given_ = Given(mean=[0.1, 0.2, 0.3], std=0.5)
    mean, std = given_.scaling(arrays(drawn((4, 4, 3), dtype)))
    np.testing.assert_allclose(mean, np.array([0.1, 0.2, 0.3]) * unit, rtol=1e-6)
    np.testing.assert_allclose(std, [0.5 * unit], rtol=1e-6)


@pytest.mark.parametrize(("shape", "depth"), [((5,), 5), ((4, 6), 1), ((4, 6, 3), 3)])
@pytest.mark.parametrize("name", ["mean", "std"])
def test_given_numbers_of_the_wrong_length_are_one_sentence(shape, depth, name):
    given_ = Given(**{"mean": 0.5, "std": 0.5, name: [0.5] * 4})
    message = one_line(DataError, lambda: given_.scaling(arrays(drawn(shape, np.float32))))
    assert f"normalize.{name} must be one number or {depth}, one per channel" in message
    assert message.endswith("got 4")


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"mean": 0.5}, "std is missing"),
        ({"mean": 0.5, "std": 0}, "std must be above 0, got 0"),
        ({"mean": 0.5, "std": [1, -1]}, "std must be above 0, got -1"),
        ({"mean": [], "std": 1}, "must be a number or a list with one per channel, got []"),
        ({"mean": "half", "std": 1}, "must be a number or a list with one per channel, got 'half'"),
        ({"mean": True, "std": 1}, "must be a number or a list with one per channel, got True"),
        ({"mean": float("nan"), "std": 1}, "must be a number or a list with one per channel"),
        ({"mean": float("inf"), "std": 1}, "mean must be between -1e+30 and 1e+30, got inf"),
        ({"mean": 10**400, "std": 1}, "mean must be between -1e+30 and 1e+30, got 1000"),
        ({"mean": 0, "std": [1, 1e39]}, "std must be between -1e+30 and 1e+30, got [1, 1e+39]"),
        ({"mean": 0, "std": 1e-50}, "std must be at least 1e-30, got 1e-50"),
    ],
)
def test_given_numbers_that_are_none_are_one_sentence(options, rule):
    assert rule in one_line(ConfigError, lambda: Given(**options))


@pytest.mark.parametrize("kind", ["half", "standard", "given"])
def test_tokens_are_not_scaled(kind):
    needed = {"given": {"mean": 0, "std": 1}}.get(kind, {})
    normalize = NORMALIZATIONS.parse({"kind": kind, **needed})
    tokens = arrays(np.arange(8).reshape(4, 2))
    message = one_line(DataError, lambda: normalize.scaling(tokens))
    assert message == f"examples that are whole numbers cannot be scaled (normalize = {kind!r})"


# Random crops and flips

IMAGES = st.tuples(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.sampled_from([(), (1,), (3,)])
).map(lambda s: (s[0], s[1], s[2], *s[3]))


@given(IMAGES, st.integers(0, 3), st.booleans(), st.integers(0, 99))
def test_every_image_is_a_window_of_itself_with_a_black_border(shape, crop, flip, seed):
    x = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(np.uint8)
    before = x.copy()
    found = Augment(crop=crop, flip=flip).apply(x, rng=stream(seed, "augment"))
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert np.array_equal(x, before)
    _, height, width, *_ = shape
    for one, out in zip(x, found, strict=True):
        padded = np.pad(one, ((crop, crop), (crop, crop), *((0, 0),) * (one.ndim - 2)))
        windows = [
            padded[top : top + height, left : left + width]
            for top in range(2 * crop + 1)
            for left in range(2 * crop + 1)
        ]
        windows += [window[:, ::-1] for window in windows] if flip else []
        assert any(np.array_equal(out, window) for window in windows)


def test_flips_are_fair_and_places_are_uniform_and_independent():
    x = np.zeros((6000, 5, 5), np.uint8)
    x[:, 2, 2], x[:, 2, 3] = 1, 2  # a mark, and to which side it points
    found = Augment(crop=1, flip=True).apply(x, rng=stream(0, "augment"))
    image, row, column = np.nonzero(found == 1)
    assert np.array_equal(image, np.arange(6000))
    flipped = found[image, row, column - 1] == 2
    assert 0.47 < flipped.mean() < 0.53
    counts = np.bincount(((row - 1) * 3 + column - 1) * 2 + flipped, minlength=18)
    chi2 = ((counts - 6000 / 18) ** 2 / (6000 / 18)).sum()
    assert chi2 < 40.8  # the 99.9 % quantile for 17 degrees of freedom


def test_the_same_address_gives_the_same_changes():
    x = drawn((8, 8), np.uint8, size=50)
    one, same, other = (
        Augment(crop=2, flip=True).apply(x, rng=stream(seed, "augment")) for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_without_settings_nothing_is_done_or_drawn():
    rng, untouched = stream(0, "a"), stream(0, "a")
    x = drawn((3,), np.float32)
    assert Augment().apply(x, rng=rng) is x
    assert rng.random() == untouched.random()
    assert not Augment()
    assert Augment(flip=True)


def test_tables_are_not_images():
    change = Augment(flip=True)
    x = drawn((3,), np.float32)
    message = one_line(DataError, lambda: change.apply(x, rng=stream(0, "a")))
    assert message == "augment is for images, not for tables"
