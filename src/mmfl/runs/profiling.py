"""Where a round's time goes, and which kernel trains each task fastest on this machine.

A measurement for people: nothing in a run depends on it.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmfl.errors import EngineError
from mmfl.exchange import Address, ClientFailure, ClientUpdate, Job
from mmfl.experiment import (
    Experiment,
    KernelName,
    Task,
    guard_engine,
    use_engine,
)
from mmfl.loop import Population, RoundRecord
from mmfl.runs.runner import stored_rounds
from mmfl.system.tracebacks import make_cause

if TYPE_CHECKING:
    from mmfl.experiment import Engine

__all__ = ["Profile", "Shares", "profile", "timed_rounds"]

TURNS = 3
REPEATS = 3


@dataclasses.dataclass(frozen=True)
class Shares:
    """A round's wall clock, in seconds.

    Attributes:
        train: In which the workers trained, as if they had shared it evenly.
        dispatch: In which workers waited: for jobs, for each other, for us.
        aggregate: Checking, counting and aggregating what had come.
        evaluate: Measuring difficulty and test scores.
        store: Writing the round.
    """

    train: float
    dispatch: float
    aggregate: float
    evaluate: float
    store: float

    @classmethod
    def of(cls, record: RoundRecord, *, workers: int, store: float) -> Shares:
        """From a round's record, the number of workers, and what storing it took."""
        busy = min(record.seconds_clients / workers, record.seconds_train)
        aggregate = min(record.seconds_aggregate, record.seconds_train - busy)
        rest = record.seconds_train - busy - aggregate
        return cls(busy, rest, aggregate, record.seconds_evaluate, store)

    @property
    def whole(self) -> float:
        """The whole round."""
        return float(sum(dataclasses.astuple(self)))


@dataclasses.dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes:
        workers: How many turns were computed at the same time.
        setup: Seconds before the first round.
        samples: Training examples processed in a round.
        shares: The median round, part by part.
        pace: From task and kernel to training examples a second of one worker.
        kernels: From task to the kernel that the experiment uses.
    """

    workers: int
    setup: float
    samples: float
    shares: Shares
    pace: Mapping[str, Mapping[str, float]]
    kernels: Mapping[str, str]

    @property
    def fastest(self) -> dict[str, str]:
        """From task to the kernel to pin: the present one, unless another is a tenth faster."""
        found = {}
        for task, pace in self.pace.items():
            best = max(pace, key=pace.__getitem__)
            now = self.kernels[task]
            found[task] = best if pace[best] > 1.1 * pace.get(now, 0.0) else now
        return found

    @property
    def pins(self) -> str:
        """`fastest` as lines of a configuration."""
        chosen = self.fastest
        if len(set(chosen.values())) == 1:
            return f'kernel = "{next(iter(chosen.values()))}"'
        return "\n".join(
            f'[[tasks]]\nname = "{task}"\nkernel = "{kernel}"' for task, kernel in chosen.items()
        )


def timed_rounds(
    experiment: Experiment, *, data_dir: Path | None = None
) -> Iterator[tuple[RoundRecord, Shares]]:
    """All rounds, stored in a folder that is then dropped, each with where its time went."""
    with (
        use_engine(experiment, data_dir) as engine,
        tempfile.TemporaryDirectory(prefix="mmfl-") as folder,
        stored_rounds(experiment, Path(folder) / "run", engine=engine) as rounds,
    ):
        rounds.start()
        before = time.perf_counter()
        for _, record in rounds:
            now = time.perf_counter()
            store = max(0.0, now - before - record.seconds)
            yield record, Shares.of(record, workers=engine.workers, store=store)
            before = time.perf_counter()


def profile(experiment: Experiment, *, rounds: int = 4, data_dir: Path | None = None) -> Profile:
    """Run a few rounds and, in addition, a few turns of each task with each kernel.

    Args:
        experiment: What to measure; `rounds` of it are run at most.
        rounds: At least 2: the first one warms up and is not counted.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
    """
    experiment = dataclasses.replace(experiment, rounds=rounds).resolved()
    start = time.perf_counter()
    timed, setup = [], 0.0
    for record, shares in timed_rounds(experiment, data_dir=data_dir):
        setup = setup or time.perf_counter() - start - record.seconds
        timed.append((record, shares))
    _refuse_failures([record for record, _ in timed])
    later = timed[1:] or timed
    with use_engine(experiment, data_dir) as engine, guard_engine(engine):
        workers, pace = engine.workers, _paces(experiment, engine)
    columns = zip(*(dataclasses.astuple(shares) for _, shares in later), strict=True)
    return Profile(
        workers=workers,
        setup=setup,
        samples=statistics.median(record.samples for record, _ in later),
        shares=Shares(*(statistics.median(column) for column in columns)),
        pace=pace,
        kernels={task.name: experiment.kernel_of(task) for task in experiment.tasks},
    )


def _refuse_failures(records: Sequence[RoundRecord]) -> None:
    """Refuse a task all of whose turns failed: there is nothing to measure."""
    trained = {task for record in records for task, count in record.clients.items() if count}
    for failure in (failure for record in records for failure in record.failures):
        if failure.turn and failure.address.task not in trained:
            said = f"task {failure.address.task!r}: all turns failed, so nothing can be measured"
            why = f"{failure.reason}: {failure.detail}"
            raise EngineError(f"{said}; the first one: {why}") from make_cause(failure.trace)


def _paces(experiment: Experiment, engine: Engine) -> dict[str, dict[str, float]]:
    """Examples a second by task and kernel; kernels take turns, so that noise hits all alike."""
    seen: dict[str, dict[str, list[float]]] = {task.name: {} for task in experiment.tasks}
    for repeat in range(REPEATS + 1):
        for kernel in ("reference", "fast", "batched"):
            variant = _with_kernel(experiment, kernel)
            engine.prepare(variant)
            first = engine.initial()
            for task in [t.name for t in variant.tasks if variant.kernel_of(t) == kernel]:
                rates = _rates(engine.train(_jobs(variant, engine, task), {task: first[task]}))
                if repeat and rates:  # the first time is to warm up
                    seen[task].setdefault(kernel, []).extend(rates)
    return {
        task: {kernel: statistics.median(rates) for kernel, rates in found.items()}
        for task, found in seen.items()
    }


def _rates(results: Iterable[ClientUpdate | ClientFailure]) -> list[float]:
    """Examples a second of each turn that took measurable time."""
    updates = (result for result in results if isinstance(result, ClientUpdate))
    return [update.samples / update.seconds for update in updates if update.seconds > 0]


def _with_kernel(experiment: Experiment, kernel: KernelName) -> Experiment:
    """The experiment with this kernel for all tasks that it fits."""

    def choose_kernel(task: Task) -> KernelName:
        fits = kernel != "batched" or experiment.fits_batched(task)
        return kernel if fits else "fast"

    tasks = tuple(
        dataclasses.replace(task, kernel=choose_kernel(task)) for task in experiment.tasks
    )
    return dataclasses.replace(experiment, tasks=tasks)


def _jobs(experiment: Experiment, engine: Engine, task: str) -> Sequence[Job]:
    """First turns of a few clients that hold data of a task."""
    population = Population.of(engine.federation, experiment)
    clients = population.ids(population.active(1))
    held = engine.federation.sizes(clients)[:, engine.federation.tasks.index(task)]
    work = experiment.work(task, 0)
    return [
        Job(Address(experiment.run_id, 1, task, client, 0), experiment.seed, work)
        for client in clients[np.argsort(-held, kind="stable")][:TURNS].tolist()
        if held.max() > 0
    ]
