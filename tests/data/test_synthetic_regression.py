"""Regression data that is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from mmfl.data import SyntheticRegression


def test_targets_are_standardised_and_the_seed_decides() -> None:
    one, other = SyntheticRegression().load(None), SyntheticRegression(seed=1).load(None)
    assert one.classes is None
    assert (one.x_train.shape, one.y_test.shape) == ((2000, 8), (500,))
    assert abs(one.y_train.mean()) < 0.05
    assert one.y_train.std() == pytest.approx(1, abs=0.05)
    assert not np.array_equal(one.x_train, other.x_train)


def test_noise_is_a_share_of_the_variance() -> None:
    clean, noisy = (SyntheticRegression(noise=share).load(None) for share in (0.0, 0.3))
    np.testing.assert_array_equal(clean.x_test, noisy.x_test)
    rest = noisy.y_test - np.sqrt(0.7) * clean.y_test
    assert rest.var() == pytest.approx(0.3, abs=0.05)


def test_the_least_data_is_finite() -> None:
    least = SyntheticRegression(features=1, units=1, train=2, test=1).load(None)
    assert np.isfinite(least.y_train).all()
