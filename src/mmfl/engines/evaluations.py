"""Evaluations on their way from a worker: a message, and the bytes of all tallies in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import numpy as np

from mmfl.exchange import Evaluation, EvaluationFailure
from mmfl.system.child import Message

__all__ = ["pack_evaluations", "unpack_evaluations"]

Found = Evaluation | EvaluationFailure


def pack_evaluations(found: Iterable[Found]) -> tuple[list[Message], bytes]:
    """A table for each, with its tally's shape in the place of the tally, and the tallies."""
    tables, tallies = [], []
    for table in map(asdict, found):
        tally = table.pop("tally", None)
        if tally is not None:
            table["tally"] = tally.shape
            tallies.append(tally.tobytes())
        tables.append(table)
    return tables, b"".join(tallies)


def unpack_evaluations(tables: Iterable[Message], tallies: bytes) -> Iterator[Found]:
    """The inverse."""
    start = 0
    for table in tables:
        if "reason" in table:
            yield EvaluationFailure(**table)
        elif "tally" not in table:
            yield Evaluation(**table)
        else:
            shape = table["tally"]
            tally = np.frombuffer(tallies, np.float64, math.prod(shape), start).reshape(shape)
            start += tally.nbytes
            yield Evaluation(**(table | {"tally": tally}))
