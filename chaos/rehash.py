"""Recompute all digests of a run's database, as someone who edits it on purpose can."""

from __future__ import annotations

import sqlite3
from typing import Any

from mmfl.runs.integrity.digests import digest_auction, digest_meta, digest_round, digest_tasks

__all__ = ["renew"]


def renew(database: sqlite3.Connection) -> None:
    """Recompute every digest from the rows; the caller commits."""

    def rows(table: str, *where: int) -> list[tuple[Any, ...]]:
        condition = "WHERE round = ?" if where else ""
        query = f"SELECT * FROM {table} {condition} ORDER BY rowid"
        return database.execute(query, where).fetchall()

    put = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
    before = digest_tasks(dict(rows("meta")).get("token", ""), rows("task"))
    last = None
    database.execute(put, ("digest_tasks", before))
    database.execute(put, ("digest_auction", digest_auction(rows("auction"), rows("award"))))
    for row in rows("round"):
        others = [rows(table, row[0]) for table in ("round_task", "failure", "fault")]
        before = digest_round(before, row[:-1], *others)
        database.execute("UPDATE round SET digest = ? WHERE round = ?", (before, row[0]))
        last = (row[0], before)
    database.execute(put, ("digest", digest_meta(dict(rows("meta")), last)))
