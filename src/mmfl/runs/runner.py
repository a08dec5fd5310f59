"""A stored run: the round loop, with every round written to a run directory."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mmfl.errors import StoreError
from mmfl.experiment import Experiment
from mmfl.fairness import merit, variance, worst
from mmfl.loop import Rounds, rounds
from mmfl.runs.awards import Hiring, hiring, save_recruitment, settle
from mmfl.runs.store import RunStore, free_folder
from mmfl.state import RoundRecord, State
from mmfl.turns import Population

if TYPE_CHECKING:
    from mmfl.engines.base import Engine

__all__ = ["Run", "StoredRounds", "run", "stored_rounds"]


@dataclass(frozen=True)
class Run:
    """A run as its directory tells it; all results are on the test split.

    Attributes:
        folder: The run directory.
        data: By task: the SHA-256 of its data, as far as the run knew it.
        status: "running", "stopped", "failed", "finished", or "interrupted": the process is gone.
        rounds: Rounds done.
        planned: Rounds planned.
        fingerprint: SHA-256 over assignments, scores and weights; "" before the end.
        tasks: By task: metric, accuracy (None if the metric is another), loss, and the number of
            clients' turns it got.
        metrics: By task: the metric's kind, and whether "higher" or "lower" is better.
        history: By task: the metric after each round (as last measured; NaN before).
        hiring: The auction before round one; None if there was none.
        failures: How many turns came to nothing.
        complaint: Why, most often; "" if none did.
        reason: Why the run failed, if it did.
        samples: Training examples processed, each pass counted.
        seconds: Of the round loop.
        seconds_train: Of that, training and aggregation.
        seconds_evaluate: Of that, measuring.
        seconds_setup: Before the loop: data, workers, initial weights.
    """

    folder: Path
    data: dict[str, str]
    status: str
    rounds: int
    planned: int
    fingerprint: str
    tasks: dict[str, dict[str, Any]]
    metrics: dict[str, tuple[str, str]]
    history: dict[str, list[float]]
    hiring: Hiring | None
    failures: int
    complaint: str
    reason: str
    samples: int
    seconds: float
    seconds_train: float
    seconds_evaluate: float
    seconds_setup: float

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Read a run directory, finished or not."""
        with closing(RunStore.open(Path(folder))) as store:
            meta = store.meta()
            data = store.data()
            whole = store.rows(
                "SELECT count(*), total(samples), total(seconds), total(seconds_train), "
                "total(seconds_evaluate) FROM round"
            )[0]
            history: dict[str, list[float]] = {}
            tasks: dict[str, dict[str, Any]] = {}
            kinds: dict[str, tuple[str, str]] = {}
            for number, name, kind, better in store.tasks():
                rows = store.rows(
                    "SELECT metric, loss, clients FROM round_task WHERE task = ? ORDER BY round",
                    number,
                )
                history[name] = [math.nan if row[0] is None else row[0] for row in rows]
                metric, loss, _ = rows[-1] if rows else (None, None, 0)
                clients = sum(row[2] for row in rows)
                accuracy = metric if kind == "accuracy" else None
                tasks[name] = {"metric": metric, "accuracy": accuracy, "loss": loss}
                tasks[name]["clients"] = clients
                kinds[name] = (kind, better)
            hired = hiring(store)
            failures = store.rows("SELECT count(*) FROM failure")[0][0]
            often = store.rows(
                "SELECT reason, min(detail), count(*) FROM failure "
                "GROUP BY reason ORDER BY count(*) DESC LIMIT 1"
            )
        return cls(
            folder=Path(folder),
            data=data,
            status=_status(meta),
            rounds=whole[0],
            planned=int(meta.get("rounds", whole[0])),
            fingerprint=meta.get("fingerprint", ""),
            tasks=tasks,
            metrics=kinds,
            history=history,
            hiring=hired,
            failures=failures,
            complaint=f"{often[0][0]}: {often[0][1]}" if often else "",
            reason=meta.get("reason", ""),
            samples=int(whole[1]),
            seconds=whole[2],
            seconds_train=whole[3],
            seconds_evaluate=whole[4],
            seconds_setup=float(meta.get("seconds_setup", "nan")),
        )

    @property
    def merits(self) -> list[float]:
        """The tasks' last metrics as numbers of which more is better, NaN where not measured.

        Where lower is better, an error e counts as 1 - e.
        """
        values = []
        for name, task in self.tasks.items():
            metric = math.nan if task["metric"] is None else task["metric"]
            values.append(merit(metric, self.metrics[name][1]))
        return values

    @property
    def worst(self) -> float:
        """The worst task's merit; NaN if one of them is unknown."""
        return worst(self.merits)

    @property
    def mean(self) -> float:
        """The tasks' mean merit; NaN if one of them is not finite."""
        merits = self.merits
        return statistics.fmean(merits) if all(map(math.isfinite, merits)) else math.nan

    @property
    def variance(self) -> float:
        """Population variance of the merit over tasks."""
        return variance(self.merits)

    def to_json(self) -> str:
        """The object that ``mmfl run --json`` prints."""
        found = {
            "run_dir": str(self.folder),
            "fingerprint": self.fingerprint,
            "rounds": self.rounds,
            "samples": self.samples,
            "seconds": self.seconds,
            "seconds_train": self.seconds_train,
            "seconds_evaluate": self.seconds_evaluate,
            "seconds_setup": self.seconds_setup,
            "worst": self.worst,
            "mean": self.mean,
            "variance": self.variance,
            "failures": self.failures,
            "tasks": self.tasks,
        }
        if self.hiring is not None:
            found["recruitment"] = {
                **dataclasses.asdict(self.hiring),
                "spent": self.hiring.spent,
                "paid": self.hiring.paid,
                "min_take_up": self.hiring.min_take_up,
            }
        return json.dumps(_no_nan(found))


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
            ids = np.asarray(engine.federation.clients, dtype=np.int64)
            state = State.first(engine.initial(), engine.experiment.lineage)
            with closing(self._create(engine, wanted)) as store:
                store.note(seconds_setup=repr(time.perf_counter() - start))
                status = "failed"
                try:
                    if hired is not None:
                        save_recruitment(store, hired, ids)
                        self.hiring = hiring(store)
                    yield cast(Any, None)  # to `start`
                    for state, record in rounds(experiment, engine=engine, state=state):  # noqa: B020
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


def _status(meta: Mapping[str, str]) -> str:
    """The status, unless it says "running" and the process on this machine is no more."""
    status = meta.get("status", "running")
    if status == "running" and meta.get("host") == platform.node():
        try:
            os.kill(int(meta["pid"]), 0)
        except ProcessLookupError:
            return "interrupted"
        except OSError:
            pass
    return status


def _no_nan(value: Any) -> Any:
    """JSON has no NaN: what was not measured is null."""
    if isinstance(value, dict):
        return {key: _no_nan(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
