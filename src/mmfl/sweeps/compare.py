"""Several variants of an experiment over several seeds; finished runs are kept.

OUT/<variant>/seed-<n>/       one run directory each
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from mmfl.errors import InputError, MmflError
from mmfl.experiment import Experiment
from mmfl.objectives import METRICS
from mmfl.runs.result import Run
from mmfl.sweeps.plan import Hashes, OtherRunError, Planned, Step, firsts, holds
from mmfl.sweeps.series import Series
from mmfl.sweeps.sweep import Jobs, jobs_for, sweep

__all__ = ["Comparison", "OtherRunError", "Planned", "Step", "compare"]


class Comparison:
    """What is to be run, seed after seed, so that differences can be paired early.

    Attributes:
        out: The folder that holds all runs.
        runs: In the order in which they are run.
    """

    def __init__(
        self,
        experiments: Mapping[str, Experiment],
        seeds: Sequence[int],
        out: str | Path,
        *,
        data_dir: str | Path | None = None,
    ) -> None:
        """Plan it; nothing is run or written yet.

        Args:
            experiments: From a variant's name to its experiment; the first is what the others are
                compared with. Their seeds are not used.
            seeds: Each variant is run once with each.
            out: The folder for all runs. What it holds already and is finished is kept, if it is
                of these experiments and of this data. (Code of yours, and files that a partition or
                a warm start names, are not looked into.)
            data_dir: Folder of npz files; by default what MMFL_DATA says.
        """
        if not experiments or not seeds:
            raise InputError("a comparison needs at least one variant and one seed")
        _refuse_unlike(experiments)
        slugs = {name: _slug(name) for name in experiments}
        for name, slug in slugs.items():
            twin = next((n for n, s in slugs.items() if s == slug and n != name), None)
            if twin is not None:
                raise InputError(f"variants {name!r} and {twin!r} would share a folder; rename one")
        self.out = Path(out)
        self._data_dir = None if data_dir is None else Path(data_dir)
        hashes = Hashes(self._data_dir)
        runs = []
        for seed in dict.fromkeys(seeds):
            for name, variant in experiments.items():
                experiment = dataclasses.replace(variant, seed=seed)
                folder = self.out / slugs[name] / f"seed-{seed}"
                done = holds(folder, experiment, hashes)
                runs.append(Planned(name, experiment, folder, done))
        self.runs = tuple(runs)

    @property
    def todo(self) -> int:
        """How many rounds are still to be run."""
        return sum(run.experiment.rounds for run in self.runs if not run.done)

    def jobs(self, asked: Jobs = "auto") -> int:
        """How many runs `go` does at the same time, if that is asked for."""
        return jobs_for([run for run in self.runs if not run.done], asked)

    def go(self, jobs: Jobs = "auto") -> Generator[tuple[Planned, Step | None], None, None]:
        """Run what is missing; yields each round, and None when a run is over (or was before).

        Which runs are done at the same time has no influence on them.

        Args:
            jobs: How many at the same time, each in a process of its own with its share of the
                workers; 1 does them here, one after the other. "auto": about as many as the local
                engine has workers, else 1 (see `mmfl.sweeps.sweep`).
        """
        number = self.jobs(jobs)
        yield from ((run, None) for run in self.runs if run.done)
        todo = [run for run in self.runs if not run.done]
        yield from sweep(todo, number, self._data_dir) if number > 1 else self._go(todo)

    def _go(self, todo: Sequence[Planned]) -> Generator[tuple[Planned, Step | None], None, None]:
        """Run after run; a mistake in a later variant is found before any runs."""
        with closing(Series(self._data_dir)) as series:
            for run in firsts(todo):
                with _named(run):
                    series.check(run.experiment)
            for run in todo:
                with _named(run), closing(series.run(run.experiment, run.folder)) as steps:
                    for step in steps:
                        yield run, step
                yield run, None

    def results(self) -> dict[str, dict[int, Run]]:
        """From variant and seed to the finished run."""
        found: dict[str, dict[int, Run]] = {}
        for planned in self.runs:
            run = Run.load(planned.folder)
            found.setdefault(planned.variant, {})[planned.experiment.seed] = run
        return found


def compare(
    experiments: Mapping[str, Experiment],
    seeds: Sequence[int],
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    jobs: Jobs = "auto",
) -> dict[str, dict[int, Run]]:
    """Run every variant with every seed, as far as `out` does not hold it; all runs by name, seed.

    Args:
        experiments: From a variant's name to its experiment.
        seeds: Each variant is run once with each.
        out: The folder for all runs.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        jobs: How many runs at the same time; see `Comparison.go`.
    """
    comparison = Comparison(experiments, seeds, out, data_dir=data_dir)
    for _ in comparison.go(jobs):
        pass
    return comparison.results()


@contextmanager
def _named(planned: Planned) -> Iterator[None]:
    """What goes wrong in this block is said to be this run's."""
    try:
        yield
    except MmflError as error:
        raise type(error)(f"{planned.name}: {error}") from error


def _refuse_unlike(experiments: Mapping[str, Experiment]) -> None:
    """Variants must be alike in what their numbers mean, and in the engine that serves them all."""
    first, *others = (experiment.resolved() for experiment in experiments.values())
    for other in others:
        if [task.name for task in other.tasks] != [task.name for task in first.tasks]:
            raise InputError("variants must have the same tasks, in the same order")
        for one, task in zip(first.tasks, other.tasks, strict=True):
            if one.metric != task.metric:
                raise InputError(
                    f"variants must judge task {task.name!r} by the same metric, got "
                    f"{METRICS.dump(one.metric)} and {METRICS.dump(task.metric)}"
                )
        if other.engine != first.engine:
            raise InputError("variants share one engine, so its settings cannot be varied")


def _slug(name: str) -> str:
    """A variant's name as a folder's; a long one ends in a hash, so that no two are the same."""
    slug = re.sub(r"[^\w.=+-]+", "-", name).strip("-.")
    if not slug:
        raise InputError(f"a variant's name must have a letter or a digit, got {name!r}")
    if len(slug) > 100:
        slug = f"{slug[:90]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return slug
