"""A run directory: everything about one run, readable while it goes on, without pickles.

    mmfl-run.json         says that this is a run directory; written first (`mmfl.runs.directory`)
    experiment.toml       the resolved experiment
    environment.json      versions, machine, what training is computed with, command, time of the
                          start, SHA-256 of the data and of files and modules that the experiment
                          names; the same of each time that the run was resumed
    run.sqlite            see `mmfl.runs.schema`, `mmfl.runs.auction` and `mmfl.runs.faults`
    checkpoints/          see `mmfl.runs.checkpoints`
    models/<task>.safetensors     the final weights

`run.sqlite` is in WAL mode while the run goes on, and only the coordinator writes. Everything in it
is covered by digests (`mmfl.runs.integrity`), and so are the files: `meta.files` has the SHA-256
of experiment.toml, environment.json and the models. The database and the first two are checked
whenever a run is opened (`RunStore.open`), the rest by `mmfl.runs.verification`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from mmfl.errors import StoreError
from mmfl.exchange import Params
from mmfl.experiment import Experiment, ModelDescription, hash_own_code
from mmfl.loop import RoundRecord, State
from mmfl.runs.checkpoints import model_file, sync_folder, write_whole
from mmfl.runs.database import (
    DATABASE,
    DatabaseFiles,
    close_database,
    explain_errors,
    open_for_reading,
    open_for_writing,
    transaction,
)
from mmfl.runs.directory.folders import no_run, refuse_link, refuse_taken
from mmfl.runs.directory.lock import Lease
from mmfl.runs.directory.mark import FIRST, MARK, read_mark, remove_beginning, write_mark
from mmfl.runs.directory.names import check_folder, make_absolute
from mmfl.runs.environment import MadeFrom, as_json, environment_now
from mmfl.runs.integrity import digests
from mmfl.runs.integrity.audit import check_rows
from mmfl.runs.integrity.files import Hashes, describe_damage, parse_hashes
from mmfl.runs.integrity.rows import (
    auction_digest,
    last_round,
    query_rows,
    read_meta,
    round_digest,
    round_rows,
    set_meta,
    write_first_rows,
)
from mmfl.runs.schema import DIGESTED, FORMAT, check_tables, create_tables
from mmfl.system import calls
from mmfl.system.files import SETTINGS, exists, is_folder, make_folders, read_file

__all__ = ["RunStore"]


class RunStore:
    """One run's directory, opened for writing (`create`, `reopen`) or for reading (`open`).

    Attributes:
        folder: The directory, as it was given.
        verifiable: Whether it has digests: older formats have none.
        damage: What does not match its digest, if it was opened nevertheless; else "".
    """

    def __init__(
        self,
        folder: Path,
        database: sqlite3.Connection,
        lease: Lease | None = None,
        *,
        verifiable: bool = True,
    ) -> None:
        self.folder = folder
        self.verifiable = verifiable
        self.damage = ""
        self._connection = database
        self._lease = lease
        self._place = make_absolute(folder)
        self._files = None if lease is None else DatabaseFiles(self._place)
        self._signed = False

    @classmethod
    def create(
        cls, folder: Path, experiment: Experiment, made_from: MadeFrom | None = None
    ) -> RunStore:
        """Start a run's directory; of several processes that want the same one, one gets it.

        Args:
            folder: The directory.
            experiment: The experiment, resolved.
            made_from: What else the run is made from, as far as that is known.
        """
        known = made_from or MadeFrom()
        refuse_taken(folder)
        environment = environment_now(known.numerics, hash_own_code(experiment))
        environment["data"] = dict(known.data)
        if known.clients:
            environment["clients"] = list(known.clients)
        first = {
            "experiment.toml": experiment.to_toml().encode(),
            "environment.json": as_json(environment),
        }
        with explain_errors("create", folder), ExitStack() as undo:
            made = not exists(folder)
            make_folders(folder)
            if made:
                undo.callback(_try, calls.remove_folder, folder)
            mark = write_mark(folder, first)
            # From here on it is ours.
            undo.callback(_try, partial(remove_beginning, mark=mark), folder)
            sync_folder(folder.parent)
            lease = Lease(folder)
            undo.callback(lease.close)
            lease.take()
            if read_mark(folder) != mark:  # another process took it for a run that was killed
                raise StoreError(f"{str(folder)!r} is in use by another process")
            for name, content in first.items():
                write_whole(folder / name, content, sync=False)
            sync_folder(folder)
            database = open_for_writing(folder)
            undo.callback(close_database, database, inherited=False)
            store = cls(folder, database, lease)
            with store._writing():
                create_tables(database)
                written = {MARK: mark.content} | first
                write_first_rows(database, experiment, mark.token, written, known.models)
            with store._durably():  # before there is a checkpoint, which would be
                store.sign(experiment.rounds)
            undo.pop_all()
        return store

    @classmethod
    def reopen(cls, folder: Path, lease: Lease) -> RunStore:
        """An existing run, for writing: `lease` is on its folder, and closed with it."""
        cls.open(folder).close()  # says what is wrong with it
        with explain_errors("open", folder):
            return cls(folder, open_for_writing(folder), lease)

    def sign(self, rounds: int) -> None:
        """Record which process runs it; from here on the tables survive a power cut."""
        owner = {} if self._lease is None else {"owner": self._lease.token}
        self.note_durably(format=FORMAT, status="running", rounds=str(rounds), **owner)
        self._signed = True

    def rewind(self, round: int) -> None:  # noqa: A002
        """Go back to the end of a round: nothing later is remembered; 0 is before the auction."""
        with self._writing() as database:
            for table in ("round", "round_task", "failure", "fault"):
                calls.execute(database, f"DELETE FROM {table} WHERE round > ?", (round,))
            keys = ["fingerprint", "reason", *(("auction", "mechanism") if not round else ())]
            calls.executemany(database, "DELETE FROM meta WHERE key = ?", [(k,) for k in keys])
            if round:
                calls.execute(database, "UPDATE award SET paid = NULL")
            else:
                calls.execute(database, "DELETE FROM auction")
                calls.execute(database, "DELETE FROM award")
            set_meta(database, digest_auction=auction_digest(database))

    @classmethod
    def open(cls, folder: Path, *, damaged: bool = False, checked: bool = True) -> RunStore:
        """An existing run, for reading, as it is at this moment: later rounds are not seen.

        A run that does not match its digests is refused.

        Args:
            folder: The directory.
            damaged: Open such a run, too; `damage` says what is wrong with it. What makes no sense
                at all is still refused.
            checked: Whether to read all rows and compare their digests; not needed to open a run
                again and again while it goes on.
        """
        check_folder(folder / DATABASE)
        if not exists(folder / DATABASE):
            raise no_run(folder, DATABASE)
        store = cls._read(folder, checked)
        if store.damage.startswith(FIRST):  # a live run may have replaced the file since
            store.close()
            store = cls._read(folder, checked)
        if store.damage and not damaged:
            store.close()
            raise StoreError(f"the run in {str(folder)!r} is damaged: {store.damage}")
        return store

    @classmethod
    def _read(cls, folder: Path, checked: bool) -> RunStore:
        with explain_errors("read", folder), ExitStack() as undo:
            database = open_for_reading(folder)
            undo.callback(database.close)
            try:
                found = check_tables(database)
                store = cls(folder, database, verifiable=found in DIGESTED)
                store.damage = check_rows(database, found) if checked else ""
                if store.verifiable and checked and not store.damage:
                    store.damage = next(filter(None, map(store.file_damage, FIRST)), "")
            except StoreError as error:
                raise StoreError(f"the run in {str(folder)!r} is damaged: {error}") from None
            undo.pop_all()
        return store

    def note(self, **values: str) -> None:
        """Set entries of the table `meta`."""
        with self._writing() as database:
            set_meta(database, **values)

    def note_durably(self, **values: str) -> None:
        """Set entries of `meta`; these, and all that was written before, survive a power cut."""
        with self._durably():
            self.note(**values)

    def add(self, state: State, record: RoundRecord) -> None:
        """Write one round, all of it or nothing."""
        whole, tasks, failures, faults = round_rows(state, record)
        with self._writing() as database:
            last = last_round(database)
            before = last[1] if last else read_meta(database)["digest_tasks"]
            digest = digests.digest_round(before, whole, tasks, failures, faults)
            insert = "INSERT INTO round VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            calls.execute(database, insert, (*whole, digest))
            calls.executemany(
                database, "INSERT INTO round_task VALUES (?, ?, ?, ?, ?, ?, ?)", tasks
            )
            calls.executemany(database, "INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?)", failures)
            calls.executemany(database, "INSERT INTO fault VALUES (?, ?, ?, ?, ?)", faults)

    def restate(self, state: State) -> None:
        """Store the last round's metrics as the state has them.

        The last round of a run is measured, due or not. When the run gets more rounds, it becomes a
        round like any other.
        """
        if not state.round:
            return
        t, seen = state.round, [state.measured[name] for _, name, _, _ in self.tasks()]
        rows = [(m and m.metric, m and m.loss, t, number) for number, m in enumerate(seen)]
        with self._writing() as database:
            update = "UPDATE round_task SET metric = ?, loss = ? WHERE round = ? AND task = ?"
            calls.executemany(database, update, rows)
            fresh = (int(not state.stale), t)
            calls.execute(database, "UPDATE round SET fresh = ? WHERE round = ?", fresh)
            digest = round_digest(database, t)
            calls.execute(database, "UPDATE round SET digest = ? WHERE round = ?", (digest, t))

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write many rows of tables `auction` or `award`, all of them or none."""
        with self._writing() as database:
            calls.executemany(database, statement, rows)
            set_meta(database, digest_auction=auction_digest(database))

    def save_models(
        self, params: Mapping[str, Params], known: Mapping[str, ModelDescription]
    ) -> None:
        """Write the weights of all tasks, each file whole or not at all."""
        with explain_errors("write", self.folder):
            models = self._place / "models"
            refuse_link(models, self.folder / "models")
            if not is_folder(models):
                calls.make_folder(models)
            sync_folder(self._place)
        self.write_files(
            {
                f"models/{task}.safetensors": partial(model_file, task, weights, known.get(task))
                for task, weights in params.items()
            }
        )

    def write_files(self, contents: Mapping[str, Callable[[], bytes]]) -> None:
        """Write or replace files of the directory, each whole or not at all.

        Before the first is written, `meta.files` durably has the new hashes and the old ones.

        Args:
            contents: From a file's name to what makes its content; called twice, to hold one file
                in memory at a time.
        """
        known = self.files()
        new = {name: digests.hash_and_size(content()) for name, content in contents.items()}
        both = {name: known.get(name, {}) | entry for name, entry in new.items()}
        self.note_durably(files=json.dumps(known | both))
        with explain_errors("write", self.folder):
            for name, content in contents.items():
                write_whole(self._place / name, content(), sync=False)
            for folder in {(self._place / name).parent for name in contents}:
                sync_folder(folder)
        self.note(files=json.dumps(known | new))

    def files(self) -> Hashes:
        """From the names of the directory's files to the SHA-256 that they may have, and sizes."""
        return parse_hashes(self.meta().get("files", "{}"))

    def file_damage(self, name: str) -> str:
        """What is wrong with a file of the directory, as a clause; "" if nothing is."""
        return describe_damage(self._place, name, self.files().get(name, {}))

    def seal(self) -> None:
        """Make the database one plain file again, unless somebody is reading it just now."""
        self.check_owner()  # SQLite removes the log by its path, even if another process owns it
        with suppress(sqlite3.OperationalError):
            calls.execute(self._database, "PRAGMA journal_mode = DELETE")

    def meta(self) -> dict[str, str]:
        """The table `meta`."""
        with explain_errors("read", self.folder):
            return read_meta(self._database)

    def environment(self) -> dict[str, Any]:
        """The file environment.json; nothing if it is gone or damaged."""
        try:
            found = json.loads(read_file(self._place / "environment.json", limit=SETTINGS))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data, for the tasks whose data was hashed."""
        found = self.environment().get("data")
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def tasks(self) -> list[tuple[int, str, str, str]]:
        """Number, name, kind of metric and which of its values is better, for each task."""
        query = "SELECT number, name, metric, better FROM task ORDER BY number"
        return [(row[0], row[1], row[2], row[3]) for row in self.rows(query)]

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a query."""
        with explain_errors("read", self.folder):
            return query_rows(self._database, query, *values)

    def has(self, table: str, column: str = "round") -> bool:
        """Whether there is such a table with such a column: older versions had fewer."""
        return bool(self.rows("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", table, column))

    @property
    def _database(self) -> sqlite3.Connection:
        if self._lease is not None:
            self._lease.refuse_inherited()  # SQLite's connections cannot be used after a fork
        return self._connection

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that writes the run."""
        return self._lease is not None and self._lease.inherited

    def check_owner(self) -> None:
        """Raise `StoreError` if the run directory is not, or no longer, this process's to write."""
        if self._lease is not None and self._files is not None:
            self._lease.check()
            with explain_errors("write", self.folder):
                self._files.check()

    def close(self) -> None:
        """Close the database and release the folder."""
        try:
            close_database(self._connection, inherited=self.inherited)
        finally:
            if self._lease is not None:
                self._lease.close()

    @contextmanager
    def _durably(self) -> Iterator[None]:
        """Make what is written in this block, and before it, survive a power cut."""
        with explain_errors("write", self.folder):
            calls.execute(self._database, "PRAGMA synchronous = FULL")
        yield
        with explain_errors("write", self.folder):
            calls.execute(self._database, "PRAGMA synchronous = NORMAL")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """All that is written in this block is stored with its digest, or nothing is."""
        self.check_owner()
        with explain_errors("write", self.folder), transaction(self._database) as database:
            if self._lease is not None and self._signed:
                self._lease.check_owner(read_meta(database).get("owner"))
            yield database
            digest = digests.digest_meta(read_meta(database), last_round(database))
            set_meta(database, **{digests.DIGEST: digest})


def _try(act: Callable[[Path], None], folder: Path) -> None:
    with suppress(OSError):
        act(folder)
