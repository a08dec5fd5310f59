"""Run directories that were changed by hand, for tests: with new digests, or as older ones."""

from __future__ import annotations

import hashlib
import json
import re
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


def make_older(folder: Path | str, *, faults: bool = True, digests: bool = False) -> None:
    """Turn a run directory into what an older mmfl wrote.

    Args:
        folder: The run directory.
        faults: Whether it knows of faults; the formats before 2 did not.
        digests: Whether it has digests: format 3 did; else it is format 2.
    """
    lost = {"round": ["turns"], "task": ["description"]}
    if not digests:
        (Path(folder) / "mmfl-run.json").unlink()
        lost["round"].append("digest")
    if not faults:
        lost["round"] += ["virtual", "quarantined"]
    with closing(sqlite3.connect(Path(folder) / "run.sqlite")) as new:
        tables = {}
        for name, columns in TABLES.items():
            known = [row[1] for row in new.execute(f"PRAGMA table_info({name})")]
            kept = [one for one in known if one not in lost.get(name, ())]
            rows = new.execute(f"SELECT {', '.join(kept)} FROM {name} ORDER BY rowid").fetchall()
            made = " ".join(columns.split())
            for one in lost.get(name, ()):
                made = re.sub(rf", {one} \w+( NOT NULL)?", "", made)
            tables[name] = (made, rows)
            new.execute(f"DROP TABLE {name}")
        if not faults:
            del tables["fault"]
        for name, (made, rows) in tables.items():
            new.execute(f"CREATE TABLE {name} {made}")
            if rows:
                new.executemany(f"INSERT INTO {name} VALUES ({marks(rows[0])})", rows)
        if digests:
            new.execute("UPDATE meta SET value = '3' WHERE key = 'format'")
            renew(new)
        else:
            new.execute("PRAGMA application_id = 0")
            new.execute("DELETE FROM meta WHERE key IN ('token', 'files') OR key LIKE 'digest%'")
            new.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
        new.commit()


def marks(row: tuple[object, ...]) -> str:
    """One question mark per value."""
    return ", ".join("?" * len(row))
