"""What every data set, score and learning-rate schedule must do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl.data import DATASETS, keep_data
from mmfl.experiment import SCHEDULES, Task
from mmfl.objectives import SCORES, Measured


@pytest.fixture(params=sorted(set(DATASETS.table) - {"at_nodes"}))  # whose nodes have it
def arrays(request, tmp_path):
    x = np.arange(80, dtype=np.uint8).reshape(20, 2, 2)
    y = np.arange(20) % 3
    np.savez(tmp_path / "x.npz", x_train=x, y_train=y, x_test=x[:5], y_test=y[:5])
    (tmp_path / "x.csv").write_text("a,y\n" + "".join(f"{k},{k % 3}\n" for k in range(20)))
    name = {"name": "x"}
    kept = keep_data((x, y, x[:5], y[:5]), "data")
    if request.param == "image_folder":
        picture = pytest.importorskip("PIL.Image")
        for number, pixels in enumerate([*x, *x[:5]]):
            split = "train" if number < 20 else "test"
            file = tmp_path / f"images/{split}/{number % 3}/{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            picture.fromarray(pixels).save(file)
    needed = {
        "image_folder": {"path": "images", "size": [2, 2]},
        "csv": {"path": "x.csv", "test": "x.csv"},
        "in_memory": {"hash": kept.hash},
        "named": name,
        "npz": {"path": "x.npz"},
        "parquet": {"path": "x.parquet", "test": "x.parquet"},
        "reduced": name,
    }
    if request.param == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pytest.importorskip("pyarrow").table({"a": x[:, 0, 0], "y": y})
        parquet.write_table(table, tmp_path / "x.parquet")
    dataset = DATASETS.parse({"kind": request.param, **needed.get(request.param, {})})
    return dataset.load(tmp_path), dataset.load(tmp_path)


def test_a_data_set_is_complete_and_the_same_every_time(arrays):
    one, same = arrays
    for x, y in ((one.x_train, one.y_train), (one.x_test, one.y_test)):
        assert len(x) == len(y) > 0
        if one.classes is None:
            assert y.dtype == np.float32
        else:
            assert y.dtype == np.int64
            assert 0 <= y.min() <= y.max() < one.classes
        assert x.shape[1:] == one.x_train.shape[1:]
    assert np.array_equal(one.x_train, same.x_train)
    assert len(one.shape) in (1, 3)


@pytest.mark.parametrize("kind", sorted(SCORES.table))
def test_a_score_is_higher_for_the_worse_off_and_never_negative(kind):
    score = SCORES.parse(kind)
    task = Task(name="a", dataset="x", metric="accuracy", target=0.99)
    good, bad = Measured(0.1, 0.95, 10, 2.3), Measured(2.0, 0.3, 10, 2.3)
    assert 0 <= score.difficulty(good, task) < score.difficulty(bad, task)
    task = Task(name="a", dataset="x", metric="mae", target=0.01)
    good, bad = Measured(0.1, 0.2, 10, 2.3), Measured(2.0, 0.9, 10, 2.3)
    assert 0 <= score.difficulty(good, task) < score.difficulty(bad, task)


@pytest.mark.parametrize("kind", sorted(SCHEDULES.table))
def test_a_learning_rate_is_positive_finite_and_does_not_rise(kind):
    needed = {"inverse": {"mu": 0.1, "gamma": 8.0}}.get(kind, {})
    schedule = SCHEDULES.parse({"kind": kind, **needed})
    rates = [schedule.rate(t) for t in range(50)]
    assert all(rate > 0 and math.isfinite(rate) for rate in rates)
    assert rates == sorted(rates, reverse=True)
