"""Every loss against its formula in plain NumPy; a user's own function."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mmfl.errors import ConfigError, InputError
from mmfl.experiment import Task
from mmfl.objectives import LOSSES
from support.helpers import one_line

pytestmark = pytest.mark.usefixtures("imports")

NUMBERS = st.floats(-20, 20, width=32)
SHAPES = st.one_of(st.tuples(st.integers(1, 6)), st.tuples(st.integers(1, 6), st.integers(1, 4)))


def value(loss, outputs, targets) -> float:
    mean = LOSSES.parse(loss).mean(torch.tensor(outputs), torch.tensor(targets))
    assert mean.shape == ()
    return mean.item()


@st.composite
def pairs(draw, targets=NUMBERS):
    """Outputs and targets of one shape."""
    shape = draw(SHAPES)
    return draw(arrays(np.float32, shape, elements=NUMBERS)), draw(
        arrays(np.float32, shape, elements=targets)
    )


@given(pairs())
def test_errors_of_real_numbers(pair):
    a, b = (part.astype(np.float64) for part in pair)
    assert value("mse", *pair) == pytest.approx(((a - b) ** 2).mean(), rel=1e-5)
    assert value("mae", *pair) == pytest.approx(np.abs(a - b).mean(), rel=1e-5)


@given(pairs(), st.sampled_from([0.1, 1.0, 7.5]))
def test_huber_is_square_near_and_linear_far(pair, delta):
    a, b = (part.astype(np.float64) for part in pair)
    error = np.abs(a - b)
    exact = np.where(error <= delta, error**2 / 2, delta * (error - delta / 2)).mean()
    assert value({"kind": "huber", "delta": delta}, *pair) == pytest.approx(exact, rel=1e-5)


@given(pairs(st.sampled_from([0.0, 1.0])))
def test_binary_cross_entropy_is_that_of_each_question(pair):
    logit, yes = (part.astype(np.float64) for part in pair)
    exact = (np.logaddexp(0, logit) - yes * logit).mean()
    assert value("binary_cross_entropy", *pair) == pytest.approx(exact, rel=1e-5, abs=1e-6)


@given(
    arrays(np.float32, (4, 3), elements=NUMBERS),
    arrays(np.int64, 4, elements=st.integers(0, 2)),
    st.sampled_from([0.0, 0.1, 0.9]),
)
def test_cross_entropy_with_and_without_smoothing(outputs, targets, smoothing):
    logits = outputs.astype(np.float64)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    goal = (1 - smoothing) * np.eye(3)[targets] + smoothing / 3
    exact = -(goal * log_p).sum(1).mean()
    loss = {"kind": "cross_entropy", "label_smoothing": smoothing}
    assert value(loss, outputs, targets) == pytest.approx(exact, rel=1e-5, abs=1e-6)


def test_cross_entropy_of_sequences_is_that_of_each_place():
    g = np.random.default_rng(0)
    outputs = g.standard_normal((5, 3, 7), np.float32)
    targets = g.integers(0, 3, (5, 7))
    each = [value("cross_entropy", outputs[:, :, k], targets[:, k]) for k in range(7)]
    assert value("cross_entropy", outputs, targets) == pytest.approx(np.mean(each))


@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        ({"kind": "cross_entropy", "label_smoothing": 1.0}, "label_smoothing must be less than 1"),
        ({"kind": "cross_entropy", "label_smoothing": -0.1}, "label_smoothing must be greater"),
        ({"kind": "huber", "delta": 0}, "loss.delta must be greater than 0"),
        ({"kind": "mse", "delta": 1}, "loss.delta is not a known key"),
        ("rmse", "unknown loss 'rmse'; did you mean 'mse'?"),
    ],
)
def test_wrong_options_are_one_sentence(loss, rule):
    assert rule in one_line(ConfigError, lambda: Task(name="a", dataset="x", loss=loss))


# A user's own

ANSWERS = {
    "mean": lambda a, b: (a - b).square().mean(),
    "each": lambda a, b: (a - b).square().mean(1),
    "rows": lambda a, b: (a - b).square(),
    "column": lambda a, b: (a - b).square().mean(1, keepdim=True),
    "float": lambda a, b: 1.5,
    "nothing": lambda a, b: None,
}


def own(outputs, targets, *, answer, scale=1.0):
    found = ANSWERS[answer](outputs, targets)
    return scale * found if isinstance(found, torch.Tensor) else found


def of(answer, **options):
    return LOSSES.parse({"kind": f"{__name__}:own", "answer": answer, **options})


@pytest.mark.parametrize("answer", ["mean", "each"])
def test_a_function_gives_the_mean_or_a_number_per_example(answer):
    outputs = torch.arange(6.0).reshape(3, 2).requires_grad_()
    targets = torch.ones(3, 2)
    mean = of(answer, scale=2.0).mean(outputs, targets)
    assert mean.item() == pytest.approx(2 * (outputs - targets).square().mean().item())
    mean.backward()
    assert torch.allclose(outputs.grad, 4 * (outputs.detach() - targets) / 6)


@pytest.mark.parametrize(
    ("answer", "got"),
    [("rows", "shape (3, 2)"), ("column", "shape (3, 1)"), ("float", "float"), ("nothing", "None")],
)
def test_a_function_that_gives_anything_else_is_one_sentence(answer, got):
    loss = of(answer)
    message = one_line(InputError, lambda: loss.mean(torch.zeros(3, 2), torch.zeros(3, 2)))
    rule = "must return one number or one per example (3), got"
    assert message.startswith(f"'{__name__}:own' {rule}")
    assert got in message


def test_a_module_of_torch_is_a_loss():
    outputs, truth = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])
    weights = torch.tensor([0.2, 0.8])
    loss = LOSSES.parse(torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=0.1))
    given = torch.nn.functional.cross_entropy(outputs, truth, weights, label_smoothing=0.1)
    assert torch.equal(loss.mean(outputs, truth), given)
    again = LOSSES.parse(torch.nn.CrossEntropyLoss(weight=weights.clone(), label_smoothing=0.1))
    assert LOSSES.dump(again) == LOSSES.dump(loss)
    assert LOSSES.dump(loss)["kind"].startswith("in_memory:CrossEntropyLoss-")


@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        (torch.nn.CrossEntropyLoss, "or an nn.Module such as nn.CrossEntropyLoss()"),
        (torch.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2]), "has weights, which would not be trained"),
    ],
)
def test_a_loss_that_cannot_be_one_is_one_sentence(loss, rule):
    said = one_line(ConfigError, lambda: Task(name="a", dataset="mnist_small", loss=loss))
    assert rule in said
