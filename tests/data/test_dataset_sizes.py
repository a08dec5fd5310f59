"""What a data set takes in memory is known before it is loaded, and is no exaggeration."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mmfl.data import Named, Npz, Synthetic
from mmfl.errors import ConfigError


def test_noise_is_not_larger_than_float32_can_bear():
    assert np.isfinite(Synthetic(noise=1e30, train=50).load(None).x_train).all()
    with pytest.raises(ConfigError, match="noise must be less than or equal to 1"):
        Synthetic(noise=1e39)


def test_what_a_synthetic_set_needs_is_known_and_is_no_exaggeration():
    data = Synthetic(classes=3, shape=(20, 30), train=900, test=500)
    tracemalloc.start()
    loaded = data.load(None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert loaded.x_train.nbytes + loaded.x_test.nbytes < data.bytes_needed(None) < 1.01 * peak


def test_what_an_npz_file_needs_is_read_from_its_heads(tmp_path):
    x, y = np.zeros((40, 5, 6), np.uint8), np.arange(40) % 3
    np.savez_compressed(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x[:10], y_test=y[:10])
    wanted = 50 * 5 * 6 + 50 * y.itemsize
    assert Named("a").bytes_needed(tmp_path) == wanted
    assert Npz("a.npz").bytes_needed(tmp_path) == wanted
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    assert Named("a").bytes_needed(tmp_path) == Named("letters").bytes_needed(tmp_path) == 0
