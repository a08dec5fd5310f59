"""Is a run directory what the run wrote, and is its data still what the run read?

    run.sqlite            every row against its digest; assignments and scores against the chain
    mmfl-run.json, experiment.toml, environment.json, models/*
                          against what the database says of them
    checkpoints/*         against their own SHA-256, and against the rounds in the database
    data, bids            against the SHA-256 in environment.json, where they can be loaded

This finds accidents: a disk that forgets, a copy that was cut short, an edit. Anyone who can write
into a directory can write new hashes, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mmfl.allocate import Assignments
from mmfl.errors import MmflError, StoreError
from mmfl.experiment import DataCache, Experiment
from mmfl.loop import State, extend_chain
from mmfl.runs.assignments import unpack_assignments, unpack_turns
from mmfl.runs.auction import read_recruitment
from mmfl.runs.checkpoints import CheckpointStore
from mmfl.runs.database import DATABASE
from mmfl.runs.directory.folders import no_run
from mmfl.runs.directory.mark import FIRST, is_marked
from mmfl.runs.directory.names import check_folder
from mmfl.runs.failures import turns_by_task
from mmfl.runs.faults import count_quarantined, tallies
from mmfl.runs.integrity.digests import DIGEST
from mmfl.runs.resume import find_mismatch
from mmfl.runs.store import RunStore
from mmfl.system.files import SETTINGS, exists, read_text

__all__ = ["Part", "Verification", "find_damage", "verify"]

PartVerdict = Literal["ok", "damaged", "not verifiable"]

_OLDER = "written by an older version of mmfl"


@dataclass(frozen=True)
class Part:
    """One thing in a run directory.

    Attributes:
        name: What it is: a file's name, or whose data.
        verdict: "ok", "damaged", or "not verifiable".
        detail: What is wrong with it, or why it cannot be verified; "" if it is ok.
    """

    name: str
    verdict: PartVerdict
    detail: str = ""


@dataclass(frozen=True)
class Verification:
    """What was found in a run directory.

    Attributes:
        folder: The directory.
        parts: In the order in which they were looked at.
    """

    folder: Path
    parts: tuple[Part, ...]

    @property
    def damaged(self) -> bool:
        """Whether anything is."""
        return any(part.verdict == "damaged" for part in self.parts)


def verify(
    folder: str | Path, *, data_dir: str | Path | None = None, allow_imports: bool = False
) -> Verification:
    """Check everything in a run directory, finished or not, against its hashes; nothing is changed.

    Args:
        folder: The directory; `StoreError` if it is not one.
        data_dir: Folder of npz files; by default $MMFL_DATA.
        allow_imports: Whether to import the classes that the experiment names, to load its data.
    """
    folder = Path(folder)
    data = None if data_dir is None else Path(data_dir)
    check_folder(folder / DATABASE)
    if not exists(folder / DATABASE) and not is_marked(folder):
        raise no_run(folder, DATABASE)
    for _ in range(3):
        try:
            store = RunStore.open(folder, damaged=True)
        except StoreError as error:
            first = Part(DATABASE, "damaged", _reason(folder, error))
            return Verification(folder, (first, *_checkpoints(folder)))
        with closing(store):
            parts = (
                *_rows(store),
                *_files(store),
                *_checkpoints(folder, store),
                *_data(store, data, allow_imports=allow_imports),
            )
            found = Verification(folder, parts)
            if not found.damaged or not _is_outdated(store):
                break
    return found


def find_damage(folder: str | Path) -> str:
    """What is wrong with a run's rows and files, as clauses; "" if nothing is.

    This is `verify` without the checkpoints, which no result depends on, and without the data.

    Args:
        folder: The directory; `StoreError` if it is not one, or cannot be read.
    """
    for _ in range(3):
        with closing(RunStore.open(Path(folder), damaged=True)) as store:
            damaged = [part for part in _files(store) if part.verdict == "damaged"]
            clauses = [store.damage, *(f"{part.name} {part.detail}" for part in damaged)]
            found = "; ".join(dict.fromkeys(filter(None, clauses)))
            if not found or not _is_outdated(store):
                break
    return found


def _is_outdated(store: RunStore) -> bool:
    """Whether the run has gone on since: then a file may be newer than what is known of it."""
    try:
        with closing(RunStore.open(store.folder, damaged=True)) as now:
            return now.meta().get(DIGEST) != store.meta().get(DIGEST)
    except StoreError:
        return False


def _reason(folder: Path, error: StoreError) -> str:
    """A sentence about a run without the words that every such sentence begins with."""
    for start in ("the run in", "cannot read the run in"):
        for end in (" is damaged: ", ": ", " "):
            said = str(error).removeprefix(f"{start} {str(folder)!r}{end}")
            if said != str(error):
                return said
    return str(error)


def _rows(store: RunStore) -> Iterator[Part]:
    damage = store.damage
    if damage.startswith(FIRST):  # that is said in the file's own line
        damage = ""
    damage = damage or _reading_damage(store) or _chain_damage(store)
    if damage:
        yield Part(DATABASE, "damaged", damage)
    elif store.verifiable:
        yield Part(DATABASE, "ok")
    else:
        yield Part(DATABASE, "not verifiable", _OLDER)


def _reading_damage(store: RunStore) -> str:
    """Why `Run.load` cannot read the rows, though their digests match; "" if it can."""
    try:
        for read in (read_recruitment, turns_by_task, tallies, count_quarantined):
            read(store)
    except StoreError as error:
        return _reason(store.folder, error)
    return ""


def _chain_damage(store: RunStore) -> str:
    """Which round's chain does not follow from its assignments and scores; "" if all do."""
    names = [name for _, name, *_ in store.tasks()]
    chain = State.first({}, "").chain
    turns = "turns" if store.has("round", "turns") else "NULL"
    for number, stored, blob, ends in store.rows(
        f"SELECT round, chain, assignment, {turns} FROM round"
    ):
        query = "SELECT difficulty FROM round_task WHERE round = ? ORDER BY task"
        difficulty = [row[0] for row in store.rows(query, number)]
        try:
            assignments = unpack_assignments(blob)
        except StoreError:
            return f"the assignment of round {number} cannot be unpacked"
        if ends is not None and not _agree(store, number, assignments, ends):
            return f"the turns of round {number} do not match its assignment"
        known = None not in difficulty  # a NaN has many forms, and the chain knows which it was
        if assignments.tasks.max(initial=0) >= len(names):
            return f"round {number} assigns clients to a task that does not exist"
        if known:
            scores = dict(zip(names, difficulty, strict=True))
            chain = extend_chain(chain, number, names, assignments, scores)
            if chain != stored:
                return f"assignments or scores of round {number} do not match the chain"
        chain = stored
    return ""


def _agree(store: RunStore, number: int, assignments: Assignments, ends: bytes) -> bool:
    """Whether a round's turns are those of its assignment, and as many were accepted as it says."""
    try:
        accepted = unpack_turns(ends, assignments).accepted
    except StoreError:
        return False
    query = "SELECT clients FROM round_task WHERE round = ? ORDER BY task"
    counts = [row[0] for row in store.rows(query, number)]
    found = np.bincount(assignments.tasks[accepted], minlength=len(counts))
    return bool(found.tolist() == counts)


def _files(store: RunStore) -> Iterator[Part]:
    known = store.files()
    wanted = ["experiment.toml", "environment.json"]
    if store.meta().get("status") == "finished":
        wanted += [f"models/{name}.safetensors" for _, name, *_ in store.tasks()]
    for name in dict.fromkeys([*wanted, *known]):
        if not store.verifiable:
            yield Part(name, "not verifiable", _OLDER)
            continue
        damage = store.file_damage(name).removeprefix(f"{name} ")
        if damage == "is missing" and name.startswith("models/") and name not in wanted:
            continue  # its hash is noted before it is written, at the end of a run
        yield Part(name, "damaged" if damage else "ok", damage)


def _checkpoints(folder: Path, store: RunStore | None = None) -> Iterator[Part]:
    checkpoints = CheckpointStore(folder / "checkpoints", keep=1)
    noted = "" if store is None else store.meta().get("checkpoint", "")
    for name in dict.fromkeys([*checkpoints.names(), *([noted] if noted else [])]):
        what = f"checkpoints/{name}"
        try:
            state = checkpoints.load(name)
        except StoreError as error:
            if name == noted or name in checkpoints.names():  # else a live run has removed it
                said = str(error).removeprefix(f"checkpoint {name!r} ")
                yield Part(what, "damaged", said.removeprefix("is damaged: "))
            continue
        said = "" if store is None else find_mismatch(store, state) or ""
        yield Part(what, "not verifiable" if said else "ok", said and f"it {said}")


def _data(store: RunStore, data_dir: Path | None, *, allow_imports: bool) -> Iterator[Part]:
    was = store.data()
    try:
        text = read_text(store.folder / "experiment.toml", limit=SETTINGS)
        experiment = Experiment.from_toml(text, allow_imports=allow_imports)
    except (OSError, MmflError, UnicodeError) as error:
        why = f"the experiment cannot be read: {getattr(error, 'strerror', None) or error}"
        yield from (Part(f"data of {name}", "not verifiable", why) for name in was)
        return
    cache = DataCache(data_dir)
    tasks = {task.name: task for task in experiment.tasks}
    for name, digest in was.items():
        what = f"data of {name}"
        try:
            if name in tasks:
                alone = dataclasses.replace(
                    experiment, tasks=(tasks[name],), recruitment=None, faults=None
                )
                now = cache.hashes(alone)[name]
            else:
                now = experiment.file_hash(name)
        except MmflError as error:
            yield Part(what, "not verifiable", str(error))
            continue
        if now == digest:
            yield Part(what, "ok")
        else:
            yield Part(what, "damaged", "it differs from what the run was made with")
