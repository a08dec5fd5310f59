"""A stored run: the round loop, with every round written to a run directory."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mmfl.errors import StoreError
from mmfl.experiment import Experiment
from mmfl.loop import Rounds, rounds
from mmfl.runs.awards import Hiring, hiring, save_recruitment, settle
from mmfl.runs.result import Run
from mmfl.runs.store import RunStore, free_folder
from mmfl.state import RoundRecord, State
from mmfl.turns import Population

if TYPE_CHECKING:
    from mmfl.engines.base import Engine

__all__ = ["StoredRounds", "run", "stored_rounds"]


class StoredRounds(Rounds):
    """Rounds that are stored before they are yielded.

    Attributes:
        folder: The run directory; final once `start` was called, or the first round is there.
        hiring: The auction before round one, if there is one; known from then on.
    """

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
    ) -> None:
        self.folder = free_folder(out) if renumber else out
        super().__init__(self._stored(experiment, data_dir, engine, out if renumber else None))

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
    ) -> Generator[tuple[State, RoundRecord], None, None]:
        if wanted is None:
            RunStore.refuse_taken(self.folder)
        start = time.perf_counter()
        with _ready(experiment, data_dir, given) as engine:
            # Whatever is wrong with data, clients or models shows here, before a folder is made.
            population = Population.of(engine.federation, engine.experiment)
            hired = population.recruited
            ids = np.asarray(engine.federation.clients if hired else (), dtype=np.int64)
            state = State.first(engine.initial(), engine.experiment.lineage)
            with closing(self._create(engine, wanted)) as store:
                store.note(seconds_setup=repr(time.perf_counter() - start))
                status = "failed"
                try:
                    if hired is not None:
                        save_recruitment(store, hired, ids)
                        self.hiring = hiring(store)
                    yield cast(Any, None)  # to `start`
                    play = rounds(
                        engine.experiment, engine=engine, state=state, population=population
                    )
                    for state, record in play:
                        store.add(state, record)
                        yield state, record
                    store.save_models(state.params)
                    if hired is not None:
                        settle(store, hired, ids)
                    store.note(fingerprint=state.fingerprint)
                    status = "finished"
                except (GeneratorExit, KeyboardInterrupt):
                    status = "stopped"
                    raise
                except Exception as error:
                    store.note(reason=f"{type(error).__name__}: {error}")
                    raise
                finally:
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


def stored_rounds(
    experiment: Experiment,
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    engine: Engine | None = None,
    renumber: bool = False,
) -> StoredRounds:
    """`mmfl.rounds`, with every round stored in `out` before it is yielded.

    Args:
        experiment: What to do.
        out: The run directory.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        engine: A running engine to use, and to leave running; by default the experiment's own.
        renumber: If `out` is taken, use `out`-2, -3, ... instead of refusing.
    """
    folder = None if data_dir is None else Path(data_dir)
    return StoredRounds(experiment, Path(out), folder, engine, renumber=renumber)


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
) -> Run:
    """Run an experiment to its end and store it.

    Args:
        experiment: What to do.
        out: The run directory, which must not hold anything; by default a new one in ``runs``.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
    """
    wanted = Path("runs") / "run" if out is None else Path(out)
    with stored_rounds(experiment, wanted, data_dir=data_dir, renumber=out is None) as todo:
        for _ in todo:
            pass
    return Run.load(todo.folder)
