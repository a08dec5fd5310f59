"""What every row of a run is checked against: SHA-256 over all that `run.sqlite` says.

    round.digest          over the round before it and over all rows of this round: tables round
                          (but for this column), round_task, failure and fault, in this order
    meta.digest_tasks     over the run's token and table task; round one follows it
    meta.digest_auction   over tables auction and award, the latter by the thousand
    meta.digest           over all other entries of meta, and the last round and its digest

Rows are encoded as JSON, in the order of their numbers (rowid), floats in Python's shortest form
that is read back exactly, and a blob as the SHA-256 of its content. All of it is written in the
transaction that writes the rows, so it holds at any moment of a run. It finds accidents, not
attacks: anyone who can write into a directory can write new digests, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

__all__ = [
    "DIGEST",
    "Row",
    "digest_auction",
    "digest_meta",
    "digest_round",
    "digest_tasks",
    "hash_and_size",
]

DIGEST = "digest"

Row = tuple[Any, ...]


def digest_tasks(token: str, tasks: Iterable[Row]) -> str:
    """Of table `task`."""
    return _digest("tasks", token, list(tasks))


def digest_auction(auction: Iterable[Row], award: Iterable[Row]) -> str:
    """Of tables `auction` and `award`; the awards may be very many, and go by the thousand."""
    digest, rows = _digest("auction", list(auction)), iter(award)
    while some := list(islice(rows, 1000)):
        digest = _digest("award", digest, some)
    return digest


def digest_round(
    before: str,
    whole: Sequence[Any],
    tasks: Sequence[Row],
    failures: Sequence[Row],
    faults: Sequence[Row],
) -> str:
    """Of a round's rows.

    Args:
        before: The digest of the round before; of round one, that of the tasks.
        whole: The row of table `round`, without its digest.
        tasks: The rows of table `round_task`.
        failures: The rows of table `failure`.
        faults: The rows of table `fault`.
    """
    return _digest("round", before, whole, tasks, failures, faults)


def digest_meta(meta: Mapping[str, str], last: Sequence[Any] | None) -> str:
    """Of table `meta`, without this digest itself.

    Args:
        meta: The table.
        last: Number and digest of the last round; None before the first.
    """
    return _digest("meta", sorted(item for item in meta.items() if item[0] != DIGEST), last)


def hash_and_size(content: bytes) -> dict[str, int]:
    """What `meta.files` says of a file."""
    return {hashlib.sha256(content).hexdigest(): len(content)}


def _digest(*parts: Any) -> str:
    return hashlib.sha256(_encode(parts).encode()).hexdigest()


def _blob(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_encode = json.JSONEncoder(default=_blob).encode
