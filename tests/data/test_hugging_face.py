"""Data sets of Hugging Face's library, built in memory."""

from __future__ import annotations

import numpy as np
import pytest

import mmfl
from mmfl.data import Arrays, content_hash, from_frame, from_hugging_face
from mmfl.data.conversion import to_arrays
from mmfl.errors import DataError, MmflWarning
from support.helpers import one_line

datasets = pytest.importorskip("datasets", reason="the extra 'huggingface' is not installed")
pandas = pytest.importorskip("pandas")

from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Value  # noqa: E402
from PIL import Image as Picture  # noqa: E402

ROWS = 20
AGE = [20.0 + row for row in range(ROWS)]
LABEL = [row % 3 % 2 for row in range(ROWS)]
NAMES = ClassLabel(names=["well", "ill", "unknown"])


def convert(value) -> tuple[Arrays, list[str]]:
    arrays, notes = to_arrays(value, "the data")
    return arrays, [note for note in notes if "no test data" not in note]


def refuse(value, **keys) -> str:
    if keys:
        return one_line(DataError, lambda: from_hugging_face(value, **keys))
    return one_line(DataError, lambda: convert(value))


def with_kinds(columns, **kinds):
    features = {name: kinds.get(name, Value("float64")) for name in columns}
    return Dataset.from_dict(columns, features=Features(features))


def test_columns_are_those_of_a_table():
    columns = {
        "age": AGE,
        "sex": ["FM"[row % 2] for row in range(ROWS)],
        "smokes": [row % 5 < 2 for row in range(ROWS)],
        "ward": [f"w{row % 3}" for row in range(ROWS)],
        "label": LABEL,
    }
    with pytest.warns(MmflWarning):
        frame = from_frame(pandas.DataFrame(columns), target="label", client="ward")
    for made in (Dataset.from_dict(columns), Dataset.from_dict(columns).with_format("torch")):
        with pytest.warns(MmflWarning):
            found = from_hugging_face(made, target="label", client="ward")
        assert content_hash(found) == content_hash(frame)


def test_named_classes_keep_their_numbers():
    found, notes = convert(with_kinds({"age": AGE, "label": LABEL}, label=NAMES))
    assert (found.classes, notes) == (3, [])
    np.testing.assert_array_equal(found.y_train, (found.x_train[:, 0] - 20) % 3 % 2)


def test_other_labels_are_numbered_and_numbers_are_real_targets():
    found, notes = convert(Dataset.from_dict({"age": AGE, "label": [y + 1 for y in LABEL]}))
    assert (found.classes, notes) == (2, ["the labels 1, 2 are renumbered 0 to 1"])
    found, _ = convert(Dataset.from_dict({"age": AGE, "label": [y + 0.5 for y in AGE]}))
    assert (found.classes, found.y_train.dtype) == (None, np.float32)
    with pytest.warns(MmflWarning):
        numbers = from_hugging_face(Dataset.from_dict({"a": AGE, "y": LABEL}), targets="numbers")
    assert numbers.classes is None


def test_images_are_bytes():
    grey = [Picture.fromarray(np.full((4, 5), row, np.uint8)) for row in range(ROWS)]
    found, _ = convert(with_kinds({"image": grey, "label": LABEL}, image=Image(), label=NAMES))
    assert (found.x_train.shape, found.x_train.dtype, found.shape) == (
        (16, 4, 5),
        np.uint8,
        (1, 4, 5),
    )
    mixed = [*grey[:-1], Picture.fromarray(np.full((4, 5, 3), 7, np.uint8))]
    found, _ = convert(with_kinds({"image": mixed, "label": LABEL}, image=Image(), label=NAMES))
    assert found.shape == (3, 4, 5)


def test_lists_of_whole_numbers_are_tokens_and_others_are_series():
    tokens = [[row, row + 1, 0] for row in range(ROWS)]
    found, _ = convert(Dataset.from_dict({"input_ids": tokens, "label": LABEL}))
    assert (found.x_train.dtype, found.x_train.shape) == (np.int64, (16, 3))
    series = [[[row / 2, 1.0], [0.0, 2.0], [3.0, 4.0]] for row in range(ROWS)]
    found, _ = convert(Dataset.from_dict({"series": series, "label": LABEL}))
    assert (found.x_train.dtype, found.x_train.shape) == (np.float32, (16, 3, 2))
    kind = datasets.Array3D((2, 2, 3), "uint8")
    pixels = [np.full((2, 2, 3), row, np.uint8) for row in range(ROWS)]
    found, _ = convert(with_kinds({"x": pixels, "label": LABEL}, x=kind, label=NAMES))
    assert (found.x_train.dtype, found.shape) == (np.uint8, (3, 2, 2))


def test_a_list_of_labels_is_a_target_too():
    tokens = [[row % 4, 1, 0] for row in range(ROWS)]
    found, _ = convert(Dataset.from_dict({"input_ids": tokens, "label": tokens}))
    assert (found.y_train.shape, found.classes) == ((16, 3), 4)


def test_splits_by_name():
    made = with_kinds({"age": AGE, "label": LABEL}, label=NAMES)
    small = made.select(range(7))
    found, notes = convert(DatasetDict(train=made, test=small))
    assert (len(found.x_train), len(found.x_test), notes) == (ROWS, 7, [])
    found, notes = convert(DatasetDict(train=made, validation=small, extra=small))
    assert len(found.x_test) == 7
    assert notes == [
        "the split 'validation' is used as the test split",
        "not used: the splits 'extra'",
    ]
    found = from_hugging_face(made, test=small)
    assert len(found.x_test) == 7
    assert "has no split 'train', only 'test'" in refuse(DatasetDict(test=made))


def test_only_the_chosen_columns_are_read():
    made = Dataset.from_dict({"age": AGE, "id": AGE, "label": LABEL})
    for chosen in (
        made.select_columns(["age", "label"]),
        made.with_format("numpy", ["age", "label"]),
    ):
        assert convert(chosen)[0].x_train.shape == (16, 1)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"age": AGE}, ": say which column is the target: mmfl.from_hugging_face("),
        ({"label": LABEL}, " has no feature columns"),
        ({"age": [], "label": []}, " has no rows"),
        ({"age": [*AGE[:-1], None], "label": LABEL}, "column 'age' has 1 missing value, the first"),
        ({"ids": [[1]] * 19 + [[1, 2]], "label": LABEL}, "all of the same length; pad or cut them"),
        ({"ids": [["a"]] * ROWS, "label": LABEL}, ": column 'ids' must hold lists of numbers"),
        (
            {"ids": [[1]] * ROWS, "age": AGE, "label": LABEL},
            "holds lists, which cannot be features ",
        ),
        ({"x": [{"a": 1}] * ROWS, "label": LABEL}, ": column 'x' must hold lists of numbers"),
        ({"text": [f"t{k}" for k in range(101)], "y": LABEL * 5 + [1]}, "; encode it with dataset"),
        ({"age": AGE, "label": [1] * ROWS}, "has the same value in every row, '1'"),
        ({"age": AGE, "label": [float("nan")] * ROWS}, "column 'label' has 20 missing values"),
        ({"age": AGE, "\x1b[2J": LABEL}, ": say which column is the target"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(columns, words):
    assert words in refuse(Dataset.from_dict(columns))


def test_examples_without_a_label_are_refused():
    made = with_kinds({"age": AGE, "label": [-1] * ROWS}, label=NAMES)
    assert "column 'label' has 20 missing values" in refuse(made)


def test_classes_must_be_the_same_in_all_splits():
    one = with_kinds({"age": AGE, "label": LABEL}, label=NAMES)
    other = with_kinds({"age": AGE, "label": LABEL}, label=ClassLabel(names=["a", "b", "c"]))
    assert "the classes of column 'label' differ" in refuse(DatasetDict(train=one, test=other))


def test_streams_transforms_and_broken_images_are_refused():
    made = Dataset.from_dict({"age": AGE, "label": LABEL})
    assert "is a stream; load it with streaming=False" in refuse(made.to_iterable_dataset())
    assert "has a transform" in refuse(made.with_transform(lambda batch: batch))
    broken = [{"bytes": b"no picture", "path": None}] * ROWS
    said = refuse(with_kinds({"image": broken, "label": LABEL}, image=Image(), label=NAMES))
    assert "cannot be read: UnidentifiedImageError" in said
    deep = [Picture.fromarray(np.zeros((2, 2), np.uint16)) for _ in range(ROWS)]
    said = refuse(with_kinds({"image": deep, "label": LABEL}, image=Image(), label=NAMES))
    assert "the image of row 0 must have 8 bits per pixel and channel" in said
    sizes = [Picture.fromarray(np.zeros((2, 2 + row % 2), np.uint8)) for row in range(ROWS)]
    said = refuse(with_kinds({"image": sizes, "label": LABEL}, image=Image(), label=NAMES))
    assert "holds images of different sizes, such as 2 x 2 and 2 x 3; resize them" in said


def test_a_client_column_and_names_that_are_not_there():
    made = Dataset.from_dict({"age": AGE, "ward": ["a"] * 19 + [None], "label": LABEL})
    assert "no column 'wrd'; did you mean 'ward'?" in refuse(made, client="wrd")
    assert "column 'ward' has 1 missing value" in refuse(made, client="ward")
    assert "must be one of Hugging Face's library" in refuse([1], client="ward")


def test_five_lines(tmp_path):
    made = with_kinds({"age": AGE * 5, "label": LABEL * 5}, label=NAMES)
    with pytest.warns(MmflWarning, match="the data of task 'a': no test data"):
        task = mmfl.Task("a", data=made)
    run = mmfl.run(
        mmfl.Experiment(tasks=[task], clients=4, rounds=2, engine="inline"), out=tmp_path / "r"
    )
    assert 0 <= run.worst <= 1
