"""Run directories that were changed by hand, for tests: with new digests, or as older ones."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from chaos.rehash import renew
from mmfl.runs.schema import TABLES


@contextmanager
def edited(folder: Path | str) -> Iterator[sqlite3.Connection]:
    """A run's database to change at will; then every digest is what the rows make it."""
    with closing(sqlite3.connect(Path(folder) / "run.sqlite")) as database:
        yield database
        renew(database)
        database.commit()


def set_meta(folder: Path | str, **values: str) -> None:
    """Set entries of table meta."""
    with edited(folder) as database:
        database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def rewrite(folder: Path | str, name: str, content: str) -> None:
    """Replace a file of a run directory, and its hash."""
    (Path(folder) / name).write_text(content)
    with edited(folder) as database:
        (told,) = database.execute("SELECT value FROM meta WHERE key = 'files'").fetchone()
        digest = hashlib.sha256(content.encode()).hexdigest()
        files = json.loads(told) | {name: {digest: len(content.encode())}}
        database.execute("UPDATE meta SET value = ? WHERE key = 'files'", (json.dumps(files),))


def make_older(folder: Path | str, *, faults: bool = True) -> None:
    """Turn a run directory into what mmfl wrote before there were digests: format 2.

    Args:
        folder: The run directory.
        faults: Whether it knows of faults; the formats before 2 did not.
    """
    path = Path(folder) / "run.sqlite"
    (Path(folder) / "mmfl-run.json").unlink()
    lost = ", digest TEXT NOT NULL"
    tables = {name: " ".join(columns.split()).replace(lost, "") for name, columns in TABLES.items()}
    if not faults:
        del tables["fault"]
        added = ", virtual REAL, quarantined INTEGER NOT NULL"
        tables["round"] = tables["round"].replace(added, "")
    with closing(sqlite3.connect(path)) as new:
        old = {
            name: new.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall() for name in tables
        }
        for name in TABLES:
            new.execute(f"DROP TABLE {name}")
        new.execute("PRAGMA application_id = 0")
        for name, columns in tables.items():
            new.execute(f"CREATE TABLE {name} {columns}")
            wide = len(new.execute(f"PRAGMA table_info({name})").fetchall())
            marks = ", ".join("?" * wide)
            new.executemany(
                f"INSERT INTO {name} VALUES ({marks})", [row[:wide] for row in old[name]]
            )
        new.execute("DELETE FROM meta WHERE key IN ('token', 'files') OR key LIKE 'digest%'")
        new.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
        new.commit()
