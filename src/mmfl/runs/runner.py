"""A stored run: the round loop, with every round written to a run directory."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mmfl.checkpoints import Rhythm, Vault
from mmfl.errors import StoreError
from mmfl.experiment import Experiment
from mmfl.loop import Rounds, rounds
from mmfl.population import Population
from mmfl.runs.awards import Hiring, hiring, save_recruitment, settle
from mmfl.runs.result import Run
from mmfl.runs.resume import begun
from mmfl.runs.store import RunStore, free_folder, last_folder
from mmfl.state import RoundRecord, State

if TYPE_CHECKING:
    from mmfl.engines.base import Engine

__all__ = ["StoredRounds", "run", "stored_rounds"]

Steps = Generator[tuple[State, RoundRecord], None, None]


class StoredRounds(Rounds):
    """Rounds that are stored before they are yielded.

    Attributes:
        folder: The run directory; final once `start` was called, or the first round is there.
        after: The round that it goes on after, known from then on; 0 if it starts.
        hiring: The auction before round one, if there is one; known from then on.
    """

    after = 0
    hiring: Hiring | None = None
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
        find = last_folder if resume else free_folder
        self.folder = find(out) if renumber else out
        wanted = out if renumber and not resume else None
        super().__init__(self._stored(experiment, data_dir, engine, wanted, resume=resume))

    def __next__(self) -> tuple[State, RoundRecord]:
        self.start()
        return super().__next__()

    def start(self) -> None:
        """Set everything up and hold the auction; the first round does so if this is not called."""
        if not self._started:
            self._started = True
            next(self._generator)

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
            before = begun(self.folder, experiment) if resume else None
            if before is not None:
                stack.enter_context(closing(before))
                if before.finished:
                    self.after, self.hiring = experiment.rounds, before.hiring
                    yield cast(Any, None)  # to `start`
                    return
            elif wanted is None:
                RunStore.refuse_taken(self.folder)
            start = time.perf_counter()
            engine = stack.enter_context(_ready(experiment, data_dir, given))
            # Whatever is wrong with data, clients or models shows here, before a folder is made.
            population = Population.of(engine.federation, engine.experiment)
            state = State.first(engine.initial(), engine.experiment.lineage)
            if before is not None:
                store, state = before.go_on(engine, state)
            else:
                store = self._create(engine, wanted)
            stack.enter_context(closing(store))
            store.note(seconds_setup=repr(time.perf_counter() - start))
            self.after = state.round
            yield from self._play(engine, population, store, state)

    def _play(self, engine: Engine, population: Population, store: RunStore, after: State) -> Steps:
        """The rounds to come; however this ends, the directory says so and can go on from there."""
        hired = population.recruited
        ids = np.asarray(engine.federation.clients if hired else (), dtype=np.int64)
        state, saving = after, _Saving(store, engine.experiment, after)
        status = "failed"
        try:
            if hired is not None:
                if not state.round:
                    save_recruitment(store, hired, ids)
                self.hiring = hiring(store)
            yield cast(Any, None)  # to `start`
            play = rounds(engine.experiment, engine=engine, state=state, population=population)
            for state, record in play:
                store.add(state, record)
                saving.stored(state)
                yield state, record
            saving.finish()
            store.save_models(state.params)
            if hired is not None:
                settle(store, hired, ids)
            store.note(fingerprint=state.fingerprint)
            status = "finished"
        except (GeneratorExit, KeyboardInterrupt):
            status = "stopped"
            raise
        except Exception as error:
            with suppress(StoreError):
                store.note(reason=f"{type(error).__name__}: {error}")
            raise
        finally:
            with suppress(StoreError):  # if it was the disk, that has been said
                if status != "finished":
                    saving.save()
            with suppress(StoreError):
                store.note(status=status)
            store.seal()

    def _create(self, engine: Engine, wanted: Path | None) -> RunStore:
        """The store; if another process took the number meanwhile, under the next one."""
        while True:
            try:
                experiment = engine.experiment
                return RunStore.create(self.folder, experiment, engine.data() | experiment.files())
            except StoreError:
                if wanted is None or not self.folder.exists():
                    raise
                self.folder = free_folder(wanted)


class _Saving:
    """When the last stored state is written as a checkpoint, and what that takes."""

    def __init__(self, store: RunStore, experiment: Experiment, state: State) -> None:
        settings = experiment.checkpoints
        self._store = store
        self._vault = Vault(store.folder / "checkpoints", keep=settings.keep)
        self._rhythm = Rhythm(settings, round=state.round, now=time.perf_counter())
        self._keep = settings.keep
        self._last = state
        self._saved = state.round
        self._seconds = float(store.meta().get("seconds_checkpoints", "0"))

    def stored(self, state: State) -> None:
        """A round was stored; save it, if it is time."""
        self._last = state
        if self._rhythm.due(state.round, time.perf_counter()):
            self.save()

    def save(self) -> None:
        """Save the last state that was stored, unless it is saved."""
        if self._last.round == self._saved or not self._keep:
            return
        start = time.perf_counter()
        name = self._vault.save(self._last)
        self._saved = self._last.round
        end = time.perf_counter()
        self._seconds += end - start
        self._rhythm.saved(self._saved, start, end)
        self._store.note_durably(checkpoint=name, seconds_checkpoints=repr(self._seconds))

    def finish(self) -> None:
        """Save the last state; those before it are not needed any more."""
        self.save()
        self._vault.prune(min(1, self._keep))


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
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        engine: A running engine to use, and to leave running; by default the experiment's own.
        renumber: If `out` is taken, use `out`-2, -3, ... instead of refusing; with `resume`, the
            last of these that is there.
        resume: Go on with the run in `out`, after its newest checkpoint that is whole; if there is
            no run, start one. A finished run yields nothing, unless the experiment has more rounds.
    """
    folder = None if data_dir is None else Path(data_dir)
    return StoredRounds(experiment, Path(out), folder, engine, renumber=renumber, resume=resume)


@contextmanager
def _ready(experiment: Experiment, data_dir: Path | None, given: Engine | None) -> Iterator[Engine]:
    """An engine for the experiment: the one that is given, or its own for the time being."""
    if given is not None:
        given.prepare(experiment)
        yield given
        return
    with closing(experiment.engine.open(experiment, data_dir=data_dir)) as engine:
        yield engine


def run(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    data_dir: str | Path | None = None,
    resume: bool = False,
) -> Run:
    """Run an experiment to its end and store it.

    Args:
        experiment: What to do.
        out: The run directory, which must not hold anything; by default a new one in ``runs``.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        resume: Go on with the run in `out` (by default the last one in ``runs``), if there is one.
    """
    wanted = Path("runs") / "run" if out is None else Path(out)
    with stored_rounds(
        experiment, wanted, data_dir=data_dir, renumber=out is None, resume=resume
    ) as todo:
        for _ in todo:
            pass
    return Run.load(todo.folder)
