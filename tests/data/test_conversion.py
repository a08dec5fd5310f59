"""Data as people have it in their programs: what is repaired, and what is refused."""

from __future__ import annotations

import dataclasses
import gc

import numpy as np
import pytest
import torch

import mmfl
from mmfl.data import Arrays, content_hash, from_frame
from mmfl.data.conversion import to_arrays
from mmfl.data.in_memory import InMemory, keep_data
from mmfl.errors import DataError, MmflWarning
from support.helpers import one_line

X = np.arange(40, dtype=np.float32).reshape(20, 2)
Y = np.arange(20) % 4
SPLITS = ("train", "test")
WHOLE = {"x_train": X, "y_train": Y, "x_test": X[:5], "y_test": Y[:5]}


def convert(value) -> tuple[Arrays, list[str]]:
    return to_arrays(value, "the data")


class Shaped(torch.utils.data.Dataset):
    """What `__getitem__` gives is not a pair."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 20

    def __getitem__(self, number):
        return self.make(X[number], int(Y[number]))


class Pairs(torch.utils.data.Dataset):
    def __init__(self, rows=20):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, number):
        if number >= 20:
            raise RuntimeError("no such row")
        return torch.from_numpy(X[number]), int(Y[number])


@pytest.mark.parametrize(
    "value",
    [
        WHOLE,
        tuple(WHOLE.values()),
        Arrays.check("", WHOLE),
        {name: torch.from_numpy(part) for name, part in WHOLE.items()},
        (Pairs(), torch.utils.data.Subset(Pairs(), range(5))),
        {"train": Pairs(), "test": (X[:5], Y[:5])},
    ],
    ids=["dictionary", "four arrays", "Arrays", "tensors", "two torch data sets", "splits"],
)
def test_the_same_data_in_any_form_has_the_same_hash(value):
    found, notes = convert(value)
    assert notes == []
    assert content_hash(found) == content_hash(Arrays.check("", WHOLE))


@pytest.mark.parametrize("value", [(X, Y), {"x_train": X, "y_train": Y}, Pairs()], ids=type)
def test_without_test_data_a_fifth_is_set_aside_and_said(value):
    found, notes = convert(value)
    assert (len(found.x_train), len(found.x_test)) == (16, 4)
    rows = np.concatenate([found.x_train, found.x_test])
    np.testing.assert_array_equal(np.sort(rows[:, 0]), X[:, 0])
    assert notes == [
        "no test data was given; 4 of 20 examples, drawn at random with a fixed seed, are set "
        "aside as the test split"
    ]
    again, _ = convert(value)
    assert content_hash(again) == content_hash(found)


def test_groups_follow_their_rows():
    found, _ = convert({"x_train": X, "y_train": Y, "groups": np.arange(20)})
    np.testing.assert_array_equal(found.x_train[:, 0], 2 * found.groups)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (Y + 1, "the labels 1, 2, 3, 4 are renumbered 0 to 3"),
        (Y * 2, "the labels 0, 2, 4, 6 are renumbered 0 to 3"),
        (np.array(list("bcda"))[Y], "classes are numbered in this order: a, b, c, d"),
        (Y[:, None], "targets of shape (N, 1) are taken as (N,)"),
        (Y * 1000 - 7, "the labels -7, 993, 1993, 2993 are renumbered 0 to 3"),
    ],
)
def test_labels_become_class_numbers_from_0(labels, said):
    found, notes = convert(WHOLE | {"y_train": labels, "y_test": labels[:5]})
    assert notes == [said]
    assert found.classes == 4
    assert set(found.y_train.tolist()) == {0, 1, 2, 3}
    same = np.unique(labels, return_inverse=True)[1].reshape(20)
    np.testing.assert_array_equal(found.y_train, same)


def test_numbers_of_mixed_types_are_numbers():
    mixed = X.astype(object)
    mixed[:, 1] = mixed[:, 1] > 9
    found, notes = convert(WHOLE | {"x_train": mixed, "x_test": mixed[:5]})
    assert (found.x_train.dtype, notes) == (np.float32, [])


def test_real_targets_of_one_column_stay_as_they_are():
    real = (Y / 2)[:, None]
    found, notes = convert(WHOLE | {"y_train": real, "y_test": real[:5]})
    assert (found.classes, found.y_train.shape, notes) == (None, (20, 1), [])


def test_one_class_is_said():
    for label, said in (([0], "0"), ([7], "7"), (["a"], "a")):
        found, notes = convert(WHOLE | {"y_train": label * 20, "y_test": label * 5})
        assert notes == [f"every example has the same label, {said}, so there is nothing to learn"]
        assert found.classes == 1


def test_truth_values_are_two_classes():
    found, notes = convert(WHOLE | {"y_train": Y > 1, "y_test": Y[:5] > 1, "x_train": X > 3,
                                    "x_test": X[:5] > 3})  # fmt: skip
    assert (found.classes, found.x_train.dtype, notes) == (2, np.float32, [])
    several = np.stack([Y > 1, Y > 2], axis=1)
    found, notes = convert(WHOLE | {"y_train": several, "y_test": several[:5]})
    assert (found.classes, found.y_train.dtype, notes) == (None, np.float32, [])
    column = (Y > 1)[:, None]
    found, notes = convert(WHOLE | {"y_train": column, "y_test": column[:5]})
    assert (found.classes, found.y_train.shape) == (2, (20,))
    assert notes == ["targets of shape (N, 1) are taken as (N,)"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "must be (x, y)"),
        ((X,), "must be (x, y)"),
        ((X[:2], Y[:2]), "at least 3"),
        ((X, Y[:9]), "as many targets as examples"),
        ({"x_train": X}, "has no array 'y_train'"),
        (Pairs(25), "must give a pair (x, y) for each number from 0 to 24: RuntimeError: no such"),
        ((np.array([["a"]] * 5), Y[:5]), "x_train must be"),
        ((X, None), "y_train must have a row for each example, got array(None"),
        (([[1], [1, 2], [3]], [0, 1, 0]), "the data: x_train cannot be converted to an array: "),
        (
            (X, np.arange(20).astype("datetime64[D]")),
            "targets must be classes or numbers, not dates",
        ),
        ((X, np.array(["a", None] * 10, object)), "some targets are missing (None or NaN)"),
        ("patients.csv", "name a file with dataset={'kind': 'csv', 'path': ...}"),
        (torch.utils.data.DataLoader(Pairs()), "; pass its dataset"),
        (Shaped(lambda x, y: {"image": x, "label": y}), "got a dictionary with the keys image, la"),
        (
            Shaped(lambda x, y: (x, y, y)),
            "the data set must give a pair (x, y), got 3 values; wrap",
        ),
        (zip(X, Y, strict=True), "; stack its examples, as in x = np.stack([x for x, y in data])"),
        ((np.ma.masked_greater(X, 30), Y), "x_train has masked values; fill them, or leave out"),
        ((X, Y * 1j), "targets must be classes or real numbers, not complex numbers"),
        ({"train": Pairs(), "valid": Pairs()}, "must have the keys train and test, each (x, y) or"),
        ((np.zeros((20, 1, 1, 1, 1, 1)), Y), "N x D x H x W x C, got shape (16, 1, 1, 1, 1, 1)"),
    ],
)
def test_what_cannot_be_converted_is_one_sentence(value, words):
    assert words in one_line(DataError, lambda: convert(value))


def test_data_is_kept_as_long_as_its_task():
    held = keep_data(WHOLE, "the data")
    assert InMemory(held.hash).load(None) is held.load(None)
    digest = held.hash
    del held
    gc.collect()
    assert digest[:12] in one_line(DataError, lambda: InMemory(digest).load(None))


@pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize(
    "form",
    [
        dict,
        lambda parts: tuple(parts.values()),
        lambda parts: {split: [parts[f"{kind}_{split}"] for kind in "xy"] for split in SPLITS},
    ],
    ids=["table", "four", "splits"],
)
def test_what_a_program_changes_later_does_not_change_the_data(kind, form):
    given = {name: kind(part) for name, part in WHOLE.items()}
    held = keep_data(form(given), "the data")
    for part in given.values():
        part[:] = 1
    np.testing.assert_array_equal(held.load(None).x_train, X)
    assert keep_data(WHOLE, "the data") == held


def test_arrays_of_a_program_are_checked_and_copied():
    own = Arrays(X.astype(float), Y.astype(np.int32), X[:5].copy(), Y[:5].copy(), 4)
    held = keep_data(own, "the data")
    own.x_test[:] = 7
    np.testing.assert_array_equal(held.load(None).x_test, X[:5])
    assert held.load(None).y_train.dtype == np.int64
    wrong = dataclasses.replace(own, y_train=Y[:3])
    assert "must have the same length" in one_line(DataError, lambda: keep_data(wrong, "it"))


def test_clients_are_repaired_like_any_other_data():
    clients = [(X[:9], list("bababbbbb")), (X[9:], list("caaaacccccc"))]
    test = {"x_test": X[:2], "y_test": ["a", "b"]}
    found, notes = convert({"clients": clients, **test})
    assert notes == ["classes are numbered in this order: a, b, c"]
    assert (found.class_names, found.groups.tolist()) == (("a", "b", "c"), [0] * 9 + [1] * 11)
    found, notes = convert({"clients": [(X[:9], Y[:9, None]), (X[9:], Y[9:, None])]})
    assert (found.y_train.shape, len(found.groups)) == ((16,), 16)
    mixed = {"clients": [(X[:9], Y[:9]), (X[9:], Y[9:] / 2)], **test}
    assert "all must be class numbers or all real" in one_line(DataError, lambda: convert(mixed))


@pytest.mark.parametrize(
    ("labels", "classes", "names"),
    [
        (np.array([True, False] * 10), 2, (False, True)),
        (np.array([False] * 20), 2, (False, True)),
        (np.array([True, False] * 10, object), 2, (False, True)),
        (np.array([2, 10] * 10, object), 2, (2, 10)),
        (np.array([0, 1] * 10, object), 2, None),
        (np.array([0.5, 1] * 10, object), None, None),
    ],
)
def test_classes_are_called_what_the_targets_are(labels, classes, names):
    found, _ = convert(WHOLE | {"y_train": labels, "y_test": labels[:5]})
    assert (found.classes, found.class_names) == (classes, names)


@pytest.mark.parametrize("size", [(3, 6, 7), (1, 6, 7), (1, 5, 6, 7)])
def test_images_as_torch_has_them_are_recognised(size):
    x = np.arange(20 * np.prod(size), dtype=np.uint8).reshape(20, *size)
    found, notes = convert((x, Y, x[:5], Y[:5]))
    letters = "N x C x H x W" if len(size) == 3 else "N x C x D x H x W"
    assert notes == [f"its examples are taken as {letters}, as torch has images"]
    np.testing.assert_array_equal(np.moveaxis(found.x_train, -1, 1), x)
    assert tuple(found.shape) == size


@pytest.mark.parametrize("size", [(6, 7, 3), (6, 7, 1), (1, 7, 3), (3, 3, 3), (2, 6, 7), (6, 7)])
def test_other_shapes_stay_as_they_are(size):
    x = np.zeros((20, *size), np.float32)
    found, notes = convert((x, Y, x[:5], Y[:5]))
    assert (found.x_train.shape[1:], notes) == (size, [])


def test_a_repair_is_a_warning_at_the_line_of_the_program():
    with pytest.warns(MmflWarning, match="the data of task 'a': the labels 1, 2") as caught:
        task = mmfl.Task("a", data=WHOLE | {"y_train": Y % 2 + 1, "y_test": Y[:5] % 2 + 1})
    assert caught[0].filename == __file__
    assert task.dataset.load(None).classes == 2


def test_data_or_dataset():
    assert "data or dataset" in one_line(
        mmfl.errors.ConfigError, lambda: mmfl.Task("a", data=WHOLE, dataset="mnist_small")
    )


# DataFrames


pandas = pytest.importorskip("pandas")


def frame(rows=20):
    table = pandas.DataFrame(X[:rows], columns=["age", "dose"])
    return table.assign(ward=[f"w{row % 3}" for row in range(rows)], ill=Y[:rows] > 1)


def test_a_table_has_features_a_target_and_clients():
    found = from_frame(frame(), target="ill", client="ward", test=frame(5))
    np.testing.assert_array_equal(found.x_train, X)
    np.testing.assert_array_equal(found.y_train, Y > 1)
    np.testing.assert_array_equal(found.groups, np.arange(20) % 3)
    assert found.classes == 2


def test_several_targets_are_real_numbers():
    table = frame().drop(columns="ill")
    found = from_frame(table, target=["dose"], client="ward", test=table)
    assert found.classes is None
    np.testing.assert_array_equal(found.y_train, X[:, 1])


def test_names_of_columns_may_be_numbers():
    table = pandas.DataFrame({0: X[:, 0], 1: Y > 1, 2: Y})
    found = from_frame(table, target=1, client=2, test=table)
    assert (found.classes, found.group_names) == (2, ("0", "1", "2", "3"))
    assert from_frame(table, target=[0], client=2, test=table).classes is None


@pytest.mark.parametrize("kind", ["boolean", "Int64", "Float64"])
def test_missing_values_of_pandas_own_types_are_refused(kind):
    table = frame().assign(age=pandas.array([None] + [True] * 19, dtype=kind))
    said = one_line(DataError, lambda: from_frame(table, target="ill", client="ward"))
    assert "column 'age' has 1 missing value, the first in row 0" in said


def test_a_column_called_target_needs_no_name():
    found, _ = convert(frame().drop(columns="ward").rename(columns={"ill": "Target"}))
    assert found.classes == 2


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({}, {}, "say which column is the target"),
        ({}, {"target": "il"}, "no column 'il'; did you mean 'ill'?"),
        ({}, {"target": "ill", "client": "wards"}, "no column 'wards'"),
        ({"when": pandas.Timestamp(0)}, {"target": "ill", "client": "ward"}, "holds dates"),
        (
            {"age": np.nan},
            {"target": "ill", "client": "ward"},
            "'age' has 20 missing values",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_one_sentence(change, arguments, words):
    table = frame().assign(**change)
    assert words in one_line(DataError, lambda: from_frame(table, **arguments))


def test_columns_are_ignored_or_categories_and_rows_with_gaps_are_left_out():
    table = frame().assign(note=pandas.Timestamp("2020-01-01"), kind=np.arange(20) % 2)
    table.loc[3, "age"] = None
    with pytest.warns(MmflWarning) as caught:
        made = from_frame(
            table, target="ill", client="ward", ignore="note", categories="kind", missing="drop"
        )
    said = [str(one.message) for one in caught]
    assert "the table: 1 of 20 rows have missing values and are left out" in said
    assert len(made.x_train) + len(made.x_test) == 19
    assert [feature.name for feature in made.features] == ["age", "dose", "kind"]
    assert made.x_train.shape[1] == 4


def test_columns_may_be_called_by_numbers():
    table = pandas.DataFrame(np.c_[X, Y > 1].astype(int))
    with pytest.warns(MmflWarning, match="no test data"):
        assert from_frame(table, target=2).x_train.shape[1] == 2
    with pytest.warns(MmflWarning, match="no test data"):
        assert from_frame(table, target=[1, 2], targets="numbers").y_train.shape == (16, 2)


@pytest.mark.parametrize(
    ("table", "arguments", "words"),
    [
        ({"a": [1]}, {}, "the table must be a pandas DataFrame, got {'a': [1]}"),
        (frame()["age"], {}, "the table must be a pandas DataFrame, got 0"),
        (frame().assign(box=[[1, 2]] * 20), {}, "column 'box' holds values of type list, not num"),
        (frame(), {"missing": "fill"}, "missing must be one of 'refuse', 'drop', got 'fill'"),
        (frame(), {"targets": "class"}, "targets must be one of 'auto', 'classes', 'numbers', got"),
        (frame(), {"ignore": "doze"}, "the table has no column 'doze'; did you mean 'dose'?"),
    ],
)
def test_a_mistake_in_a_table_is_one_sentence(table, arguments, words):
    said = one_line(DataError, lambda: from_frame(table, target="ill", **arguments))
    assert words in said


@pytest.mark.parametrize(("dtype", "moved"), [(np.uint8, True), (np.float64, True), (int, False)])
def test_whole_numbers_are_no_images(dtype, moved):
    """They are tokens, which a network gets as they are."""
    x = np.ones((20, 3, 6, 7), dtype)
    found, notes = convert((x, Y, x[:5], Y[:5]))
    assert found.x_train.shape[1:] == ((6, 7, 3) if moved else (3, 6, 7))
    assert len(notes) == moved
    assert tuple(found.shape) == (3, 6, 7)
