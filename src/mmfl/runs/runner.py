"""A stored run: the round loop, with every round written to a run directory."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mmfl.errors import MmflWarning, StoreError
from mmfl.experiment import Checkpoints, Experiment, check_experiment
from mmfl.loop import Population, RoundRecord, Rounds, Setup, State, Steps, play, set_up
from mmfl.runs.auction import StoredRecruitment, read_recruitment, save_recruitment, settle
from mmfl.runs.checkpoints import CheckpointSchedule, CheckpointStore, check_state
from mmfl.runs.directory.folders import (
    FolderTakenError,
    free_folder,
    last_folder,
    refuse_taken,
)
from mmfl.runs.directory.mark import is_marked
from mmfl.runs.directory.names import check_folder, check_names, make_absolute
from mmfl.runs.environment import MadeFrom
from mmfl.runs.failures import find_troubles
from mmfl.runs.models import read_descriptions
from mmfl.runs.result import Run
from mmfl.runs.resume import find_resumable
from mmfl.runs.store import RunStore
from mmfl.runs.verification import find_damage
from mmfl.system import calls
from mmfl.system.user_code import warn_user

if TYPE_CHECKING:
    from mmfl.experiment import Engine

__all__ = ["StoredRounds", "run", "stored_rounds"]

_NUMBERS = 1000
"""How many numbers a run tries to get, if other processes are faster each time."""


class StoredRounds(Rounds):
    """Rounds that are stored before they are yielded.

    Attributes:
        folder: The run directory; final once `start` was called, or the first round is there. It
            is absolute if the current folder has changed by then.
        after: The round that it resumes after, known from then on; 0 if it starts.
        recruitment: The auction before round one, if there is one; known from then on.
    """

    after = 0
    recruitment: StoredRecruitment | None = None
    _started = False

    def __init__(
        self,
        experiment: Experiment,
        out: Path,
        data_dir: Path | None,
        engine: Engine | None,
        *,
        renumber: bool,
        resume: bool,
    ) -> None:
        check_experiment(experiment)
        check_folder(out)
        check_names(out, experiment)
        find = last_folder if resume else free_folder
        self.folder = find(out) if renumber else out
        self._place = make_absolute(self.folder)
        self._pid = os.getpid()
        wanted = out if renumber and not resume else None
        super().__init__(self._stored(experiment, data_dir, engine, wanted, resume=resume))

    def __next__(self) -> tuple[State, RoundRecord]:
        self.start()
        return super().__next__()

    def close(self) -> None:
        """End the rounds and the workers, in the process that they belong to."""
        if os.getpid() == self._pid:
            super().close()

    def start(self) -> None:
        """Set everything up and hold the auction; the first round does so if this is not called."""
        self._refuse_fork()
        with self._lock:
            if not self._started:
                self._started = True
                self._advance()

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"the run in {str(self.folder)!r} belongs to process {self._pid}, and this process "
                "was forked from it; use the run in that process only"
            )

    def _stored(
        self,
        experiment: Experiment,
        data_dir: Path | None,
        given: Engine | None,
        wanted: Path | None,
        *,
        resume: bool,
    ) -> Steps:
        with ExitStack() as stack:
            self._follow()
            stack.callback(self._follow)
            before = find_resumable(self.folder, experiment) if resume else None
            if before is not None:
                stack.enter_context(closing(before))
                if before.finished:
                    self._refuse_damage()
                    self.after, self.recruitment = experiment.rounds, before.recruitment
                    yield cast(Any, None)  # to `start`
                    return
            elif wanted is None and not resume:
                refuse_taken(self.folder)
            start = calls.perf_counter()
            ready = stack.enter_context(set_up(experiment, engine=given, data_dir=data_dir))
            state = ready.first_state()
            self._refuse_fork()  # code of a model's or an engine's may have forked
            if before is not None:
                with ready.hold() as engine:
                    store, state = before.resume(engine, state)
            else:
                store = self._create(ready, wanted, resume=resume)
            stack.enter_context(closing(store))
            with _note_status(store):
                store.note(seconds_setup=repr(calls.perf_counter() - start))
                self.after = state.round
                yield from self._play(ready, store, state)

    def _refuse_damage(self) -> None:
        damage = find_damage(self.folder)
        if damage:
            raise StoreError(
                f"the run in {str(self.folder)!r} is damaged: {damage}; it is left unchanged"
            )

    def _play(self, ready: Setup, store: RunStore, after: State) -> Steps:
        """Play the rounds that are left; however this ends, the run can be resumed."""
        auction = _StoredAuction(ready)
        state, saving = after, _Saving(store, ready.experiment.checkpoints, after)
        try:
            self.recruitment = auction.save(store, after)
            yield cast(Any, None)  # to `start`
            for state, record in play(ready, after):
                store.add(state, record)
                saving.take(state)
                yield state, record
            saving.finish()
            store.save_models(state.params, read_descriptions(store))
            auction.settle(store)
            _note_end(store, state, ready.population)
        except (GeneratorExit, KeyboardInterrupt):
            saving.save_or_warn()
            raise
        except BaseException:
            with suppress(Exception):  # what went wrong first is what is reported
                saving.save()
            raise

    def _follow(self) -> None:
        """Use the absolute path if the current folder has changed."""
        with suppress(OSError):  # the current folder may be gone
            if self.folder.absolute() == self._place:
                return
        self.folder = self._place

    def _create(self, ready: Setup, wanted: Path | None, *, resume: bool) -> RunStore:
        """Create the store; if another process took the folder's number, use the next one."""
        experiment, lost = ready.experiment, 0
        while True:
            try:
                with ready.hold() as engine:
                    made_from = _find_inputs(ready, engine)
                return RunStore.create(self.folder, experiment, made_from)
            except FolderTakenError:
                if resume and is_marked(self.folder):  # it was not when we looked for a run
                    raise StoreError(f"{str(self.folder)!r} is in use by another process") from None
                lost += 1
                if wanted is None or lost == _NUMBERS:
                    raise
                self.folder = free_folder(self.folder.with_name(wanted.name))
                self._place = make_absolute(self.folder)


def _find_inputs(ready: Setup, engine: Engine) -> MadeFrom:
    """What is stored of what a run is made from; an engine of the user's may not know all of it."""
    describe: Any = getattr(engine, "describe", dict)
    return MadeFrom(
        engine.data() | ready.experiment.hash_files(),
        engine.numerics(),
        describe(),
        getattr(ready.federation, "names", ()),
    )


class _StoredAuction:
    """The auction before round one, if there is one, as the store gets it."""

    def __init__(self, ready: Setup) -> None:
        self._outcome = ready.population.recruited
        clients = ready.federation.clients if self._outcome is not None else ()
        self._ids = np.asarray(clients, dtype=np.int64)

    def save(self, store: RunStore, state: State) -> StoredRecruitment | None:
        """Store who was recruited, unless that was done in an earlier session."""
        if self._outcome is None:
            return None
        if not state.round:
            save_recruitment(store, self._outcome, self._ids)
        return read_recruitment(store)

    def settle(self, store: RunStore) -> None:
        """Store what is paid in the end."""
        if self._outcome is not None:
            settle(store, self._outcome, self._ids)


def _note_end(store: RunStore, state: State, population: Population) -> None:
    """Store that a run is finished, its fingerprint, and the tasks that nobody could train."""
    never = [task for task, version in state.versions.items() if not version]
    nobody = json.dumps([task for task in never if not population.can_train(task)])
    store.note_durably(fingerprint=state.fingerprint, status="finished", untrainable=nobody)


class _Saving:
    """When the last stored state is written as a checkpoint, and what that takes."""

    def __init__(self, store: RunStore, settings: Checkpoints, state: State) -> None:
        self._store = store
        self._checkpoints = CheckpointStore(store.folder / "checkpoints", keep=settings.keep)
        self._schedule = CheckpointSchedule(settings, round=state.round, now=calls.perf_counter())
        self._keep = settings.keep
        self._last = state
        self._saved = state.round
        self._checked: set[tuple[str, str]] = set()
        self._seconds = float(store.meta().get("seconds_checkpoints", "0"))

    def take(self, state: State) -> None:
        """Take the state of a stored round, and save it if a checkpoint is due."""
        self._last = state
        self._check(state)
        if self._schedule.due(state.round, calls.perf_counter()):
            self.save()

    def _check(self, state: State) -> None:
        """Refuse states of rules that no checkpoint can hold, as soon as there are any."""
        states = {("aggregator", task): value for task, value in state.aggregator.items()}
        for key, value in {("allocator", ""): state.allocator, **states}.items():
            if self._keep and value is not None and key not in self._checked:
                self._checked.add(key)
                check_state(value, key[0])

    def save(self) -> None:
        """Save the last stored state, unless it has been saved."""
        if self._last.round == self._saved or not self._keep:
            return
        self._store.check_owner()
        start = end = calls.perf_counter()

        def note(name: str) -> None:
            nonlocal end
            end = calls.perf_counter()
            seconds = repr(self._seconds + end - start)
            self._store.note_durably(checkpoint=name, seconds_checkpoints=seconds)

        self._checkpoints.save(self._last, note)
        self._saved = self._last.round
        self._seconds += end - start
        self._schedule.note_saved(self._saved, start, end)

    def save_or_warn(self) -> None:
        """Save the last state; a failure is a warning, for the run ends anyway."""
        if self._store.inherited:
            return
        try:
            self.save()
        except Exception as error:
            warnings.warn(f"the last checkpoint is missing: {error}", MmflWarning, stacklevel=2)

    def finish(self) -> None:
        """Save the last state; those before it are not needed any more."""
        self.save()
        self._checkpoints.prune(min(1, self._keep))


@contextmanager
def _note_status(store: RunStore) -> Iterator[None]:
    """Store how the run ends; the error that ended it is the one that is raised."""
    status = "failed"
    try:
        yield
        status = "finished"  # and has been noted together with the fingerprint
    except (GeneratorExit, KeyboardInterrupt):
        status = "stopped"
        raise
    except Exception as error:
        with suppress(Exception):
            store.note(reason=f"{type(error).__name__}: {error}")
        raise
    finally:
        if status != "finished":
            with suppress(Exception):
                store.note(status=status)
        with suppress(Exception):
            store.seal()


def stored_rounds(
    experiment: Experiment,
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    engine: Engine | None = None,
    renumber: bool = False,
    resume: bool = False,
) -> StoredRounds:
    """`mmfl.rounds`, with every round stored in `out` before it is yielded.

    Args:
        experiment: What to do.
        out: The run directory.
        data_dir: Folder of npz files; by default $MMFL_DATA.
        engine: A running engine, which is left running; by default the experiment's own is started.
        renumber: If `out` is taken, use `out`-2, -3, ... instead of refusing; with `resume`, the
            last of these that exists.
        resume: Resume the run in `out` from its newest intact checkpoint; if there is no run, start
            one. A finished run yields nothing, unless the experiment has more rounds.
    """
    folder = None if data_dir is None else Path(data_dir)
    return StoredRounds(experiment, Path(out), folder, engine, renumber=renumber, resume=resume)


def run(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    data_dir: str | Path | None = None,
    resume: bool = False,
) -> Run:
    """Run an experiment until it finishes, and store it.

    A task that never trained, or turns that failed without a simulated fault, are a warning.

    Args:
        experiment: What to do.
        out: The run directory, which must be empty or not exist; by default a new one in ``runs``.
        data_dir: Folder of npz files; by default $MMFL_DATA.
        resume: Resume the run in `out` (by default the last one in ``runs``), if it exists.
    """
    wanted = Path("runs") / "run" if out is None else Path(out)
    with stored_rounds(
        experiment, wanted, data_dir=data_dir, renumber=out is None, resume=resume
    ) as todo:
        for _ in todo:
            pass
    result = Run.load(todo.folder)
    for trouble in find_troubles(result.outcomes, faults=experiment.faults is not None):
        warn_user(trouble)
    return result
