"""A run at a glance, read without checking a hash: a thousand of them are listed in a second.

What is read: the run's state, the tasks' metrics after each round, and the sizes of files. A run
that cannot be read, or that contradicts itself, counts as damaged. Only `RunStore.open` and
`mmfl.runs.verify` compare hashes.
"""

from __future__ import annotations

import json
import math
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.errors import StoreError
from mmfl.fairness import worst
from mmfl.objectives import find_merit
from mmfl.runs.database import DATABASE, explain_errors, open_for_reading
from mmfl.runs.directory.lock import is_owned
from mmfl.runs.directory.mark import MARK
from mmfl.runs.directory.names import OWN_FILE
from mmfl.runs.integrity.files import parse_hashes
from mmfl.runs.schema import check_tables, is_empty
from mmfl.system import calls
from mmfl.system.files import SETTINGS, exists, read_file

__all__ = ["STATES", "Overview", "is_run", "read_overview"]

STATES = ("running", "finished", "stopped", "interrupted", "failed", "locked", "damaged")
"""What a run can be: "stopped" and "interrupted" ones can be resumed, and a "locked" one cannot be
read while another program has locked its database."""


@dataclass(frozen=True)
class Overview:
    """A run at a glance.

    Attributes:
        folder: The run directory.
        state: One of `STATES`.
        damage: What is wrong with it; "" if it is not damaged.
        rounds: Rounds done.
        planned: Rounds planned; 0 if that is not known.
        tasks: By task: its metric after the last round; None if not measured.
        history: The worst task's merit after each round; None before all tasks were measured.
        worst: The last of these; None if there is none.
        mean: The tasks' mean merit after the last round.
        fingerprint: "" before the end.
        started: When it was started, in ISO 8601; "" if that is not known.
        changed: When it last wrote something, in seconds since 1970.
        bytes: The size of its files.
    """

    folder: Path
    state: str
    damage: str = ""
    rounds: int = 0
    planned: int = 0
    tasks: dict[str, float | None] | None = None
    history: tuple[float | None, ...] = ()
    worst: float | None = None
    mean: float | None = None
    fingerprint: str = ""
    started: str = ""
    changed: float = 0.0
    bytes: int = 0

    def as_data(self) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        return {"run_dir": str(found.pop("folder"))} | found


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run directory; `OSError` if it cannot be read."""
    names = calls.list_folder(folder)
    return MARK in names or DATABASE in names


def read_overview(folder: Path) -> Overview:
    """A run directory at a glance; a damaged one is an overview, too, that says what is wrong."""
    sizes, changed = _measure(folder)
    about: dict[str, Any] = {
        "started": _read_start(folder),
        "changed": changed,
        "bytes": sum(sizes.values()),
    }
    if not exists(folder / DATABASE):  # it has only just begun
        state = "running" if is_owned(folder) else "interrupted"
        return Overview(folder, state, **about)
    try:
        return Overview(folder, **about, **_read_database(folder, sizes))
    except StoreError as error:
        said = str(error).removeprefix(f"the run in {str(folder)!r} is damaged: ")
        said = said.removeprefix(f"cannot read the run in {str(folder)!r}: ")
        return Overview(folder, "damaged", said, **about)


def _measure(folder: Path) -> tuple[dict[str, int], float]:
    """The sizes of a run's files by name, and when the newest was written."""
    sizes: dict[str, int] = {}
    newest = 0.0
    for name, about in _walk(str(folder), ("checkpoints", "models")):
        sizes[name] = about.st_size
        if not name.startswith("lease-"):  # it beats while nothing else happens
            newest = max(newest, about.st_mtime)
    return sizes, newest


def _walk(folder: str, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The files in a folder, and in some folders inside it."""
    try:
        names = calls.list_folder(folder)
    except OSError:
        return
    for name in names:
        path = f"{folder}/{name}"
        try:
            about = calls.status(path, follow_symlinks=False)
        except OSError:  # it has just been removed
            continue
        if stat.S_ISREG(about.st_mode):
            yield name, about
        elif name in inside and stat.S_ISDIR(about.st_mode):
            yield from ((f"{name}/{part}", inner) for part, inner in _walk(path))


def _read_start(folder: Path) -> str:
    try:
        found = json.loads(read_file(folder / "environment.json", limit=SETTINGS))["started"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) and found.isprintable() and len(found) < 40 else ""


def _read_database(folder: Path, sizes: dict[str, int]) -> dict[str, Any]:
    with ExitStack() as stack:
        stack.enter_context(explain_errors("read", folder))
        try:
            database = stack.enter_context(closing(open_for_reading(folder, patience=0.0)))
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                return {"state": "locked"}
            raise
        if is_empty(database):
            return {"state": "running" if is_owned(folder) else "interrupted"}
        check_tables(database)
        meta = dict(_rows(database, "SELECT key, value FROM meta", (str, str)))
        tasks = _rows(
            database, "SELECT number, name, metric, better FROM task ORDER BY number",
            (int, str, str, str),
        )  # fmt: skip
        values = _rows(
            database, "SELECT round, task, metric FROM round_task ORDER BY round, task",
            (int, int, float),
        )  # fmt: skip
        ((rounds,),) = database.execute("SELECT count(*) FROM round").fetchall()
    planned = _number(meta.get("rounds", "0"))
    wanted = [(t, number) for t in range(1, rounds + 1) for number, *_ in tasks]
    if [row[:2] for row in values] != wanted:
        raise StoreError("its rounds are not complete")
    status = meta.get("status", "running")
    if status not in STATES[:5]:
        raise StoreError("its status is not one of a run's")
    if status == "finished":
        _check_end(meta, rounds, planned, sizes)
    state = "interrupted" if status == "running" and not is_owned(folder) else status
    found = {"state": state, "rounds": rounds, "planned": planned}
    return found | _summarise(tasks, values, rounds) | {"fingerprint": meta.get("fingerprint", "")}


def _rows(
    database: sqlite3.Connection, query: str, types: tuple[type, ...]
) -> list[tuple[Any, ...]]:
    """The answer to a query, whose values must be of these types; numbers may be unknown."""
    rows = calls.execute(database, query).fetchall()
    for kind, column in zip(types, zip(*rows, strict=True), strict=False):
        if not set(map(type, column)) <= ({kind, type(None)} if kind is float else {kind}):
            raise StoreError("its tables hold values of a wrong type")
    return rows


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise StoreError("its number of rounds is not a number")
    return int(text)


def _check_end(meta: dict[str, str], rounds: int, planned: int, sizes: dict[str, int]) -> None:
    """Refuse a finished run that lacks rounds, or whose files have other sizes than it wrote."""
    if rounds != planned:
        raise StoreError(f"it is finished, but has {rounds} of {planned} rounds")
    for name, entries in parse_hashes(meta.get("files", "{}")).items():
        if not OWN_FILE.fullmatch(name):
            raise StoreError(f"{name} is not the name of a file of a run")
        if name not in sizes:
            raise StoreError(f"{name} is missing")
        if sizes[name] not in entries.values():
            raise StoreError(f"{name} does not have the size that was written")


def _summarise(
    tasks: list[tuple[Any, ...]], values: list[tuple[Any, ...]], rounds: int
) -> dict[str, Any]:
    """What the metrics of all rounds say."""
    names = [name for _, name, _, _ in tasks]
    if not values:
        return {"tasks": dict.fromkeys(names)}
    metric = np.array([value for *_, value in values], np.float64).reshape(rounds, len(tasks))
    rules = [find_merit(kind, better) for _, _, kind, better in tasks]
    merit = np.stack([rule(metric[:, s]) for s, rule in enumerate(rules)], axis=1)
    history = tuple(map(_known, merit.min(axis=1).tolist()))
    return {
        "tasks": dict(zip(names, map(_known, metric[-1].tolist()), strict=True)),
        "history": history,
        "worst": _known(worst(merit[-1])),
        "mean": _known(float(merit[-1].mean())),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
