"""The tables of `run.sqlite`, and whether a database has these and nothing else.

What was never measured is NULL. `round.assignment` and `round.turns`: see `mmfl.runs.assignments`;
`round.digest` and the entries of `meta` that begin with "digest": see
`mmfl.runs.integrity.digests`.
"""

from __future__ import annotations

import sqlite3
from functools import cache

from mmfl.errors import StoreError
from mmfl.system import calls

__all__ = ["DIGESTED", "FORMAT", "TABLES", "check_tables", "create_tables", "is_empty"]

FORMAT = "4"
"""Of the tables below; a run is continued only by an mmfl that writes the same."""

APPLICATION = int.from_bytes(b"mmfl", "big")
"""What mmfl's SQLite files have in their header (``PRAGMA application_id``)."""

TABLES = {
    "meta": "(key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "task": """(
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    metric TEXT NOT NULL, better TEXT NOT NULL, target REAL, description TEXT NOT NULL)""",
    "round": """(
    round INTEGER PRIMARY KEY, active INTEGER NOT NULL, samples INTEGER NOT NULL,
    fresh INTEGER NOT NULL, seconds REAL NOT NULL, seconds_train REAL NOT NULL,
    seconds_evaluate REAL NOT NULL, chain TEXT NOT NULL, assignment BLOB NOT NULL,
    virtual REAL, quarantined INTEGER NOT NULL, turns BLOB NOT NULL, digest TEXT NOT NULL)""",
    "round_task": """(
    round INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES task(number),
    clients INTEGER NOT NULL, version INTEGER NOT NULL,
    difficulty REAL, metric REAL, loss REAL, PRIMARY KEY (round, task))""",
    "failure": """(
    round INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES task(number),
    client INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, turn INTEGER NOT NULL)""",
    "fault": """(
    round INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES task(number),
    client INTEGER NOT NULL, kind TEXT NOT NULL, outcome TEXT NOT NULL)""",
    "auction": """(
    task INTEGER PRIMARY KEY REFERENCES task(number), willing INTEGER NOT NULL,
    winners INTEGER NOT NULL, take_up REAL NOT NULL, price REAL, spend REAL NOT NULL,
    bids BLOB NOT NULL)""",
    "award": """(
    task INTEGER NOT NULL REFERENCES task(number), client INTEGER NOT NULL, bid REAL NOT NULL,
    participation REAL NOT NULL, payment REAL NOT NULL, paid REAL, PRIMARY KEY (task, client))""",
}
"""From a table's name to its columns."""

_ADDED = {
    "4": {"round": ", turns BLOB NOT NULL", "task": ", description TEXT NOT NULL"},
    "3": {"round": ", digest TEXT NOT NULL"},
    "2": {
        "round": ", virtual REAL, quarantined INTEGER NOT NULL",
        "failure": ", turn INTEGER NOT NULL",
    },
}
"""From a format to the columns that the one before it did not have, by table; newest first."""

DIGESTED = ("4", "3")
"""The formats that have digests, newest first."""

_OLDEST = {"meta", "task", "round", "round_task", "failure"}
"""The tables that all formats have."""


def create_tables(database: sqlite3.Connection) -> None:
    """Make all tables in an empty database; part of the caller's transaction."""
    calls.execute(database, f"PRAGMA application_id = {APPLICATION}")
    for name, columns in TABLES.items():
        calls.execute(database, f"CREATE TABLE {name} {columns}")


def is_empty(database: sqlite3.Connection) -> bool:
    """Whether a database has nothing in it."""
    return not calls.execute(database, "SELECT 1 FROM sqlite_master LIMIT 1").fetchall()


def check_tables(database: sqlite3.Connection) -> str:
    """Refuse a database with other tables, or with anything other than tables, such as a view.

    No table is read for it. Returns the format; "2" may also be an older one.
    """
    found = {}
    query = "SELECT type, name, sql FROM sqlite_master LIMIT 100"
    for kind, name, sql in calls.execute(database, query):
        if kind == "index" and sql is None:  # of a primary key
            continue
        if kind != "table" or name not in TABLES or not isinstance(sql, str):
            raise StoreError(f"{kind} {name!r} is not one of a run's tables")
        found[name] = " ".join(sql.split())
    current = next((one for one in DIGESTED if found.get("round") == _statement("round", one)), "2")
    missing = ({*TABLES} if current in DIGESTED else _OLDEST) - found.keys()
    if missing:
        raise StoreError(f"no such table: {next(name for name in TABLES if name in missing)}")
    permitted = [current] if current in DIGESTED else ["2", "1"]
    for name, sql in found.items():
        if sql not in [_statement(name, one) for one in permitted]:
            raise StoreError(f"table {name!r} does not have the columns of a run's table")
    return current


@cache
def _statement(name: str, format: str) -> str:  # noqa: A002
    """How a table was made in a format."""
    columns = " ".join(TABLES[name].split())
    for later, added in _ADDED.items():
        if int(later) > int(format):
            columns = columns.replace(added.get(name, ""), "")
    return f"CREATE TABLE {name} {columns}"
