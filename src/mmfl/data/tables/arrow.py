"""Tables of Apache Arrow, which Parquet files and Hugging Face data sets hold.

pyarrow is imported only here, and only when there is such a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.config import short
from mmfl.data.tables.columns import Column, Table
from mmfl.errors import DataError, text_of
from mmfl.system.files import TABLE, open_file
from mmfl.system.memory import Need, refuse
from mmfl.system.user_code import pass_on

__all__ = ["read_arrow", "read_parquet"]

_TEXT = ("string", "large_string", "string_view")
"""Arrow's types of text."""

_INDEX = re.compile(r"__index_level_\d+__")
"""How pandas calls the numbers of a frame's rows, which are no data."""


def read_parquet(path: Path, where: str, *, ignore: Collection[str] = ()) -> Table:
    """A table from a Parquet file; `DataError` says what is wrong.

    Args:
        path: The file, which has at most 1 GiB.
        where: What it is called in messages.
        ignore: The columns that are not read.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{where}: Parquet files need pyarrow, which is not installed: "
            "pip install 'mmfl[parquet]'"
        ) from None
    try:
        with open_file(path, limit=TABLE) as file:
            # Text as words and their places: in a file it can be very much shorter than in memory.
            text = [f.name for f in parquet.read_schema(file) if str(f.type) in _TEXT]
            file.seek(0)
            opened = parquet.ParquetFile(file, pre_buffer=False, read_dictionary=text)
            fields = [field for field in opened.schema_arrow if not _INDEX.fullmatch(field.name)]
            names = [field.name for field in fields if field.name not in ignore]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise DataError(f"{where}: two columns are called {short(twice)}")
            about = opened.metadata
            sizes = (about.row_group(k).total_byte_size for k in range(about.num_row_groups))
            refuse([Need(where, max(8 * about.num_rows * len(names), sum(sizes)))])
            nested = {field.name for field in fields if field.type.num_fields}
            flat = [name for name in names if name not in nested]
            table = read_arrow(opened.read(columns=flat, use_threads=False), where)
    except OSError as error:
        raise DataError(f"{where} cannot be read: {error.strerror or text_of(error)}") from None
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything from inside Arrow
        pass_on(error)
        raise DataError(f"{where} cannot be read: {text_of(error)}") from None
    lists = Column(np.zeros(table.rows), np.zeros(table.rows, bool), kind="lists or tables")
    columns = {name: lists if name in nested else table.columns[name] for name in names}
    ignored = frozenset(field.name for field in fields) - columns.keys()
    return replace(table, columns=columns, ignored=ignored)


def read_arrow(table: Any, where: str) -> Table:
    """A table from one of Arrow's, whose columns have different names."""
    if not table.num_rows:
        raise DataError(f"{where} has no rows")
    columns = {name: _column(table.column(name)) for name in table.column_names}
    return Table(where, columns, table.num_rows)


def _column(chunks: Any) -> Column:
    """A column of Arrow's: numbers and truth values as they are, text as words."""
    import pyarrow
    from pyarrow import types

    kind = chunks.type
    missing = chunks.is_null().to_numpy()
    if str(kind) in _TEXT:
        chunks = chunks.dictionary_encode()
        kind = chunks.type
    if types.is_dictionary(kind) and str(kind.value_type) in _TEXT:
        return _text_column(chunks)
    if types.is_dictionary(kind):
        chunks, kind = chunks.cast(kind.value_type), kind.value_type
    if types.is_decimal(kind) or types.is_float16(kind):
        chunks, kind = chunks.cast(pyarrow.float64()), pyarrow.float64()
    if types.is_floating(kind):
        values = chunks.fill_null(float("nan")).to_numpy()
        return Column(values, missing | np.isnan(values))
    if types.is_integer(kind) or types.is_boolean(kind):
        return Column(chunks.fill_null(False if types.is_boolean(kind) else 0).to_numpy(), missing)
    if types.is_null(kind):
        return Column(np.zeros(len(missing)), missing)
    names = {"dates": types.is_temporal, "bytes": lambda one: "binary" in str(one)}
    known = (name for name, fits in names.items() if fits(kind))
    return Column(np.zeros(len(missing)), missing, kind=next(known, f"values of type {kind}"))


def _text_column(chunks: Any) -> Column:
    """A column of words and their places, as Arrow has it, perhaps with other words in each piece.

    A word of Arrow's may also be null, or be there twice.
    """
    words: dict[str, int] = {}
    pieces = [np.zeros(0, np.int64)]
    for chunk in chunks.chunks:
        known = [
            -1 if word is None else words.setdefault(word, len(words))
            for word in chunk.dictionary.to_pylist()
        ]
        places = chunk.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        pieces.append(np.array([*known, -1], np.int64)[places.astype(np.int64)])
    found = np.concatenate(pieces)
    return Column(found, found < 0, tuple(words))
