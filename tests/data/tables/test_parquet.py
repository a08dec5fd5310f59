"""Parquet files as data sets: the rules of CSV files, and files that are damaged."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from mmfl.data import CsvFile, ParquetFile, content_hash
from mmfl.errors import DataError, MmflWarning
from support.helpers import one_line

pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 30
COLUMNS = {
    "age": [20 + row for row in range(ROWS)],
    "dose": [row / 8 for row in range(ROWS)],
    "smokes": [row % 5 < 2 for row in range(ROWS)],
    "sex": ["FM"[row % 2] for row in range(ROWS)],
    "ward": [f"w{row % 4}" for row in range(ROWS)],
    "ill": [["no", "yes"][row % 3 % 2] for row in range(ROWS)],
}


@pytest.fixture
def write(tmp_path):
    def write_table(columns=COLUMNS, names=None, **options):
        table = columns if names is None else pyarrow.table(columns, names=names)
        if not isinstance(table, pyarrow.Table):
            table = pyarrow.table(table)
        parquet.write_table(table, tmp_path / "table.parquet", **options)
        return tmp_path

    return write_table


def load(folder, **keys):
    with pytest.warns(MmflWarning):
        return ParquetFile(**{"path": "table.parquet", "target": "ill"} | keys).load(folder)


def refuse(folder, **keys):
    dataset = ParquetFile(**{"path": "table.parquet", "target": "ill"} | keys)
    said = one_line(DataError, lambda: dataset.load(folder))
    where = f"data set {str(folder / 'table.parquet')!r}"
    assert said.startswith(where)
    return said.removeprefix(where)


def test_a_table_is_the_same_data_set_as_a_csv_and_as_a_parquet_file(write, tmp_path):
    rows = zip(*COLUMNS.values(), strict=True)
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    with pytest.warns(MmflWarning):
        csv = CsvFile(path="table.csv", target="ill", client="ward").load(tmp_path)
    assert csv.x_train.shape[1] == 5
    for options in ({}, {"row_group_size": 7}, {"compression": "zstd", "use_dictionary": False}):
        found = load(write(**options), client="ward")
        assert content_hash(found) == content_hash(csv)
        np.testing.assert_array_equal(found.groups, csv.groups)


@pytest.mark.parametrize(
    "kind",
    ["int8", "uint64", "float16", "float32", "decimal128(9, 2)", "dictionary"],
)
def test_every_kind_of_number_is_a_feature(write, kind):
    ages = pyarrow.array(COLUMNS["age"])
    if kind == "dictionary":
        made = ages.dictionary_encode()
    elif kind.startswith("decimal"):
        made = pyarrow.array(list(map(Decimal, COLUMNS["age"])), pyarrow.decimal128(9, 2))
    elif kind == "float16":
        made = pyarrow.array(np.array(COLUMNS["age"], np.float16))
    else:
        made = ages.cast(kind)
    found = load(write({"age": made, "ill": COLUMNS["ill"]}))
    np.testing.assert_array_equal(np.sort(np.r_[found.x_train, found.x_test][:, 0]), np.r_[20:50])


def test_text_of_every_kind_becomes_columns_of_0_and_1(write):
    words = pyarrow.array(COLUMNS["sex"])
    large, coded = words.cast(pyarrow.large_string()), words.dictionary_encode()
    found = load(write({"a": large, "b": coded, "c": words, "ill": COLUMNS["ill"]}))
    assert found.x_train.shape[1] == 6
    np.testing.assert_array_equal(found.x_train[:, :2], found.x_train[:, 2:4])


def test_real_targets_and_missing_rows(write):
    doses = [None if row % 10 == 0 else row + 0.5 for row in range(ROWS)]
    found = load(write({"age": COLUMNS["age"], "ill": doses}), missing="drop")
    assert (found.classes, len(found.x_train) + len(found.x_test)) == (None, 27)
    ages = [None if row % 10 == 0 else row for row in range(ROWS)]
    found = load(write({"age": ages, "ill": COLUMNS["ill"]}), missing="drop")
    assert len(found.x_train) + len(found.x_test) == 27


def test_the_rows_of_a_frame_are_no_feature(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)[["age", "ill"]].sort_values("ill")
    frame.to_parquet(tmp_path / "table.parquet")
    assert load(tmp_path).x_train.shape[1] == 1


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"age": [[1, 2]] * 3, "ill": [0, 1, 0]}, ": column 'age' holds lists or tables, not "),
        ({"age": [{"a": 1}] * 3, "ill": [0, 1, 0]}, ": column 'age' holds lists or tables, not "),
        ({"age": [1, 2, 3], "ill": [[0], [1], [0]]}, "'ill' must hold classes or numbers, not li"),
        ({"age": [date(2020, 1, 1)] * 3, "ill": [0, 1, 0]}, ": column 'age' holds dates, not num"),
        ({"age": [b"a", b"b", b"c"], "ill": [0, 1, 0]}, ": column 'age' holds bytes, not numbers"),
        ({"age": [1, None, 3], "ill": [0, 1, 0]}, ": column 'age' has 1 missing value, the first"),
        ({"age": [None] * 3, "ill": [0, 1, 0]}, ": column 'age' has 3 missing values, the first "),
        ({"age": [1.0, float("inf"), 2], "ill": [0, 1, 0]}, "up to 3.4e+38, but row 1 has inf"),
        ({"age": [], "ill": []}, " has no rows"),
        ({"ill": [0, 1, 0]}, " has no feature columns"),
        ({"age": [1, 2, 3], "ill": [1, 1, 1]}, "has the same value in every row, '1'"),
        ({"age": [1, 2, 3], "\x1b[2J": [1, 1, 1]}, " has no column 'ill'"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(write, columns, words):
    assert words in refuse(write(columns))


def test_two_columns_of_one_name(write):
    folder = write([[1, 2], [3, 4], [0, 1]], ["age", "age", "ill"])
    assert refuse(folder) == ": two columns are called 'age'"


def test_a_nested_column_can_be_left_out(write):
    lists = {"a": [[1]] * ROWS, "ill": COLUMNS["ill"], "age": COLUMNS["age"]}
    assert load(write(lists), ignore="a").x_train.shape[1] == 1
    assert " has no column 'b'" in refuse(write(lists), ignore=["a", "b"])


def test_a_damaged_file_is_one_sentence(write):
    folder = write()
    path = folder / "table.parquet"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for content in (b"", b"PAR1", whole[:-9], whole[9:], b"a,b\n1,2\n", whole[:200] + whole[300:]):
        path.write_bytes(content)
        assert " cannot be read: " in refuse(folder)
    for _ in range(60):  # a changed byte may also do no harm
        content = bytearray(whole)
        for place in rng.integers(len(whole), size=3):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        with suppress(DataError), warnings.catch_warnings(action="ignore"):
            ParquetFile(path="table.parquet", target="ill").load(folder)


def test_text_that_is_very_long_in_memory_is_read_as_it_is_stored(write):
    """100 kB on disk, 200 GB as plain text."""
    rows = 200_000
    places = pyarrow.array(np.arange(rows) % 2, pyarrow.int32())
    words = pyarrow.array(["x" * 1_000_000, "y" * 1_000_000])
    long = pyarrow.DictionaryArray.from_arrays(places, words)
    folder = write({"long": long, "ill": np.arange(rows) % 2}, store_schema=False)
    found = load(folder)
    assert found.x_train.shape == (160_000, 2)
    np.testing.assert_array_equal(found.x_train[:, 1], found.y_train)


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "table.parquet")
    assert refuse(tmp_path) == " cannot be read: it is a pipe, not a file"


def test_without_pyarrow_a_sentence_says_what_to_install(write, monkeypatch):
    folder = write()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refuse(folder).endswith("pip install 'mmfl[parquet]'")
