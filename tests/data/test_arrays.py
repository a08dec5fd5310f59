"""The rules that a data set obeys, wherever it comes from: parts, types, clients, groups."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.data import Arrays, content_hash
from mmfl.errors import DataError
from support.helpers import one_line


def parts(**changes):
    """Four arrays that obey every rule, with some of them changed (None = left out)."""
    x, y = np.arange(24, dtype=np.uint8).reshape(6, 4), np.array([0, 1, 2, 0, 1, 2])
    plain = {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2]} | changes
    return {name: value for name, value in plain.items() if value is not None}


def checked(**changes) -> Arrays:
    return Arrays.check("it", parts(**changes))


def refused(**changes) -> str:
    message = one_line(DataError, lambda: checked(**changes))
    assert message.startswith("it")
    return message


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        (np.uint8, np.uint8), (np.float16, np.float32), (np.float64, np.float32),
        (">f4", np.float32), (np.int8, np.int64), (np.uint16, np.int64), (">i4", np.int64),
    ],
)  # fmt: skip
def test_bytes_stay_bytes_and_other_numbers_have_two_types(given_, kept):
    x = np.arange(24).reshape(6, 4)
    found = checked(x_train=x.astype(given_), x_test=x[:2].astype(given_))
    assert found.x_train.dtype == kept
    assert np.array_equal(found.x_train, x)
    assert found.x_train.flags.c_contiguous


def test_plain_lists_are_arrays_too():
    found = checked(x_train=[[0.5], [1.5]], y_train=[0, 1], x_test=[[2.5]], y_test=[1])
    assert found.x_train.dtype == np.float32
    assert (found.shape, found.classes, found.outputs) == ((1,), 2, 2)


@pytest.mark.parametrize(
    ("shape", "outputs"), [((6,), 1), ((6, 1), 1), ((6, 3), 3), ((6, 2, 3), 6)]
)
def test_real_targets_have_an_output_for_each_number(shape, outputs):
    y = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    found = checked(y_train=y, y_test=y[:2])
    assert (found.classes, found.outputs) == (None, outputs)
    assert found.y_train.dtype == np.float32
    assert found.examples(np.arange(6)).labels is None


def test_sequences_of_class_numbers_have_an_output_for_each_class():
    y = np.arange(18).reshape(6, 3) % 5
    found = checked(y_train=y, y_test=y[:2])
    assert (found.classes, found.outputs) == (5, 5)
    assert found.examples(np.arange(6)).labels is None  # no single class to partition by


@pytest.mark.parametrize(
    ("classes", "number"),
    [(None, 3), (3, 3), (7, 7), ("abcd", 4), (["x", "y", "z"], 3)],
)
def test_classes_are_counted_or_named(classes, number):
    assert checked(classes=classes).classes == number


NAN = np.array([[0.0], [np.nan]] * 3)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"x_test": None}, "it has no array 'x_test'"),
        ({"x_trian": 1}, "unknown key 'x_trian'; did you mean 'x_train'?"),
        ({"client": 1}, "unknown key 'client'; did you mean 'clients'?"),
        ({"x_train": [[1, 2], [3]]}, "x_train cannot be converted to an array"),
        ({"x_train": np.zeros((6, 4), complex)}, "real or whole numbers, got complex128"),
        ({"x_train": np.full((6, 4), "a")}, "must be bytes, real or whole numbers"),
        ({"x_train": np.zeros(6)}, "N x D x H x W x C, got shape (6,)"),
        ({"x_train": np.zeros((6, 1, 1, 1, 1, 1))}, "got shape (6, 1, 1, 1, 1, 1)"),
        ({"x_train": np.zeros((6, 0))}, "got shape (6, 0)"),
        ({"x_train": np.zeros((5, 4))}, "the same length, at least 1, got 5 and 6"),
        ({"x_train": np.zeros((0, 4)), "y_train": np.zeros(0, int)}, "got 0 and 0"),
        ({"x_test": np.zeros((2, 5))}, "must have examples of the same shape, got (4,) and (5,)"),
        ({"y_test": np.zeros((2, 2), int)}, "examples of the same shape, got () and (2,)"),
        ({"y_test": np.zeros(2)}, "both be class numbers or both real numbers"),
        ({"y_train": 3}, "of shape ()"),
        ({"y_train": np.array(["a"] * 6)}, "y_train must be integers (classes) or real numbers"),
        ({"y_train": np.array([0, -1, 2, 0, 1, 2])}, "from 0 to 1048575, got -1"),
        ({"y_train": np.array([0, 2**20, 2, 0, 1, 2])}, "from 0 to 1048575, got 1048576"),
        ({"x_train": NAN}, "x_train must contain only finite float32 values; row 1 has nan"),
        ({"x_train": np.full((6, 4), 1e300)}, "float32 values; row 0 has 1e+300"),
        ({"y_train": NAN[:, 0], "y_test": NAN[:2, 0]}, "only finite float32 values"),
        ({"classes": 2}, "classes must be 3 to 1048576, because there is a class 2, got 2"),
        ({"classes": ["a", "b"]}, "because there is a class 2, got 2"),
        ({"classes": "ab"}, "because there is a class 2, got 2"),
        ({"classes": 2**40}, "classes must be 3 to 1048576"),
        (
            {"x_train": np.zeros((6, 4), np.float32), "x_test": np.zeros((2, 4), np.uint8)},
            "x_train and x_test must both be bytes, both real or both whole numbers, got float32",
        ),
        ({"classes": 2.5}, "classes must be a number, a list of names, or a word"),
        ({"classes": [["a"], ["b"]]}, "classes must be a number, a list of names, or a word"),
        ({"groups": [0, 1]}, "one whole number >= 0 per training example (6), got int64"),
        ({"groups": [0, 1, 0, 1, 0, -1]}, "groups must be one whole number >= 0"),
        ({"groups": [0.0] * 6}, "got float64 of shape (6,)"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_one_sentence(changes, rule):
    assert rule in refused(**changes)


def test_checking_bytes_takes_no_memory_to_speak_of():
    x = np.zeros((100, 100, 100), np.uint8)
    tracemalloc.start()
    try:
        checked(x_train=x, y_train=np.arange(100), x_test=x[:2])
        assert tracemalloc.get_traced_memory()[1] < len(x.tobytes())
    finally:
        tracemalloc.stop()


# Clients' own pairs


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any))
def test_clients_pairs_are_joined_in_order_and_their_numbers_are_groups(sizes):
    ends = np.cumsum(sizes)
    x = np.arange(2 * ends[-1], dtype=np.uint8).reshape(-1, 2)
    y = np.arange(ends[-1])
    # An empty client's arrays have whatever type NumPy gives to nothing.
    clients = [
        (x[end - n : end], y[end - n : end]) if n else (np.empty((0, 2)), np.empty(0))
        for n, end in zip(sizes, ends, strict=True)
    ]
    given_ = parts(clients=clients, x_train=None, y_train=None, x_test=x[:1], y_test=y[:1])
    found = Arrays.check("it", given_)
    assert found.x_train.dtype == np.uint8
    assert np.array_equal(found.x_train, x)
    assert np.array_equal(found.y_train, y)
    assert np.array_equal(np.bincount(found.groups, minlength=len(sizes)), sizes)
    assert found.classes == len(y)


PAIR = ([[1.0, 2.0]], [0])


@pytest.mark.parametrize(
    ("clients", "rule"),
    [
        ([], "clients must be a list of pairs (x, y), got []"),
        (5, "clients must be a list of pairs (x, y), got 5"),
        ([PAIR, ([[1.0, 2.0]],)], "clients must be a list of pairs (x, y)"),
        ([PAIR, ([[1.0]], [0])], "x of client 1 has shape (1, 1), which does not match client 0's"),
        ([PAIR, ([[1.0, 2.0]], [[0]])], "y of client 1 has shape (1, 1)"),
        ([PAIR, ([[1.0, 2.0]], [0, 1])], "client 1 has 1 examples and 2 targets"),
        ([PAIR, ([[1.0], [1.0, 2.0]], [0, 1])], "x of client 1 cannot be converted to an array"),
        ([(1.0, 0)], "x of client 0 has shape ()"),
        ([(np.empty((0, 4)), np.empty(0, int))], "the same length, at least 1, got 0 and 0"),
    ],
)  # fmt: skip
def test_clients_that_do_not_fit_are_one_sentence(clients, rule):
    assert rule in refused(clients=clients, x_train=None, y_train=None)


@pytest.mark.parametrize("other", ["x_train", "y_train", "groups"])
def test_clients_come_instead_of_training_arrays(other):
    changes = {"x_train": None, "y_train": None, other: [0]}
    assert f"both clients and {other!r}" in refused(clients=[PAIR], **changes)


# What is in it


def test_the_hash_knows_content_types_and_groups_and_nothing_else():
    one = content_hash(checked())
    same = content_hash(checked(x_train=np.asfortranarray(parts()["x_train"])))
    assert one == same
    others = [
        checked(x_train=parts()["x_train"] + np.uint8(1)),
        checked(x_train=parts()["x_train"].astype(np.float32), x_test=np.zeros((2, 4))),
        checked(x_train=parts()["x_train"].reshape(6, 2, 2), x_test=np.zeros((2, 2, 2), np.uint8)),
        checked(y_test=np.array([1, 1])),
        checked(groups=[0] * 6),
        checked(groups=[1] * 6),
    ]
    assert len({one, *map(content_hash, others)}) == 7
