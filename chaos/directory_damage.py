"""Damage a run directory in one way, as a disk, a copy, an editor or an attacker may.

`damage(folder, rng)` applies one of `WAYS`. Each takes a folder and a stream, changes something,
and returns what it changed, or None if it found nothing to change; then another one is tried.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import chdir, closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from chaos.rehash import renew
from mmfl.rng import Stream

__all__ = ["LIES", "WAYS", "damage", "files_in"]

T = TypeVar("T")
Way = Callable[[Path, Stream], str | None]

DATABASE = "run.sqlite"
ESCAPE = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\r\n"
NASTY: tuple[Any, ...] = (
    *(None, 0, 1, -1, 7, 2**62, -(2**63), 0.5, -1.5, 1e308, float("inf"), float("-inf")),
    *("", "abc", "nan", "12", "9" * 40, ESCAPE, "a" * 5000, "\x00", "\u202e", "é", "../../x"),
    *(b"", b"\x00\xff", b"x\x9c" + bytes(40), "{}", "[]", "null", "{" * 3000, "finished", "2", "3"),
)
LIES = ("a lie with new digests",)
"""Ways that no digest can detect; the results may differ, but must be well-formed."""


def one(of: Sequence[T], rng: Stream) -> T:
    return of[int(rng.integers(len(of)))]


def files_in(folder: Path) -> list[Path]:
    """All files, by name."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def some_file(folder: Path, rng: Stream) -> Path:
    """A file; half of the time the database."""
    if rng.random() < 0.5 and (folder / DATABASE).is_file():
        return folder / DATABASE
    return one(files_in(folder), rng)


# Bytes


def flip(folder: Path, rng: Stream) -> str | None:
    path = some_file(folder, rng)
    body = bytearray(path.read_bytes())
    if not body:
        return None
    near = 100 if rng.random() < 0.2 else len(body)
    for _ in range(one((1, 1, 1, 8), rng)):
        body[int(rng.integers(min(near, len(body))))] ^= 1 << int(rng.integers(8))
    path.write_bytes(body)
    return f"bits flipped in {path.name}"


def cut(folder: Path, rng: Stream) -> str | None:
    path = some_file(folder, rng)
    size = path.stat().st_size
    if not size:
        return None
    os.truncate(path, int(rng.integers(size)))
    return f"{path.name} cut short"


def zero(folder: Path, rng: Stream) -> str | None:
    path = some_file(folder, rng)
    body = bytearray(path.read_bytes())
    if not body:
        return None
    length = one((512, 4096), rng)
    at = int(rng.integers(len(body))) // length * length
    body[at : at + length] = bytes(len(body[at : at + length]))
    path.write_bytes(body)
    return f"a sector of {path.name} zeroed"


def grow(folder: Path, rng: Stream) -> str:
    path = some_file(folder, rng)
    with path.open("ab") as file:
        file.write(one((b"\0", bytes(4096), rng.bytes(100), b"\n# mine\n"), rng))
    return f"{path.name} grown"


def huge(folder: Path, rng: Stream) -> str:
    path = some_file(folder, rng)
    os.truncate(path, one((1 << 33, 1 << 40), rng))
    return f"{path.name} is huge"


def garbage(folder: Path, rng: Stream) -> str:
    path = some_file(folder, rng)
    path.write_bytes(one((b"", rng.bytes(3000), b"[" * 100_000, ESCAPE.encode()), rng))
    return f"{path.name} holds something else"


def remove(folder: Path, rng: Stream) -> str:
    path = some_file(folder, rng)
    path.unlink()
    return f"{path.name} removed"


def swap(folder: Path, rng: Stream) -> str | None:
    mine, other = one(files_in(folder), rng), one(files_in(folder), rng)
    if mine.read_bytes() == other.read_bytes():
        return None
    both = mine.read_bytes(), other.read_bytes()
    mine.write_bytes(both[1])
    if rng.random() < 0.5:
        other.write_bytes(both[0])
    return f"{mine.name} has the content of {other.name}"


# What is not a file


def in_place(folder: Path, rng: Stream) -> str:
    """Replace a file or a folder by a pipe, a link, a folder or a socket."""
    beside = [folder / f"{DATABASE}{end}" for end in ("-wal", "-shm", "-journal")]
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    parts = [path.with_name(f"{path.name}.part") for path in files_in(folder)]
    path = one([*files_in(folder), *files_in(folder), *beside, *folders, one(parts, rng)], rng)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kind = one(("pipe", "folder", "loop", "device", "dangling", "socket", "link"), rng)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to(one(("/dev/zero", "/dev/null", "/dev/tty"), rng))
        case "dangling":
            path.symlink_to("nowhere")
        case "socket":
            with closing(socket.socket(socket.AF_UNIX)) as made, chdir(path.parent):
                made.bind(path.name)
        case "link":
            path.symlink_to(one(files_in(folder), rng))
    return f"{path.name} is a {kind}"


def beside(folder: Path, rng: Stream) -> str:
    """Add a journal or a log that does not belong to the database."""
    path = folder / f"{DATABASE}{one(('-wal', '-journal', '-shm'), rng)}"
    body = (folder / DATABASE).read_bytes()
    magic = bytes.fromhex("d9d505f920a163d7")
    head = magic + rng.bytes(4) + bytes(4) + one((bytes(4), (1).to_bytes(4)), rng)
    journal = head + (512).to_bytes(4) + (4096).to_bytes(4) + bytes(512 - 28)
    path.write_bytes(one((b"", rng.bytes(5000), body, journal, journal + rng.bytes(4104)), rng))
    return f"a strange {path.name}"


# SQL


def tables(database: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return [name for (name,) in database.execute(query)]


def columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def change_value(database: sqlite3.Connection, rng: Stream) -> str | None:
    table = one(tables(database), rng)
    rowids = [row[0] for row in database.execute(f"SELECT rowid FROM {table}")]
    if not rowids:
        return None
    column = one(columns(database, table), rng)
    at = one(rowids, rng)
    value = one(NASTY, rng)
    if rng.random() < 0.3:  # a small change that only a digest can detect
        (was,) = database.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (at,)).fetchone()
        value = was + 1 if isinstance(was, int | float) else value
    database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, at))
    return f"{table}.{column} is {str(value)[:20]!r}"


def change_meta(database: sqlite3.Connection, rng: Stream) -> str:
    keys = [key for (key,) in database.execute("SELECT key FROM meta")]
    key = one([*keys, "new", ESCAPE], rng)
    if rng.random() < 0.2:
        database.execute("DELETE FROM meta WHERE key = ?", (key,))
        return f"meta.{key[:20]!r} deleted"
    values = [str(value) for value in NASTY if not isinstance(value, bytes) and value is not None]
    value = one([*values, "running", "stopped", "finished", "5", "a" * 64], rng)
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
    return f"meta.{key[:20]!r} is {value[:20]!r}"


def delete_rows(database: sqlite3.Connection, rng: Stream) -> str:
    table = one(tables(database), rng)
    where = one(("1", "rowid = (SELECT max(rowid) FROM {0})", "rowid % 2"), rng).format(table)
    database.execute(f"DELETE FROM {table} WHERE {where}")
    return f"rows of {table} deleted"


def copy_rows(database: sqlite3.Connection, rng: Stream) -> str | None:
    table = one(tables(database), rng)
    rows = database.execute(f"SELECT * FROM {table}").fetchall()
    if not rows:
        return None
    row = list(one(rows, rng))
    row[0] = one((100, row[0], -1, "x", 2**40), rng)
    marks = ", ".join("?" * len(row))
    database.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
    return f"one more row in {table}"


def reorder(database: sqlite3.Connection, rng: Stream) -> str:
    table = one(("failure", "fault", "round_task", "award"), rng)
    database.execute(f"UPDATE {table} SET rowid = -rowid")
    return f"{table} in another order"


def change_schema(database: sqlite3.Connection, rng: Stream) -> str:
    table = one(tables(database), rng)
    fields = columns(database, table)
    listed = ", ".join(f"x AS {name}" for name in fields)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
    statements = {
        "a view": (
            f"ALTER TABLE {table} RENAME TO kept",
            f"CREATE VIEW {table} AS SELECT * FROM kept",
        ),
        "an endless view": (
            f"DROP TABLE {table}",
            f"CREATE VIEW {table} AS {endless} SELECT {listed} FROM c",
        ),
        "an endless view beside": (f"CREATE VIEW beside AS {endless} SELECT x FROM c",),
        "a trigger": (f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM meta; END",),
        "another column name": (f"ALTER TABLE {table} RENAME COLUMN {fields[-1]} TO other",),
        "one more column": (f"ALTER TABLE {table} ADD COLUMN more TEXT DEFAULT 'x'",),
        "a computed column": (f"ALTER TABLE {table} ADD COLUMN more AS (hex(zeroblob(1000000)))",),
        "no table": (f"DROP TABLE {table}",),
        "one more table": ("CREATE TABLE more (x)", "INSERT INTO more VALUES (1)"),
        "one more index": (f"CREATE INDEX more ON {table} ({fields[-1]})",),
        "statistics": ("ANALYZE",),
        "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5(x)",),
        "another application": ("PRAGMA application_id = 7", "PRAGMA user_version = 7"),
        "another table name": (f"ALTER TABLE {table} RENAME TO {table}s",),
        "another schema text": (
            "PRAGMA writable_schema = ON",
            f"UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = '{table}'",
        ),
    }
    name = one(list(statements), rng)
    for statement in statements[name]:
        database.execute(statement)
    return f"{name} ({table})"


def tidy_up(database: sqlite3.Connection, rng: Stream) -> str:
    database.commit()
    statement = one(("VACUUM", "PRAGMA journal_mode = WAL", "REINDEX"), rng)
    database.execute(statement)
    return statement


SQL = (
    *(change_value, change_value, change_value, change_meta, change_meta),
    *(delete_rows, copy_rows, reorder, change_schema, change_schema, tidy_up),
)


def edit(folder: Path, rng: Stream) -> str | None:
    with closing(sqlite3.connect(folder / DATABASE)) as database, suppress(sqlite3.Error):
        said = one(SQL, rng)(database, rng)
        database.commit()
        return said
    return None


def lie(folder: Path, rng: Stream) -> str | None:
    """Edit a row, then recompute all digests so that they match."""
    with closing(sqlite3.connect(folder / DATABASE)) as database, suppress(sqlite3.Error):
        said = one((change_value, change_meta, delete_rows, copy_rows), rng)(database, rng)
        renew(database)
        database.commit()
        return said
    return None


WAYS: dict[str, Way] = {
    "flip": flip,
    "cut": cut,
    "zero": zero,
    "grow": grow,
    "huge": huge,
    "garbage": garbage,
    "remove": remove,
    "swap": swap,
    "not a file": in_place,
    "beside the database": beside,
    "SQL": edit,
    LIES[0]: lie,
}
_OFTEN = (*WAYS, "flip", "flip", "zero", "not a file", "not a file", *("SQL",) * 6, LIES[0])


def damage(folder: Path, rng: Stream) -> tuple[str, str]:
    """Change something; returns the way and what was changed."""
    while True:
        way = one(_OFTEN, rng)
        said = WAYS[way](folder, rng)
        if said is not None:
            return way, said
