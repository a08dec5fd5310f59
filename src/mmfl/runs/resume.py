"""Resume a run: what its directory holds, whether it is the same experiment, and where to start.

A run resumes from the newest checkpoint that is whole and that the run's own rounds agree with.
Rounds after it are forgotten and done again, to the same bits: a round depends on nothing but the
experiment and the state before it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.config import dump
from mmfl.errors import MmflWarning, StoreError
from mmfl.experiment import (
    Experiment,
    describe_change,
    differences,
    hash_own_code,
    read_stored,
)
from mmfl.loop import State
from mmfl.runs.auction import StoredRecruitment, read_recruitment
from mmfl.runs.checkpoints import CheckpointStore
from mmfl.runs.database import explain_errors, open_for_reading
from mmfl.runs.directory.folders import refuse_link
from mmfl.runs.directory.lock import Lease
from mmfl.runs.directory.mark import is_first, is_marked, read_mark, remove_beginning
from mmfl.runs.directory.names import make_absolute
from mmfl.runs.environment import as_json, environment_now, inexact
from mmfl.runs.schema import FORMAT, check_tables, is_empty
from mmfl.runs.store import RunStore
from mmfl.system import calls
from mmfl.system.files import SETTINGS, exists, is_folder, list_folder, read_file

if TYPE_CHECKING:
    from mmfl.experiment import Engine

__all__ = ["ResumableRun", "clear_unfinished", "find_mismatch", "find_resumable", "is_unsigned"]


@dataclass(frozen=True, eq=False)
class ResumableRun:
    """A run that was started earlier; only this process may write into its directory.

    Attributes:
        folder: Its directory.
        experiment: What it is to do now, resolved.
        recruitment: Its auction, if it had one.
        finished: Whether nothing is left to do.
    """

    folder: Path
    experiment: Experiment
    recruitment: StoredRecruitment | None
    finished: bool
    _lease: Lease

    def close(self) -> None:
        """Release the directory."""
        self._lease.close()

    def resume(self, engine: Engine, first: State) -> tuple[RunStore, State]:
        """The directory, opened for writing, and the state to whose round it went back.

        Args:
            engine: That will train.
            first: The state before round one, if there is nothing better.
        """
        self._lease.take()
        with ExitStack() as stack:
            store = stack.enter_context(closing(RunStore.reopen(self.folder, self._lease)))
            known = store.data()
            self._refuse_other_data(known, engine.data() | self.experiment.hash_files(known))
            checkpoints = CheckpointStore(
                self.folder / "checkpoints", keep=self.experiment.checkpoints.keep
            )
            noted = store.meta().get("checkpoint", "")
            found = checkpoints.newest(noted=noted, fits=partial(find_mismatch, store))
            state = first if found.state is None else found.state
            for sentence in found.damaged.values():
                where = f"the one of round {state.round}" if state.round else "the start"
                _warn(f"{sentence}, so the run resumes from {where}")
            if state.lineage != first.lineage:
                raise StoreError(
                    f"checkpoint {found.name!r} in {str(self.folder)!r} was written for another "
                    "experiment, or by another version of mmfl"
                )
            store.rewind(state.round)
            if state.round < self.experiment.rounds:
                store.restate(state)
            store.note(checkpoint=found.name if self.experiment.checkpoints.keep else "")
            checkpoints.forget_after(state.round, noted)
            code = hash_own_code(self.experiment)
            self._rewrite(store, state.round, environment_now(engine.numerics(), code))
            stack.pop_all()
        return store, state

    def _refuse_other_data(self, was: Mapping[str, str], now: Mapping[str, str]) -> None:
        other = sorted(name for name, digest in was.items() if now.get(name, digest) != digest)
        if other:
            raise StoreError(
                f"{str(self.folder)!r} was started with different data for {', '.join(other)}, so "
                "it cannot be resumed; choose another folder"
            )

    def _rewrite(self, store: RunStore, after: int, now: Mapping[str, Any]) -> None:
        """Record that it was resumed, with what, and for how long."""
        folder, told = self.folder, store.environment()
        told = {**told, "resumed": [*told.get("resumed", []), {"after_round": after, **now}]}
        reason = inexact(told)
        if reason:
            _warn(
                f"{str(folder)!r} was {reason}: its bits may differ from those of an uninterrupted "
                "run, so it is marked as not bit-exact"
            )
        environment = as_json(told)
        experiment = self.experiment.to_toml().encode()
        store.write_files(
            {"environment.json": lambda: environment, "experiment.toml": lambda: experiment}
        )
        store.sign(self.experiment.rounds)


def find_mismatch(store: RunStore, state: State) -> str | None:
    """Why a state is not one of this run, whose last rounds a power cut may have lost."""
    told = store.rows("SELECT chain FROM round WHERE round = ?", state.round)
    count = store.rows("SELECT count(*) FROM round WHERE round <= ?", state.round)
    if not told or count[0][0] != state.round:
        return "belongs to a round that is not in the run's database"
    if told[0][0] != state.chain:
        return "does not match the history in the run's database"
    return None


def find_resumable(folder: Path, experiment: Experiment) -> ResumableRun | None:
    """The run in a folder, if it can be resumed as this experiment; None if there is nothing.

    What is refused is left as it is: a folder that holds something else, a run that another process
    is busy with, a run of another experiment (all that differs is named; rounds may grow).
    """
    if not exists(folder) or (is_folder(folder) and not list_folder(folder)):
        return None
    if not is_folder(folder):
        raise StoreError(f"{str(folder)!r} is a file; choose a folder for the run")
    if not is_marked(folder):  # it is from before there were marks, or not ours
        RunStore.open(folder).close()
    lease = Lease(folder)
    try:
        if is_unsigned(folder):
            _remove_unsigned(folder, lease)
        if not list_folder(folder):
            lease.close()
            return None
        with closing(RunStore.open(folder)) as store:
            meta, had = store.meta(), read_recruitment(store)
            if meta.get("format") != FORMAT:
                raise StoreError(
                    f"{str(folder)!r} was started by another version of mmfl, whose runs this one "
                    "can read but not continue; choose another folder"
                )
            experiment = experiment.resolved()
            _refuse_changes(folder, read_stored(folder / "experiment.toml"), experiment)
            done = meta.get("status") == "finished" and meta.get("rounds") == str(experiment.rounds)
            if not done:
                for name in ("checkpoints", "models"):
                    refuse_link(make_absolute(folder) / name, folder / name)
                models = [f"models/{task.name}.safetensors" for task in experiment.tasks]
                _refuse_foreign_files(store, [n for n in models if exists(folder / n, links=False)])
        return ResumableRun(folder, experiment, had, done, lease)
    except BaseException:
        lease.close()
        raise


def is_unsigned(folder: Path) -> bool:
    """Whether a folder is empty, or an mmfl run directory in which no run has started yet."""
    if not is_folder(folder):
        return False
    with explain_errors("read", folder):
        names = {path.name for path in list_folder(folder)}
    if not names:
        return True
    if any(not is_first(name) for name in names) or not is_marked(folder):
        return False
    return not _is_started(folder)


def clear_unfinished(folder: Path) -> None:
    """Remove a run that ended in its first moment, unless another process owns it now."""
    if not is_unsigned(folder) or not is_marked(folder):
        return
    try:
        lease = Lease(folder)
    except StoreError:
        return
    with closing(lease):
        if is_unsigned(folder) and is_marked(folder):  # as it is now that nobody else changes it
            _remove_unsigned(folder, lease)
            with suppress(OSError):
                calls.remove_folder(folder)


def _remove_unsigned(folder: Path, lease: Lease) -> None:
    """Empty the folder of a run that ended in its first moment; what is refused stays as it is."""
    mark = read_mark(folder)
    if mark is not None:
        for name, digest in mark.files.items():
            _refuse_foreign(folder / name, digest)
    lease.take()
    with explain_errors("clear", folder):
        remove_beginning(folder)


def _is_started(folder: Path) -> bool:
    """Whether a run has started in an mmfl folder; True if its database is damaged."""
    try:
        with closing(open_for_reading(folder)) as database:
            if is_empty(database):
                return False
            check_tables(database)
            query = "SELECT 1 FROM meta WHERE key = 'status'"
            return bool(calls.execute(database, query).fetchall())
    except FileNotFoundError:
        return False
    except (OSError, sqlite3.Error, StoreError):
        return True


def _refuse_foreign(path: Path, digest: str) -> None:
    """Refuse to remove a file that is not what a run wrote in its first moment."""
    try:
        content = read_file(path, limit=SETTINGS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise StoreError(f"{str(path)!r} was not written by mmfl; choose another folder")


def _refuse_foreign_files(store: RunStore, names: Iterable[str]) -> None:
    """Refuse to replace files that are not what the run wrote."""
    for name in names:
        damage = store.file_damage(name)
        if damage:
            raise StoreError(
                f"{str(store.folder)!r} cannot be resumed: {damage}, so it was changed; "
                "choose another folder"
            )


def _refuse_changes(folder: Path, stored: Mapping[str, Any], experiment: Experiment) -> None:
    changed = differences(stored, dump(experiment))
    was, now = changed.get("rounds", (0, 0))
    if isinstance(was, int) and was < now and not experiment.plans_ahead:
        changed.pop("rounds", None)
    if not changed:
        return
    listed = ", ".join(describe_change(key, was, now) for key, (was, now) in changed.items())
    may = "only rounds may be increased"
    if experiment.plans_ahead:
        may = "not even rounds may be increased: this allocator depends on their number"
    raise StoreError(
        f"{str(folder)!r} cannot be resumed with a changed experiment: {listed} ({may})"
        "; choose another folder"
    )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, MmflWarning, stacklevel=4)
