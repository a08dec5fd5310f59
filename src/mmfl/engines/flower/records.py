"""What travels between the server and its nodes, as Flower's records: numbers, never pickles.

A message has a config record "mmfl" with one JSON text, and array records with weights. Weights are
one flat float32 vector, so a message has few objects: Flower transfers each by itself.

Whatever comes from the other side is limited in size and checked before it is decoded. Flower's
own `Array.numpy` allocates what a header claims, so it is not used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from mmfl.errors import InputError

__all__ = ["KEY", "TEXT", "pack", "unpack_array", "unpack_arrays", "unpack_table"]

TEXT = 1 << 20
"""No JSON text may be longer."""

_HEADER = 1 << 12
"""Nor may the header of an array, in bytes."""

KEY = "mmfl"
"""The name of the record with a message's table."""

_TYPES = {"float32": np.float32, "float64": np.float64}


def pack(table: Mapping[str, Any], **arrays: Mapping[str, npt.NDArray[Any]]) -> RecordDict:
    """A message's content: a table of plain values, and named arrays."""
    records: dict[str, Any] = {KEY: ConfigRecord({"json": json.dumps(table)})}
    for name, group in arrays.items():
        records[name] = ArrayRecord({key: Array(array) for key, array in group.items()})
    return RecordDict(records)


def unpack_table(content: RecordDict) -> dict[str, Any]:
    """The table of a content; `InputError` if there is none."""
    record = content.config_records.get(KEY)
    text = None if record is None else record.get("json")
    if not isinstance(text, str):
        raise InputError(f"the message has no table {KEY!r}")
    if len(text) > TEXT:
        raise InputError(f"its table has {len(text):,} characters, more than {TEXT:,}")
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"its table is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f"its table is {type(table).__name__}, not an object")
    return table


def unpack_arrays(content: RecordDict, name: str) -> Mapping[str, Array]:
    """The arrays of one record, as they came; `InputError` if the record is missing or not alone.

    >>> content = pack({}, delta={"flat": np.zeros(3, np.float32)})
    >>> unpack_array(unpack_arrays(content, "delta")["flat"], 3)
    array([0., 0., 0.], dtype=float32)
    """
    records = content.array_records
    if list(records) != [name]:
        found = ", ".join(map(repr, sorted(records)[:3])) or "none"
        raise InputError(f"the arrays of the message must be {name!r}, got {found}")
    return records[name]


def unpack_array(array: Array, size: int, dtype: str = "float32") -> npt.NDArray[Any]:
    """The numbers of a vector of known size and type; `InputError` for anything else."""
    data, kind = array.data, _TYPES[dtype]
    if array.stype != "numpy.ndarray":
        raise InputError(f"its arrays must be numpy.ndarray, got {array.stype[:40]!r}")
    whole = np.dtype(kind).itemsize * size
    if not whole < len(data) <= whole + _HEADER:
        raise InputError(f"an array of {size:,} {dtype} numbers has {len(data):,} bytes")
    stream = BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(version)
        if read is None:
            raise ValueError(f"format {version}")
        shape, _, found = read(stream, max_header_size=_HEADER)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"an array has no valid header: {type(error).__name__}") from None
    if found != kind or shape != (size,):
        raise InputError(f"an array must be {dtype} of shape ({size},), got {found} of {shape}")
    start = stream.tell()
    if len(data) - start != whole:
        raise InputError(f"an array of {size:,} {dtype} numbers has {len(data) - start:,} bytes")
    return np.frombuffer(data, kind, size, start)
