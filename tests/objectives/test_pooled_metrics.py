"""Metrics that are no mean over examples: scikit-learn's values, in pieces of any size."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from mmfl.errors import InputError
from mmfl.objectives import METRICS, are_possible, find_merit, find_sums_shape
from support.helpers import one_line
from support.measuring import data_of, measure, sums_of

POOLED = ["auc", "balanced_accuracy", "f1", "matthews", "perplexity", "precision", "recall"]
sizes = st.integers(1, 40)
seeds = st.integers(0, 2**32)


@st.composite
def predictions(draw, fewest=2, most=5):
    """Outputs and class numbers; few examples, so that classes are missing in either."""
    classes, n = draw(st.integers(fewest, most)), draw(st.integers(1, 40))
    numbers = np.random.default_rng(draw(seeds))
    targets = numbers.integers(0, classes, n)
    outputs = numbers.standard_normal((n, classes)).astype(np.float32)
    outputs += draw(st.sampled_from([0.0, 1.0, 10.0])) * np.eye(classes, dtype=np.float32)[targets]
    return outputs, targets, classes


def oracle(act):
    """What scikit-learn says; it warns where a class is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return act()


def softmax(outputs):
    e = np.exp(outputs.astype(np.float64) - outputs.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# Against scikit-learn


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [("f1", sk.f1_score), ("precision", sk.precision_score), ("recall", sk.recall_score)],
)
@given(case=predictions(), size=sizes)
def test_shares_of_classes(kind, theirs, case, size):
    outputs, targets, classes = case
    said, data = outputs.argmax(1), data_of(targets, classes)
    macro = oracle(lambda: theirs(targets, said, average="macro", zero_division=0))
    found = measure({"kind": kind, "average": "macro"}, outputs, targets, data, size)
    assert found == pytest.approx(macro, abs=1e-12)
    if classes == 2:
        binary = oracle(lambda: theirs(targets, said, zero_division=0))
        assert measure(kind, outputs, targets, data, size) == pytest.approx(binary, abs=1e-12)
    else:
        assert measure(kind, outputs, targets, data, size) == found


@given(case=predictions(), size=sizes)
def test_balanced_accuracy_and_matthews(case, size):
    outputs, targets, classes = case
    said, data = outputs.argmax(1), data_of(targets, classes)
    for kind, theirs in (
        ("balanced_accuracy", sk.balanced_accuracy_score),
        ("matthews", sk.matthews_corrcoef),
    ):
        exact = oracle(lambda theirs=theirs: theirs(targets, said))
        assert measure(kind, outputs, targets, data, size) == pytest.approx(exact, abs=1e-12)


@given(case=predictions(), size=sizes)
def test_perplexity(case, size):
    outputs, targets, classes = case
    loss = sk.log_loss(targets, softmax(outputs), labels=range(classes))
    found = measure("perplexity", outputs, targets, data_of(targets, classes), size)
    assert found == pytest.approx(math.exp(loss), rel=1e-5)


def pairs_in_bins(sums):
    """By class, the share of pairs of a positive and a negative example in the same bin."""
    negative, positive = sums[:, 0], sums[:, 1]
    return (negative * positive).sum(1) / (negative.sum(1) * positive.sum(1))


def theirs(targets, outputs, classes):
    if classes == 2:
        return sk.roc_auc_score(targets, outputs[:, 1] - outputs[:, 0])
    chances = softmax(outputs)
    return sk.roc_auc_score(targets, chances, multi_class="ovr", labels=range(classes))


@given(case=predictions(), size=sizes, bins=st.sampled_from([2, 7, 30, 500, 4096]))
def test_auc_is_off_by_no_more_than_half_the_pairs_in_a_bin(case, size, bins):
    outputs, targets, classes = case
    if len(np.unique(targets)) < classes:
        return
    metric, data = METRICS.parse({"kind": "auc", "bins": bins}), data_of(targets, classes)
    off = 0.5 * pairs_in_bins(sums_of(metric, outputs, targets, data)).mean()
    found = measure(metric, outputs, targets, data, size)
    assert abs(found - theirs(targets, outputs, classes)) <= off + 1e-9
    if bins == 4096:
        assert abs(found - theirs(targets, outputs, classes)) < 0.02


@given(
    seed=seeds,
    size=sizes,
    centre=st.sampled_from([-50.0, -3.0, 0.0, 3.0, 50.0]),
    n=st.integers(2, 200),
)
def test_auc_is_exact_for_scores_that_lie_a_bin_apart_and_a_tie_is_half_a_pair(
    seed, size, centre, n
):
    numbers = np.random.default_rng(seed)
    apart = 0.01 * (1 + abs(centre)) if abs(centre) < 50 else 1.0
    scores = (centre + apart * numbers.integers(-40, 40, n)).astype(np.float32)
    targets = np.r_[0, 1, numbers.integers(0, 2, n - 2)]
    outputs = np.stack([np.zeros_like(scores), scores], 1)
    exact = sk.roc_auc_score(targets, scores)
    found = measure("auc", outputs, targets, data_of(targets, 2), size)
    assert found == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("centre", [-6.0, -3.0, 0.0, 20.0])
@pytest.mark.parametrize(("spread", "off"), [(1.0, 2e-4), (0.1, 2e-3)])
def test_auc_of_many_examples_is_close_even_if_scores_hardly_differ(centre, spread, off):
    """As early in training, where a model knows little more than how rare a class is."""
    numbers = np.random.default_rng(3)
    targets = (numbers.random(20_000) < 0.05).astype(np.int64)
    scores = centre + spread * max(1.0, abs(centre) / 6) * (numbers.normal(size=20_000) + targets)
    outputs = np.stack([np.zeros(20_000), scores], 1).astype(np.float32)
    exact = sk.roc_auc_score(targets, outputs[:, 1])
    assert measure("auc", outputs, targets, data_of(targets, 2), 500) == pytest.approx(
        exact, abs=off
    )


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
def test_auc_of_several_classes_ranks_however_sure_a_model_is(scale):
    """Probabilities that are 1 but for rounding are no ties: their log-odds differ."""
    numbers = np.random.default_rng(4)
    targets = numbers.integers(0, 3, 3000)
    outputs = numbers.standard_normal((3000, 3)) + np.eye(3)[targets]
    outputs = (scale * outputs).astype(np.float32)
    places = np.arange(3)
    odds = outputs.astype(np.float64) - np.stack(
        [np.logaddexp(*outputs[:, places != c].astype(np.float64).T) for c in places], axis=1
    )
    exact = np.mean([sk.roc_auc_score(targets == c, odds[:, c]) for c in places])
    found = measure("auc", outputs, targets, data_of(targets, 3), 500)
    assert found == pytest.approx(exact, abs=2e-4)


@given(seed=seeds, size=sizes, questions=st.integers(1, 3))
def test_yes_or_no_answers_are_a_mean_over_the_questions(seed, size, questions):
    numbers = np.random.default_rng(seed)
    targets = numbers.integers(0, 2, (30, questions)).astype(np.float32)
    targets[:2] = [[0], [1]]
    outputs = (numbers.standard_normal((30, questions)) + targets).astype(np.float32)
    said = outputs > 0
    data = data_of(targets)
    exact = {
        "f1": np.mean([sk.f1_score(t, s) for t, s in zip(targets.T, said.T, strict=True)]),
        "balanced_accuracy": np.mean(
            [sk.balanced_accuracy_score(t, s) for t, s in zip(targets.T, said.T, strict=True)]
        ),
        "matthews": np.mean(
            [sk.matthews_corrcoef(t, s) for t, s in zip(targets.T, said.T, strict=True)]
        ),
        "auc": sk.roc_auc_score(targets, outputs, average="macro"),
    }
    if questions > 1:
        assert exact["f1"] == pytest.approx(sk.f1_score(targets, said, average="macro"))
    for kind, value in exact.items():
        rule = {"abs": 5e-3} if kind == "auc" else {"abs": 1e-12}
        assert measure(kind, outputs, targets, data, size) == pytest.approx(value, **rule)
        flat = (outputs[:, 0], targets[:, 0], data_of(targets[:, 0]))
        if questions == 1:
            assert measure(kind, *flat, size) == pytest.approx(value, **rule)


@pytest.mark.parametrize("kind", POOLED)
@given(seed=seeds, size=sizes)
def test_each_place_of_a_sequence_counts(kind, seed, size):
    numbers = np.random.default_rng(seed)
    targets = numbers.integers(0, 3, (12, 5))
    outputs = numbers.standard_normal((12, 3, 5)).astype(np.float32)
    flat = outputs.transpose(0, 2, 1).reshape(-1, 3), targets.reshape(-1)
    found = measure(kind, outputs, targets, data_of(targets, 3), size)
    assert found == pytest.approx(measure(kind, *flat, data_of(flat[1], 3)), rel=1e-6)


# Where a value is not obvious

HIT, MISS = [0.0, 9.0], [9.0, 0.0]  # says class 1, class 0


@pytest.mark.parametrize(
    ("kind", "outputs", "targets", "value"),
    [
        ("auc", [HIT, MISS], [1, 1], 0.5),  # one class only: there is no pair
        ("auc", [HIT, MISS], [0, 0], 0.5),
        ("auc", [HIT, HIT], [0, 1], 0.5),
        ("f1", [MISS, MISS], [0, 0], 0.0),  # nothing to find, and nothing found
        ("f1", [MISS, MISS], [1, 1], 0.0),
        ("precision", [MISS, MISS], [0, 1], 0.0),  # never predicted
        ("recall", [HIT, MISS], [0, 0], 0.0),  # no example
        ({"kind": "f1", "average": "macro"}, [MISS, MISS], [0, 0], 1.0),
        ("balanced_accuracy", [MISS, HIT], [0, 0], 0.5),
        ("balanced_accuracy", [MISS, MISS], [0, 0], 1.0),
        ("matthews", [MISS, MISS], [0, 1], 0.0),
        ("matthews", [MISS, HIT], [0, 0], 0.0),
        ("matthews", [HIT, MISS], [0, 1], -1.0),
        ("perplexity", [[0.0, 0.0]], [1], 2.0),
        ("perplexity", [[1e30, 0.0]], [1], math.inf),
    ],
)
def test_missing_classes_have_a_value(kind, outputs, targets, value):
    outputs = np.array(outputs, np.float32)
    assert measure(kind, outputs, targets, data_of(np.r_[targets, 0, 1], 2)) == pytest.approx(value)


def test_a_class_without_examples_is_left_out_of_a_mean_over_classes():
    targets, said = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    outputs = 9 * np.eye(4, dtype=np.float32)[said]
    for kind in ("auc", "f1", "balanced_accuracy"):
        full = measure(kind, outputs, targets, data_of([*targets, 2, 3], 4))
        few = measure({"kind": kind}, outputs[:, :3], targets, data_of([*targets, 2], 3))
        assert full == pytest.approx(few)


def test_scores_that_are_no_numbers_have_no_auc_and_infinite_ones_are_the_largest():
    targets = np.array([0.0, 1.0, 0.0], np.float32)
    data = data_of(targets)
    assert math.isnan(measure("auc", [0.1, math.nan, 0.2], targets, data, size=1))
    assert measure("auc", [-math.inf, math.inf, 1e30], targets, data) == 0.75
    three = data_of([0, 1, 2])
    outputs = [[-math.inf, 0.0, -800.0], [0.0, 900.0, 0.0], [0.0, 0.0, 900.0]]
    found = measure("auc", np.array(outputs, np.float32), [1, 1, 2], three)
    assert found == 1.0


@pytest.mark.parametrize("kind", [k for k in POOLED if k != "perplexity"])
def test_real_targets_are_refused_unless_they_are_answers(kind):
    data = data_of(np.array([0.0, 0.5, 2.5], np.float32))
    message = one_line(InputError, lambda: measure(kind, [0.0] * 3, [0.0] * 3, data))
    rule = "for classes, or for answers from 0 to 1, but its targets go from 0 to 2.5"
    assert message == f"this metric is {rule}"


def test_what_else_does_not_fit_is_one_sentence():
    real = data_of(np.array([0.0, 1.0], np.float32))
    three = data_of([0, 1, 2])
    for kind, outputs, targets, data, words in (
        ("perplexity", [0.0], [0.0], real, "its targets must be class numbers"),
        ("f1", np.zeros((2, 4)), [0, 1], three, "needs one output per class (3), got 4"),
        ("auc", np.zeros((2, 4)), [0, 1], three, "needs one output per class (3), got 4"),
        ("auc", np.zeros((2, 1)), [0.0, 1.0], real, "of the targets' shape, got (2, 1) for (2,)"),
        ("auc", np.zeros((2, 1)), [0, 0], data_of([0, 0], 1), "at least two classes, got 1"),
    ):
        assert words in one_line(
            InputError, lambda case=(kind, outputs, targets, data): measure(*case)
        )


# What clients may claim


@pytest.mark.parametrize("kind", POOLED)
@given(case=predictions(), part=st.integers(1, 40))
def test_honest_sums_are_possible(kind, case, part):
    outputs, targets, classes = case
    metric, data = METRICS.parse(kind), data_of(targets, classes)
    some = outputs[:part], targets[:part]
    shape = find_sums_shape(metric, data)
    assert are_possible(metric, sums_of(metric, *some, data), shape, len(some[1]))


@pytest.mark.parametrize("kind", [k for k in POOLED if k != "perplexity"])
@given(case=predictions(), where=st.integers(0, 10**6), by=st.sampled_from([-3.0, -0.5, 1.0, 1e9]))
def test_one_count_too_many_or_too_few_is_not_possible(kind, case, where, by):
    outputs, targets, classes = case
    metric, data = METRICS.parse(kind), data_of(targets, classes)
    sums, shape = sums_of(metric, outputs, targets, data), find_sums_shape(metric, data)
    sums.reshape(-1)[where % sums.size] += by
    assert not are_possible(metric, sums, shape, len(targets))


@pytest.mark.parametrize("kind", POOLED)
def test_sums_of_another_kind_are_not_possible(kind):
    metric, data = METRICS.parse(kind), data_of([0, 1, 1], 2)
    outputs = np.array([HIT, MISS, HIT], np.float32)
    sums, shape = sums_of(metric, outputs, [0, 1, 1], data), find_sums_shape(metric, data)
    assert are_possible(metric, sums, shape, 3)
    for lie in (
        *(None, 0.5, sums.tolist(), sums.astype(np.float32), sums[None], sums.ravel()[:-1]),
        *(np.full(shape, odd) for odd in (math.nan, math.inf, -1.0)),
    ):
        assert not are_possible(metric, lie, shape, 3)


# Merit


def test_a_perplexity_counts_as_its_inverse_which_is_on_the_scale_of_an_accuracy():
    merit = find_merit("perplexity", "lower")
    assert merit(1.0) == 1.0
    assert merit(4.0) == 0.25  # as the accuracy of a blind guess among four classes
    assert merit(math.inf) == 0.0
    assert math.isnan(merit(math.nan))
    assert merit(np.array([[2.0, 0.0]])).tolist() == [[0.5, 1.0]]  # no perplexity is below 1


@pytest.mark.parametrize(
    ("kind", "better", "value"),
    [
        ("f1", "higher", 0.3),
        ("mae", "lower", 0.7),
        ("own:metric", "lower", 0.7),
        ("", "lower", 0.7),
    ],
)
def test_other_metrics_count_as_they_are_or_as_one_minus_the_error(kind, better, value):
    assert find_merit(kind, better)(0.3) == pytest.approx(value)
