"""CSV files as data sets: what is read, what is repaired, and what is refused in one sentence."""

from __future__ import annotations

import os

import numpy as np
import pytest

from mmfl.data import DATASETS, CsvFile, content_hash
from mmfl.errors import DataError, MmflWarning
from support.helpers import one_line

ROWS = 30


def write(path, *columns, rows=ROWS, mark=",", head=None):
    """A file of columns, each a name and a function of the row."""
    lines = [mark.join(name for name, _ in columns)] if head is None else [head]
    lines += [mark.join(str(value(row)) for _, value in columns) for row in range(rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


AGE = ("age", lambda row: 20 + row)
DOSE = ("dose", lambda row: row / 8)
ILL = ("ill", lambda row: row % 3 % 2)
WARD = ("ward", lambda row: f"w{row % 4}")


@pytest.fixture
def load(tmp_path):
    def read(text=None, *columns, **keys):
        path = tmp_path / "table.csv"
        if isinstance(text, str | bytes):
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        else:
            write(path, *([text] if text else []), *columns)
        with pytest.warns(MmflWarning) as caught:
            found = CsvFile(**{"path": "table.csv", "target": "ill"} | keys).load(tmp_path)
        start = f"data set {str(path)!r}: "
        said = [str(one.message) for one in caught]
        assert all(one.startswith(start) for one in said)
        return found, [one.removeprefix(start) for one in said if "no test data" not in one]

    return read


@pytest.fixture
def refused(tmp_path):
    def read(text, **keys):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        dataset = CsvFile(**{"path": "table.csv", "target": "ill"} | keys)
        said = one_line(DataError, lambda: dataset.load(tmp_path))
        assert said.startswith(f"data set {str(path)!r}")
        return said.removeprefix(f"data set {str(path)!r}")

    return read


def whole(found, name="x"):
    """Training and test data together, in an order that does not depend on the split."""
    both = np.concatenate([getattr(found, f"{name}_train"), getattr(found, f"{name}_test")])
    return np.sort(both, axis=0)


def test_numbers_are_features_and_whole_numbers_are_classes(load):
    found, said = load(AGE, DOSE, ILL)
    assert said == []
    assert (found.x_train.dtype, found.classes, found.groups) == (np.float32, 2, None)
    np.testing.assert_array_equal(whole(found)[:, 0], 20 + np.arange(ROWS))
    np.testing.assert_array_equal(whole(found)[:, 1], np.arange(ROWS, dtype=np.float32) / 8)
    row = found.x_train[:, 0].astype(int) - 20
    np.testing.assert_array_equal(found.y_train, row % 3 % 2)


def test_each_value_of_a_client_column_is_a_group(load):
    found, _ = load(AGE, ILL, WARD, client="ward")
    np.testing.assert_array_equal(found.groups, (found.x_train[:, 0].astype(int) - 20) % 4)
    assert found.x_train.shape[1] == 1


def test_clients_that_are_numbers_are_in_their_order(load):
    found, _ = load(AGE, ILL, ("ward", lambda row: [9, 10, 100][row % 3]), client="ward")
    np.testing.assert_array_equal(found.groups, (found.x_train[:, 0].astype(int) - 20) % 3)


def test_text_becomes_columns_of_0_and_1(load):
    found, said = load(("sex", lambda row: "FM"[row % 2]), AGE, ILL)
    row = found.x_train[:, 2].astype(int) - 20
    np.testing.assert_array_equal(found.x_train[:, :2], np.eye(2)[row % 2])
    assert said == ["each value of these columns becomes a column of 0 and 1: sex (2)"]


def test_truth_values_stay_one_column(load):
    found, said = load(("smokes", lambda row: ["true", "FALSE"][row % 2]), AGE, ILL)
    assert (found.x_train.shape[1], said) == (2, [])
    np.testing.assert_array_equal(found.x_train[:, 0], (found.x_train[:, 1] + 1) % 2)


def test_numbers_that_are_named_as_categories_become_columns(load):
    found, _ = load(("stage", lambda row: [1, 2, "3a"][row % 3]), AGE, ILL, categories="stage")
    assert found.x_train.shape[1] == 4


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("no", "yes"), "classes are numbered in this order: no, yes"),
        ((1, 2), "the labels 1, 2 are renumbered 0 to 1"),
        ((0, 7), "the labels 0, 7 are renumbered 0 to 1"),
        ((-1, 1), "the labels -1, 1 are renumbered 0 to 1"),
        (("true", "false"), None),
        (
            ("123456789012345678901", "123456789012345678902"),
            "classes are numbered in this order: 123456789012345678901, 123456789012345678902",
        ),
    ],
)
def test_labels_become_class_numbers_from_0(load, labels, said):
    found, notes = load(AGE, ("ill", lambda row: labels[row % 2]))
    assert found.classes == 2
    assert notes == ([said] if said else [])
    place = sorted(labels).index(labels[0])
    row = found.x_train[:, 0].astype(int) - 20
    np.testing.assert_array_equal(found.y_train, (row + place) % 2)


def test_other_numbers_are_real_targets(load):
    found, _ = load(AGE, DOSE, target="dose")
    assert found.classes is None
    np.testing.assert_array_equal(found.y_train, (found.x_train[:, 0] - 20) / 8)
    found, _ = load(AGE, DOSE, ("days", lambda row: row), target=["dose", "days"])
    np.testing.assert_array_equal(found.y_train[:, 1], found.x_train[:, 0] - 20)


def test_whole_numbers_are_real_targets_on_demand(load):
    found, _ = load(AGE, ILL, targets="numbers")
    assert (found.classes, found.y_train.dtype) == (None, np.float32)
    found, _ = load(AGE, ("ill", lambda row: float(row % 2)), targets="classes")
    assert found.classes == 2


def test_a_target_by_its_usual_name_needs_no_key(load):
    found, _ = load(AGE, ("Label", lambda row: "ab"[row % 2]), target=())
    assert found.classes == 2


def test_the_test_split_may_be_another_file(tmp_path):
    write(tmp_path / "a.csv", AGE, ("sex", lambda row: "FM"[row % 2]), ILL)
    write(tmp_path / "b.csv", ILL, ("sex", lambda row: "MX"[row % 2]), AGE, rows=7)
    with pytest.warns(MmflWarning, match=r"sex \(3\)"):
        found = CsvFile(path="a.csv", test="b.csv", target="ill").load(tmp_path)
    assert (len(found.x_train), len(found.x_test)) == (ROWS, 7)
    np.testing.assert_array_equal(found.x_test[0], [20, 0, 1, 0])


@pytest.mark.parametrize("cell", ["", "NA", "nan", " "])
def test_rows_with_missing_values_can_be_left_out(load, cell):
    column = ("dose", lambda row: cell if row % 5 == 0 else row)
    found, said = load(AGE, column, ILL, missing="drop")
    assert said == ["6 of 30 rows have missing values and are left out"]
    assert len(found.x_train) + len(found.x_test) == 24


@pytest.mark.parametrize(
    "row", ["old,1,0", "7,1,ill", "?,1,?"], ids=["feature", "target", "feature and target"]
)
def test_what_is_only_in_a_row_that_is_left_out_does_not_count(load, row):
    body = "".join(f"{20 + row},{row % 7},{row % 2}\n" for row in range(ROWS))
    plain = load(f"age,dose,ill\n{body}")[0]
    found, said = load(f"age,dose,ill\n{row.replace(',1,', ',,')}\n{body}", missing="drop")
    assert said == ["1 of 31 rows have missing values and are left out"]
    assert content_hash(found) == content_hash(plain)


@pytest.mark.parametrize("cells", [12, 1 << 20])
def test_text_between_numbers_is_named_after_rows_were_left_out(refused, monkeypatch, cells):
    monkeypatch.setattr("mmfl.data.tables.csv_file._CELLS", cells)
    rows = "1,\n" + "3,0\n" * 20 + "old,1\n5,1\n"
    said = refused(f"age,ill\n{rows}", missing="drop")
    assert said.startswith(": column 'age' holds numbers, but 'old' in line 23; correct it")


def test_numbers_with_a_comma_are_no_categories(refused, load):
    body = "".join(f"{row},5;{row % 2};{row % 3},0\n" for row in range(ROWS))
    said = refused(f"age;ill;dose\n{body}", separator=";")
    assert said.startswith(": column 'age' holds numbers with a comma, such as '0,5'; write them")
    said = refused(f"age;ill;dose\n{body}", separator=";", target="dose", ignore="age")
    assert said.startswith(": the target column 'dose' holds numbers with a comma, such as '0,0'")
    found, _ = load(f"age;ill;dose\n{body}", separator=";", ignore="age", categories="dose")
    assert found.x_train.shape[1] == 3


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_separators(tmp_path, mark):
    write(tmp_path / "table.csv", AGE, ILL, mark=mark)
    with pytest.warns(MmflWarning, match="no test data"):
        found = CsvFile(path="table.csv", target="ill", separator=mark).load(tmp_path)
    assert found.classes == 2
    said = one_line(DataError, lambda: CsvFile(path="table.csv", target="ill").load(tmp_path))
    assert f"set separator = {mark!r}" in said


BODY = "".join(f"{20 + row},{row % 2}\n" for row in range(ROWS))


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeffage,ill\n{BODY}",
        f"age,ill\n{BODY}".replace("\n", "\r\n"),
        f"age,ill\n{BODY}".replace("\n", "\r"),
        f" age , ill\n\n{BODY}\n\n",
        f"age,ill\n{BODY}".removesuffix("\n"),
        f'"age","ill"\n{BODY}'.replace(",0", ',"0"'),
    ],
    ids=["mark", "windows", "old mac", "spaces and blank lines", "no end", "quotes"],
)
def test_forms_of_the_same_file(load, text):
    assert content_hash(load(text)[0]) == content_hash(load(f"age,ill\n{BODY}")[0])


def test_a_long_file_is_read_in_blocks(load, monkeypatch):
    columns = (AGE, ("sex", lambda row: "" if row < 20 else "FM"[row % 2]), ILL)
    one = load(*columns, missing="drop")[0]
    monkeypatch.setattr("mmfl.data.tables.csv_file._CELLS", 12)
    assert content_hash(load(*columns, missing="drop")[0]) == content_hash(one)


@pytest.mark.parametrize("cells", [12, 1 << 20])
def test_a_late_cell_that_is_not_a_number_is_named(refused, monkeypatch, cells):
    monkeypatch.setattr("mmfl.data.tables.csv_file._CELLS", cells)
    said = refused(f"age,ill\n{BODY}old,1\n{BODY}")
    assert said.startswith(": column 'age' holds numbers, but 'old' in line 32; correct it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", " is empty"),
        ("\n\n", " is empty"),
        ("age,ill\n", " has no rows, only the names of its columns"),
        ("age,age,ill\n1,2,1\n", ": two columns are called 'age'; names must differ"),
        ("age,ill\n1,2\n3\n", ", line 3: has 1 cell, but line 1 names 2 columns"),
        ("age,ill\n1,2,3\n", ", line 2: has 3 cells, but line 1 names 2 columns"),
        (",age,ill\n0,1,2\n", ": column 1 has no name in line 1; name it, or leave it out with "),
        ("1,2\n3,4\n", ": line 1 must name the columns, got '1,2'"),
        (f"age,ill\n{BODY}".encode("utf-16"), ", line 1: is UTF-16 text; save it as UTF-8"),
        (b"age,ill\n1,2\n\xff,3\n", ", line 3: is not UTF-8 text; save it as UTF-8"),
        ("age,ill\n1,2\n3,\0\n", ", line 3: holds a zero byte, so it is not text"),
        ('age,ill\n1,2\n"3,4\n', ", line 3: unexpected end of data"),
        ("age,ill\n1,2\ninf,1\n", ": column 'age' must hold finite numbers up to 3.4e+38, but "),
        ("age,ill\n1,2\n1e39,1\n", "but line 3 has 1e+39"),
        ("age,ill\n1,2\nnan,1\n", ": column 'age' has 1 missing value, the first in line 3; fill "),
        ("age,ill\n1,1\n2,1\n3,1\n", "has the same value in every row, '1', so there is nothing"),
        ("age,sick\n1,1\n", " has no column 'ill'; known: age, sick"),
        ("ill\n1\n", " has no feature columns"),
        ("age,ill\n1,2\n3,\n", ": column 'ill' has 1 missing value, the first in line 3"),
        (
            "age,ill\n1,2\n3,?\n",
            "column 'ill' holds numbers, but '?' in line 3; correct it, or set",
        ),
        (
            "id,ill\n" + "".join(f"n{row},{row % 2}\n" for row in range(101)),
            ": column 'id' holds text with 101 different values, such as 'n0'; leave the column",
        ),
        (
            "age,ill\n" + "".join(f"{row},{row * 2}\n" for row in range(101)),
            "'ill' has 101 different values, which may be classes or numbers; set targets =",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(refused, text, words):
    assert words in refused(text)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"client": "wrd"}, " has no column 'wrd'; did you mean 'ward'?"),
        ({"ignore": "wrd"}, " has no column 'wrd'; did you mean 'ward'?"),
        ({"categories": ["wrd"]}, " has no column 'wrd'; did you mean 'ward'?"),
        (
            {"client": "ward", "ignore": "none"},
            ": column 'ward' has 1 missing value, the first in line 3",
        ),
        ({"target": ()}, ': say which column is the target, as in target = "outcome"'),
        ({"target": "none"}, ": column 'ward' has 1 missing value"),
        (
            {"target": "name", "targets": "numbers", "ignore": ["ward", "none"]},
            ": column 'name' must hold numbers, but line 2 has 'a'",
        ),
        ({"missing": "drop", "target": "none"}, ": every row has a missing value"),
        ({"target": "age", "ignore": "age"}, ": column 'age' is the target or the client, and"),
        ({"client": "ward", "ignore": "ward"}, ": column 'ward' is the target or the client, and"),
        ({"target": ["age", "ill", "age"]}, ": target names column 'age' twice"),
    ],
)
def test_what_is_wrong_with_a_column_is_one_sentence(refused, keys, words):
    assert words in refused("age,ill,ward,name,none\n1,2,x,a,\n2,3,,b,\n3,2,y,c,\n", **keys)


def test_names_of_columns_cannot_write_to_the_terminal(refused):
    assert "\x1b" not in refused("\x1b[2J,ill\nx1,2\n3,4\n")
    assert "\x1b" not in refused("\x1b[2J,ill\n1,2\n3,4\n", target="\x1b]0;")


def test_classes_and_columns_in_warnings_cannot_write_to_the_terminal(load):
    column = ("\x1b[2Jsex", lambda row: "FM"[row % 2])
    _, said = load(AGE, column, ("ill", lambda row: f"\x1b]0;{row % 2}\x07"))
    assert said == [
        "classes are numbered in this order: \\x1b]0;0\\x07, \\x1b]0;1\\x07",
        "each value of these columns becomes a column of 0 and 1: \\x1b[2Jsex (2)",
    ]


def test_a_pipe_a_folder_and_a_file_that_is_not_there(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name, words in [
        ("pipe.csv", "cannot be read: it is a pipe, not a file"),
        ("folder.csv", "is a folder"),
        ("none.csv", "does not exist"),
        ("x" * 300, "does not exist"),
    ]:
        said = one_line(DataError, lambda name=name: CsvFile(path=name).load(tmp_path))
        assert words in said


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    with (tmp_path / "table.csv").open("wb") as file:
        file.truncate((1 << 30) + 1)
    said = one_line(DataError, lambda: CsvFile(path="table.csv").load(tmp_path))
    assert said.endswith("it has 1,073,741,825 bytes; the limit is 1,073,741,824")


def test_a_line_without_an_end_is_not_held_in_memory(refused, monkeypatch):
    monkeypatch.setattr("mmfl.data.tables.csv_file._LINE", 100)
    assert ", line 2: has more than 100 characters" in refused(f"age,ill\n{'1' * 200}")


def test_a_table_as_in_a_file_and_as_in_python():
    made = DATASETS.parse({"kind": "csv", "path": "a.csv", "target": "ill", "client": "ward"})
    assert made == CsvFile(path="a.csv", target="ill", client="ward")
    assert DATASETS.parse(DATASETS.dump(made)) == made
