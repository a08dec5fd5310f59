"""Every metric against its formula in plain NumPy; pieces add up; a user's own function."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmfl import Experiment
from mmfl.data import Arrays
from mmfl.errors import ConfigError, InputError
from mmfl.experiment import Task
from mmfl.objectives import LOSSES, METRICS
from support.helpers import one_line
from support.measuring import measure

pytestmark = pytest.mark.usefixtures("imports")

G = np.random.default_rng(0)
CLASSES = Arrays.check(
    "it", {"x_train": np.zeros((50, 1)), "y_train": np.arange(50) % 4,
           "x_test": np.zeros((2, 1)), "y_test": [0, 1]},
)  # fmt: skip


def real(y) -> Arrays:
    x = np.zeros((len(y), 1))
    return Arrays.check("it", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})


def values(metric, outputs, targets, data, loss="mse"):
    found = METRICS.parse(metric).on(data, LOSSES.parse(loss))
    return found(torch.as_tensor(outputs), torch.as_tensor(targets)).numpy()


WIDE = real(G.normal(5, 3, (40, 2)).astype(np.float32))
SEQUENCE = G.integers(0, 4, (9, 5))
LOGITS = G.standard_normal((9, 4), np.float32)
LABELS = G.integers(0, 4, 9)


def test_accuracy_and_top_k_count_hits():
    order = (-LOGITS).argsort(1)
    assert np.array_equal(values("accuracy", LOGITS, LABELS, CLASSES), order[:, 0] == LABELS)
    for k in (1, 2, 3):
        exact = (order[:, :k] == LABELS[:, None]).any(1)
        assert np.array_equal(values({"kind": "top_k", "k": k}, LOGITS, LABELS, CLASSES), exact)


@pytest.mark.parametrize("k", [4, 100])
def test_top_k_of_all_classes_is_refused(k):
    message = one_line(
        InputError, lambda: values({"kind": "top_k", "k": k}, LOGITS, LABELS, CLASSES)
    )
    assert message == f"metric top_k: k must be below the 4 classes, got {k}"


def test_a_sequence_counts_with_the_share_of_its_places():
    logits = G.standard_normal((9, 4, 5), np.float32)
    hits = logits.argmax(1) == SEQUENCE
    np.testing.assert_allclose(values("accuracy", logits, SEQUENCE, CLASSES), hits.mean(1))
    near = ((-logits).argsort(1)[:, :2] == SEQUENCE[:, None]).any(1)
    found = values({"kind": "top_k", "k": 2}, logits, SEQUENCE, CLASSES)
    np.testing.assert_allclose(found, near.mean(1))


@pytest.mark.parametrize("shape", [(9,), (9, 1), (9, 3), (9, 2, 3)])
def test_errors_of_real_numbers_are_means_over_an_examples_numbers(shape):
    a, b = G.standard_normal((2, *shape), np.float32)
    error = (a - b).reshape(9, -1).astype(np.float64)
    np.testing.assert_allclose(values("mae", a, b, WIDE), np.abs(error).mean(1), rtol=1e-5)
    np.testing.assert_allclose(values("mse", a, b, WIDE), (error**2).mean(1), rtol=1e-5)
    yes = (b > 0).astype(np.float32)
    right = ((a > 0) == (yes > 0)).reshape(9, -1).mean(1)
    np.testing.assert_allclose(values("binary_accuracy", a, yes, WIDE), right, rtol=1e-6)


def test_r2_is_0_for_the_mean_of_the_training_targets_and_1_for_the_truth():
    y = WIDE.y_train
    guess = np.tile(y.mean(0), (len(y), 1))
    assert values("r2", guess, y, WIDE).mean() == pytest.approx(0, abs=1e-6)
    assert np.array_equal(values("r2", y, y, WIDE), np.ones(len(y)))
    outputs = y + G.normal(0, 1, y.shape).astype(np.float32)
    residual, total = ((outputs - y) ** 2).sum(), ((y - y.mean(0)) ** 2).sum()
    assert values("r2", outputs, y, WIDE).mean() == pytest.approx(1 - residual / total, rel=1e-5)


def test_r2_of_targets_that_are_all_the_same_is_finite():
    y = np.full(5, 3.0, np.float32)
    assert values("r2", y, y, real(y)).tolist() == [1] * 5
    assert values("r2", y + 1, y, real(y)).tolist() == [0] * 5


@pytest.mark.parametrize("loss", ["cross_entropy", {"kind": "huber", "delta": 2.0}])
def test_the_loss_itself(loss):
    outputs, targets = (LOGITS, LABELS) if loss == "cross_entropy" else (LOGITS, LOGITS[::-1])
    targets = np.ascontiguousarray(targets)
    exact = LOSSES.parse(loss).mean(torch.tensor(outputs), torch.tensor(targets))
    assert values("loss", outputs, targets, CLASSES, loss) == exact.item()


SAMPLES = {
    "binary_accuracy": (LOGITS, (LOGITS[::-1] > 0).astype(np.float32), WIDE),
    "loss": (LOGITS, LOGITS[::-1].copy(), WIDE),
    "mae": (LOGITS, LOGITS[::-1].copy(), WIDE),
    "mse": (LOGITS, LOGITS[::-1].copy(), WIDE),
    "r2": (LOGITS, LOGITS[::-1].copy(), WIDE),
}


@pytest.mark.parametrize("kind", sorted(METRICS.table))
@given(size=st.integers(1, 9))
def test_pieces_of_any_size_add_up_to_the_whole(kind, size):
    outputs, targets, data = SAMPLES.get(kind, (LOGITS, LABELS, CLASSES))
    metric = METRICS.parse({"kind": kind, "k": 2} if kind == "top_k" else kind)
    whole = measure(metric, outputs, targets, data)
    assert measure(metric, outputs, targets, data, size) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("kind", ["binary_accuracy", "mae", "mse", "r2"])
@pytest.mark.parametrize("shape", [(2, 2), (2, 1), (1, 2)])
def test_outputs_are_never_stretched_to_other_targets(kind, shape):
    message = one_line(InputError, lambda: values(kind, np.zeros(shape), np.zeros(2), WIDE))
    assert message.endswith(f"of the targets' shape, got {shape} for (2,)")


@pytest.mark.parametrize("kind", ["accuracy", {"kind": "top_k", "k": 1}])
@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_hits_need_an_output_per_class(kind, shape):
    message = one_line(InputError, lambda: values(kind, np.zeros(shape), np.zeros(shape), WIDE))
    assert message.endswith(f"for each class number, got {shape} for {shape}")


# A user's own

ANSWERS = {
    "mean": lambda a, b: (a - b).abs().mean(),
    "each": lambda a, b: (a - b).abs().mean(1),
    "bool": lambda a, b: (a > b).all(1),
    "rows": lambda a, b: a - b,
    "float": lambda a, b: 0.5,
}


def own(outputs, targets, *, answer):
    return ANSWERS[answer](outputs, targets)


def of(answer="each", **options):
    return {"kind": f"{__name__}:own", "answer": answer, **options}


@pytest.mark.parametrize("answer", ["mean", "each", "bool"])
def test_a_function_gives_the_mean_or_a_number_per_example(answer):
    a, b = (torch.tensor(part) for part in (LOGITS, LOGITS[::-1].copy()))
    found = values(of(answer, better="lower", bounds=[0, 9]), a, b, WIDE)
    assert np.array_equal(found, ANSWERS[answer](a, b).numpy())


@pytest.mark.parametrize(("answer", "got"), [("rows", "shape (9, 4)"), ("float", "float")])
def test_a_function_that_gives_anything_else_is_one_sentence(answer, got):
    message = one_line(InputError, lambda: values(of(answer), LOGITS, LOGITS, WIDE))
    said = rf"must return one number or one per example \(9\), got (a )?{re.escape(got)}.*"
    assert re.search(rf"{said} \(test_metrics.py, line \d+\)$", message)


def test_a_function_says_which_values_are_better_and_possible():
    plain = METRICS.parse(of())
    assert (plain.better, plain.bounds) == ("higher", (-math.inf, math.inf))
    told = METRICS.parse(of(better="lower", bounds=[0, 2.5]))
    assert (told.better, told.bounds) == ("lower", (0.0, 2.5))
    assert METRICS.parse(METRICS.dump(told)) == told


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"better": "up"}, 'tasks[0].metric.better must be "higher" or "lower", got \'up\''),
        ({"bounds": 3}, "tasks[0].metric.bounds must be two numbers, got 3"),
        ({"bounds": [1]}, "bounds must be two numbers, got [1]"),
        ({"bounds": [0, True]}, "bounds must be two numbers, got [0, True]"),
        ({"bounds": ["a", "b"]}, "bounds must be two numbers"),
        ({"bounds": [1, 0]}, "bounds must be [low, high] with low < high, got [1, 0]"),
        ({"bounds": [float("nan"), 0]}, "bounds must be [low, high] with low < high"),
    ],
)
def test_wrong_options_are_one_sentence(options, rule):
    table = {"rounds": 1, "clients": {"count": 2}}
    task = {"name": "a", "dataset": "x", "metric": of(**options)}
    make = lambda: Experiment.from_dict({**table, "tasks": [task]}, allow_imports=True)  # noqa: E731
    assert rule in one_line(ConfigError, make)


def test_a_task_has_the_metric_that_suits_its_loss():
    kinds = {"cross_entropy": "accuracy", "mse": "r2", "mae": "r2", "huber": "r2"}
    kinds |= {"binary_cross_entropy": "binary_accuracy", f"{__name__}:own": "loss"}
    tables = [{"name": "a", "dataset": "x", "loss": loss} for loss in kinds]
    assert [Task(**table).loss.metric for table in tables] == list(kinds.values())
