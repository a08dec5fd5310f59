"""A named data set made smaller: which examples stay, and what becomes of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmfl.data import DATASETS, Arrays, Reduced
from mmfl.errors import DataError
from support.helpers import one_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With `images`, `coloured` (real numbers) and `table`, 50 + 30 examples each."""
    sets = {
        "images": np.arange(80 * 5 * 4, dtype=np.uint8).reshape(80, 5, 4),
        "coloured": np.linspace(0, 1, 80 * 4 * 4 * 3, dtype=np.float32).reshape(80, 4, 4, 3),
        "table": np.linspace(0, 1, 160, dtype=np.float32).reshape(80, 2),
    }
    for name, x in sets.items():
        y = np.arange(80) % 3
        parts: dict[str, Any] = {"x_train": x[:50], "y_train": y[:50]}
        parts |= {"x_test": x[50:], "y_test": y[50:], "groups": np.arange(50)}
        np.savez(tmp_path / f"{name}.npz", **parts)
    return tmp_path


def load(folder: Path, name: str = "images", **settings: Any) -> Arrays:
    return Reduced(name, **settings).load(folder)


def test_without_settings_it_is_the_named_data_set(folder: Path) -> None:
    whole, same = DATASETS.parse("images").load(folder), load(folder)
    for part in ("x_train", "y_train", "x_test", "y_test", "groups"):
        np.testing.assert_array_equal(getattr(whole, part), getattr(same, part))


def test_examples_keep_their_targets_and_groups(folder: Path) -> None:
    whole, some = load(folder), load(folder, train=20, test=7)
    assert (len(some.y_train), len(some.y_test)) == (20, 7)
    assert some.groups is not None
    np.testing.assert_array_equal(some.x_train, whole.x_train[some.groups])
    np.testing.assert_array_equal(some.y_train, whole.y_train[some.groups])


def test_a_smaller_choice_is_part_of_a_larger_one(folder: Path) -> None:
    few, many = load(folder, train=10).groups, load(folder, train=30).groups
    assert few is not None
    assert many is not None
    assert set(few.tolist()) < set(many.tolist())
    assert few.tolist() != list(range(10)), "chosen at random, not the first ones"


def test_a_pixel_is_the_mean_of_a_square_and_bytes_are_rounded(folder: Path) -> None:
    whole, small = load(folder), load(folder, shrink=2)
    assert small.x_train.shape == (50, 2, 2), "the fifth row is cut off"
    assert small.x_train.dtype == np.uint8
    square = whole.x_train[3, 2:4, 0:2].astype(float)
    assert small.x_train[3, 1, 0] == round(square.mean())


def test_channels_of_real_numbers_are_shrunk_separately(folder: Path) -> None:
    whole, small = load(folder, "coloured"), load(folder, "coloured", shrink=4)
    assert small.x_test.shape == (30, 1, 1, 3)
    np.testing.assert_allclose(small.x_test[:, 0, 0], whole.x_test.mean(axis=(1, 2)), rtol=1e-6)


def test_many_images_are_shrunk_like_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = load(folder, shrink=2)
    monkeypatch.setattr("mmfl.data.reduced._BATCH", 7)
    np.testing.assert_array_equal(load(folder, shrink=2).x_train, at_once.x_train)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("images", {"train": 51}, "has 50 train examples, but train = 51"),
        ("images", {"test": 31}, "has 30 test examples, but test = 31"),
        ("images", {"shrink": 5}, "shrink must be at most 4"),
        ("table", {"shrink": 2}, "shrink is for images"),
        ("absent", {}, "has no absent.npz"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    folder: Path, name: str, settings: dict[str, Any], words: str
) -> None:
    assert words in one_line(DataError, lambda: load(folder, name, **settings))


def test_noise_draws_some_training_labels_anew_and_leaves_the_test_alone(folder: Path) -> None:
    clean, noisy = load(folder), load(folder, noise=0.5)
    other = np.flatnonzero(clean.y_train != noisy.y_train)
    assert 8 <= len(other) <= 25, "a third of the drawn labels are right by chance"
    np.testing.assert_array_equal(clean.y_test, noisy.y_test)
    np.testing.assert_array_equal(clean.x_train, noisy.x_train)
    np.testing.assert_array_equal(noisy.y_train, load(folder, noise=0.5).y_train)


def test_an_example_has_the_same_wrong_label_in_a_smaller_choice(folder: Path) -> None:
    all_of_them, some = load(folder, noise=0.5), load(folder, noise=0.5, train=20)
    np.testing.assert_array_equal(some.y_train, all_of_them.y_train[some.groups])


def test_real_targets_have_no_wrong_labels(tmp_path: Path) -> None:
    x, y = np.ones((6, 2), np.float32), np.linspace(0, 1, 6)
    np.savez(tmp_path / "real.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    said = one_line(DataError, lambda: load(tmp_path, "real", noise=0.1))
    assert said == "data set 'real': noise is for classes, not for real targets"


def test_without_noise_nothing_is_written_about_it() -> None:
    assert "noise" not in DATASETS.dump(Reduced("images"))
    assert DATASETS.dump(Reduced("images", noise=0.5))["noise"] == 0.5
