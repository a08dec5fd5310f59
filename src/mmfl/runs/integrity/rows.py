"""The rows of `run.sqlite`: what `mmfl.runs.store` writes and reads in its transactions."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from mmfl.experiment import Experiment, ModelDescription
from mmfl.loop import RoundRecord, State
from mmfl.objectives import METRICS
from mmfl.runs.assignments import pack_assignments, pack_turns
from mmfl.runs.database import wait_for_lock
from mmfl.runs.integrity.digests import (
    Row,
    digest_auction,
    digest_round,
    digest_tasks,
    hash_and_size,
)
from mmfl.runs.schema import FORMAT
from mmfl.system import calls

__all__ = [
    "all_rows",
    "auction_digest",
    "last_round",
    "query_rows",
    "read_meta",
    "round_digest",
    "round_rows",
    "set_meta",
    "write_first_rows",
]


def query_rows(database: sqlite3.Connection, query: str, *values: Any) -> list[Row]:
    """The answer to a query; while another program holds the database's lock, this waits."""
    return wait_for_lock(lambda: calls.execute(database, query, values).fetchall())


def read_meta(database: sqlite3.Connection) -> dict[str, str]:
    """Table `meta`."""
    return dict(query_rows(database, "SELECT key, value FROM meta"))


def set_meta(database: sqlite3.Connection, **values: str) -> None:
    """Set entries of table `meta`."""
    calls.executemany(database, "INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def last_round(database: sqlite3.Connection) -> tuple[int, str] | None:
    """Number and digest of the last round; None before the first."""
    query = "SELECT round, digest FROM round ORDER BY round DESC LIMIT 1"
    found: tuple[int, str] | None = calls.execute(database, query).fetchone()
    return found


def all_rows(database: sqlite3.Connection, table: str) -> Iterator[Row]:
    """The rows of a table, in the order in which they were written."""
    return calls.execute(database, f"SELECT * FROM {table} ORDER BY rowid")


def auction_digest(database: sqlite3.Connection) -> str:
    """The digest of tables `auction` and `award` as they are."""
    return digest_auction(all_rows(database, "auction"), all_rows(database, "award"))


def round_digest(database: sqlite3.Connection, round: int) -> str:  # noqa: A002
    """The digest of a round as the tables have it now."""

    def rows(table: str, t: int) -> list[Row]:
        query = f"SELECT * FROM {table} WHERE round = ? ORDER BY rowid"
        return calls.execute(database, query, (t,)).fetchall()

    earlier = rows("round", round - 1)
    before = earlier[0][-1] if earlier else read_meta(database)["digest_tasks"]
    others = [rows(table, round) for table in ("round_task", "failure", "fault")]
    return digest_round(before, rows("round", round)[0][:-1], *others)


def task_rows(
    experiment: Experiment, descriptions: Mapping[str, ModelDescription]
) -> Iterator[Row]:
    """The rows of table `task`."""
    for number, task in enumerate(experiment.tasks):
        assert task.metric is not None  # the experiment is resolved
        kind = METRICS.kind_of(task.metric)
        known = descriptions.get(task.name)
        described = "" if known is None else known.to_json()
        yield number, task.name, kind, task.metric.better, task.target, described


def write_first_rows(
    database: sqlite3.Connection,
    experiment: Experiment,
    token: str,
    written: Mapping[str, bytes],
    descriptions: Mapping[str, ModelDescription],
) -> None:
    """Write what the tables hold before the first round.

    Args:
        database: With empty tables.
        experiment: The experiment, resolved.
        token: The mark's, which no other run directory has.
        written: The content of the directory's other files, by name.
        descriptions: How tasks' models are built and used, as far as that is known.
    """
    query = "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?)"
    calls.executemany(database, query, list(task_rows(experiment, descriptions)))
    hashes = {name: hash_and_size(content) for name, content in written.items()}
    set_meta(
        database,
        format=FORMAT,
        token=token,
        files=json.dumps(hashes),
        digest_tasks=digest_tasks(token, all_rows(database, "task")),
        digest_auction=digest_auction((), ()),
    )


def round_rows(state: State, record: RoundRecord) -> tuple[Row, list[Row], list[Row], list[Row]]:
    """A round's row of table `round`, without its digest, and those of round_task, failure, fault.

    The values have the very types in which they are read again: digests depend on it.
    """
    number = {task: n for n, task in enumerate(record.tasks)}
    tasks = [
        (
            record.round,
            number[task],
            record.clients[task],
            state.versions[task],
            *map(_null, (record.difficulty[task], record.metric[task], record.loss[task])),
        )
        for task in record.tasks
    ]
    failures = [
        (at.round, number[at.task], at.client, f.reason, _storable(f.detail), int(f.turn))
        for at, f in ((f.address, f) for f in record.failures)
    ]
    faults = [
        (at.round, number[at.task], at.client, f.kind, f.outcome)
        for at, f in ((f.address, f) for f in record.faults)
    ]
    quarantined = sum(until > record.round for _, until in state.offenders.values())
    whole = (
        *(record.round, record.active, record.samples, int(record.fresh)),
        *map(float, (record.seconds, record.seconds_train, record.seconds_evaluate)),
        *(state.chain, pack_assignments(record.assignments)),
        *(_null(record.virtual), quarantined),
        pack_turns(record.assignments, record.tasks, record.turns),
    )
    return whole, tasks, failures, faults


def _null(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _storable(text: str) -> str:
    """The beginning of a text that came from anywhere, as UTF-8 can hold it."""
    return text[:500].encode("utf-8", "backslashreplace").decode()
