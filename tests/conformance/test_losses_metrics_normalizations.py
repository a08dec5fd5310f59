"""What every loss, metric and normalisation must do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mmfl.data import NORMALIZATIONS, Arrays
from mmfl.experiment import Task
from mmfl.objectives import (
    LOSSES,
    METRICS,
    are_possible,
    best_value,
    find_sums_shape,
    is_pooled,
)
from support.measuring import measure

N, C = 12, 3


def arrays(y, x=None) -> Arrays:
    x = np.random.default_rng(1).integers(0, 256, (N, 6, 6, 2), np.uint8) if x is None else x
    return Arrays.check("it", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})


def sample(targets: str) -> tuple[Arrays, torch.Tensor]:
    """Data, and outputs that are exactly right."""
    y = np.random.default_rng(0).integers(0, 2, (N, 2))
    if targets == "classes":
        data = arrays(np.arange(N) % C)
        return data, 50.0 * torch.eye(C)[torch.tensor(data.y_train)]
    return arrays(y.astype(np.float32)), torch.tensor(y, dtype=torch.float32)


@pytest.fixture(params=sorted(LOSSES.table))
def loss(request):
    return LOSSES.parse(request.param)


@pytest.fixture(params=sorted(METRICS.table))
def metric(request):
    return METRICS.parse(request.param)


def logits_of(loss, right):
    """Outputs that mean `right`: a logit is far from 0."""
    kind = LOSSES.kind_of(loss)
    return 100 * (right - 0.5) if kind == "binary_cross_entropy" else right


def test_a_loss_is_least_for_the_truth_and_has_a_finite_gradient(loss):
    data, right = sample(loss.targets)
    y, right = torch.tensor(data.y_train), logits_of(loss, right)
    best = loss.mean(right, y).item()
    assert best == pytest.approx(0, abs=1e-6)
    wrong = (-right + 0.3).requires_grad_()
    mean = loss.mean(wrong, y)
    assert mean.item() > 0.1
    mean.backward()
    assert torch.isfinite(wrong.grad).all()
    assert wrong.grad.abs().sum() > 0


def test_a_loss_is_the_mean_over_examples(loss):
    data, right = sample(loss.targets)
    y, outputs = torch.tensor(data.y_train), torch.flip(right, [0]) + 0.1
    each = [loss.mean(outputs[k : k + 1], y[k : k + 1]).item() for k in range(N)]
    assert loss.mean(outputs, y).item() == pytest.approx(np.mean(each), rel=1e-5)


def test_a_loss_names_a_metric_that_fits_it(loss):
    data, right = sample(loss.targets)
    suits = METRICS.parse(Task(name="a", dataset="x", loss=loss).loss.metric)
    right = logits_of(loss, right)
    best = suits.on(data, loss)(right, torch.tensor(data.y_train)).mean().item()
    assert best == (1.0 if suits.better == "higher" else 0.0)


REAL = ("binary_accuracy", "mae", "mse", "r2", "loss")


@pytest.fixture
def suited(metric):
    """A metric, and data with outputs that are exactly right for it."""
    kind = METRICS.kind_of(metric)
    if kind == "top_k":
        metric = METRICS.parse({"kind": "top_k", "k": 1})
    data, right = sample("real" if kind in REAL else "classes")
    return metric, data, 2 * right - 1 if kind == "binary_accuracy" else right


def test_a_metric_is_best_for_the_truth_and_within_its_bounds(suited):
    metric, data, right = suited
    y, wrong = data.y_train, torch.roll(right, 1, 0) * 0.9
    loss = "cross_entropy" if data.classes else "mse"
    best, worse = (measure(metric, outputs, y, data, loss=loss) for outputs in (right, wrong))
    sign = 1 if metric.better == "higher" else -1
    assert sign * best > sign * worse
    low, high = metric.bounds
    for found in (best, worse):
        assert low <= found <= high
    assert best == pytest.approx(best_value(metric), abs=1e-6) or METRICS.kind_of(metric) == "loss"


def test_a_metric_gives_a_number_per_example_or_its_mean_or_sums_of_its_shape(suited):
    metric, data, right = suited
    found = metric.on(data, LOSSES.parse("mse"))(right, torch.tensor(data.y_train))
    low, high = metric.bounds
    if is_pooled(metric):
        assert tuple(found.shape) == find_sums_shape(metric, data)
        assert found.dtype == torch.float64
        assert are_possible(metric, found.numpy(), tuple(found.shape), N)
        assert not are_possible(metric, -1 - found.numpy(), tuple(found.shape), N)
    else:
        assert found.shape in ((), (N,))
        assert low <= found.min() <= found.max() <= high


@pytest.mark.parametrize("seen", [[0], [1, 1], [2, 0, 2]])
@pytest.mark.parametrize("said", [0, 1])
def test_a_metric_has_a_finite_value_where_classes_are_missing(suited, seen, said):
    metric, data, right = suited
    places = [seen[0]] * len(seen)  # of examples in `data`: no other class
    outputs = right[[said] * len(seen)]
    for rows in (places, seen):
        value = measure(
            metric,
            outputs,
            data.y_train[rows],
            data,
            loss="mse" if data.classes is None else "cross_entropy",
        )
        assert np.isfinite(value)


@pytest.mark.parametrize("kind", sorted(NORMALIZATIONS.table))
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(N, 5), (N, 6, 6), (N, 6, 6, 2)])
def test_a_scaling_is_a_mean_and_a_positive_deviation_for_all_or_each(kind, dtype, shape):
    needed = {"given": {"mean": 0.5, "std": 2}}.get(kind, {})
    normalize = NORMALIZATIONS.parse({"kind": kind, **needed})
    x = np.random.default_rng(1).integers(0, 256, shape).astype(dtype)
    data = arrays(np.arange(N), x)
    before = data.x_train.copy()
    found = normalize.scaling(data)
    assert np.array_equal(data.x_train, before)
    if found is not None:
        for part in found:
            assert part.dtype == np.float32
            assert part.shape in ((1,), (data.shape[0],))
            assert np.isfinite(part).all()
        assert (found[1] > 0).all()
