"""Several variants of an experiment over several seeds; finished runs are kept.

OUT/<variant>/seed-<n>/       one run directory each
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from mmfl.comparison.planned import (
    BusyRunError,
    DamagedRunError,
    Event,
    Failed,
    Hashes,
    OtherRunError,
    PlannedRun,
    Step,
    firsts,
    load_finished,
    name_error,
    refuse_other_seeds,
)
from mmfl.comparison.pool import Jobs, choose_jobs, run_in_parallel
from mmfl.comparison.series import Series
from mmfl.config import short
from mmfl.errors import ComparisonError, InputError, MmflError, MmflWarning, plural
from mmfl.experiment import Experiment, Task, check_experiment, hash_own_code
from mmfl.objectives import METRICS
from mmfl.runs import (
    DATABASE,
    Run,
    check_folder,
    describe_mix,
    environment_now,
    find_changed_code,
    find_mixed_setups,
    is_marked,
    made_with,
    slugify,
)
from mmfl.system.files import exists, is_folder
from mmfl.system.user_code import pass_on

__all__ = ["Comparison", "Failed", "OtherRunError", "PlannedRun", "Step", "compare", "slugify"]

_NAMED = 3
"""How many runs that failed a sentence names."""


class Comparison:
    """The runs of a comparison, seed after seed, so that differences can be paired early.

    Attributes:
        out: The folder that holds all runs.
        runs: In the order in which they are run.
        failed: From variant and seed to why that run failed: those that `go` has tried, and those
            that were found damaged or run by another process.
    """

    def __init__(
        self,
        experiments: Mapping[str, Experiment],
        seeds: Sequence[int],
        out: str | Path,
        *,
        data_dir: str | Path | None = None,
    ) -> None:
        """Plan the runs; nothing is run or written yet.

        Args:
            experiments: From a variant's name to its experiment; the first is what the others are
                compared with. Their seeds are not used.
            seeds: Each variant is run once with each seed.
            out: The folder for all runs. Finished runs in it are kept if their experiments, data
                and files are the same. Runs made with another version, another processor or other
                code of yours are kept with a warning.
            data_dir: Folder of npz files; by default $MMFL_DATA.
        """
        if not experiments or not seeds:
            raise InputError("a comparison needs at least one variant and one seed")
        _refuse_unlike(experiments)
        slugs = _find_slugs(experiments)
        self.out = Path(out)
        check_folder(self.out)
        if exists(self.out) and not is_folder(self.out):
            raise InputError(f"{str(out)!r} is a file; choose a folder for the runs")
        if is_marked(self.out) or exists(self.out / DATABASE):
            raise OtherRunError(f"{str(out)!r} is a run directory; choose another folder")
        self._data_dir = None if data_dir is None else Path(data_dir)
        for name, variant in experiments.items():
            refuse_other_seeds(self.out / slugs[name], variant, set(seeds))
        hashes, now = Hashes(self._data_dir), _made_now(experiments)
        runs, kept = [], []
        for seed in dict.fromkeys(seeds):
            for name, variant in experiments.items():
                experiment = dataclasses.replace(variant, seed=seed)
                folder = self.out / slugs[name] / f"seed-{seed}"
                run, stored = _plan_run(name, experiment, folder, hashes)
                runs.append(run)
                if stored is not None:
                    kept.append((stored.made_with, now[name]))
        self.runs = tuple(runs)
        self.failed = self._find_damaged()
        self._told: set[str] = set()
        self._warn_of_code([find_changed_code(*both) for both in kept])
        missing = [now[run.variant] for run in runs if run.missing]
        self._warn_of([*(made for made, _ in kept), *missing])

    def _find_damaged(self) -> dict[tuple[str, int], Exception]:
        """The runs that were damaged before, as `failed` has them."""
        return {(r.variant, r.experiment.seed): r.damage for r in self.runs if r.damage is not None}

    @property
    def todo(self) -> int:
        """How many rounds are still to be run."""
        return sum(run.experiment.rounds for run in self.runs if run.missing)

    def jobs(self, asked: Jobs = "auto") -> int:
        """How many runs `go` does at the same time, if asked for this number."""
        return choose_jobs([run for run in self.runs if run.missing], asked)

    def go(self, jobs: Jobs = "auto") -> Generator[tuple[PlannedRun, Event], None, None]:
        """Run what is missing; yields each round, and None when a run has ended (or had before).

        Running several at the same time does not affect the results. A run that fails is yielded as
        `Failed` and does not affect the others; when they have ended, a `ComparisonError` names it.
        A run that is damaged or in use by another process is yielded, too, and left unchanged. A
        mistake that is found before any run starts is raised at once.

        Args:
            jobs: How many at the same time, each in its own process with its share of the
                workers; 1 does them here, one after the other. "auto": about as many as the local
                engine has workers, else 1 (see `mmfl.comparison.pool`).
        """
        number = self.jobs(jobs)
        self.failed = self._find_damaged()
        yield from ((run, None) for run in self.runs if run.done)
        yield from ((run, Failed(run.damage)) for run in self.runs if run.damage is not None)
        todo = [run for run in self.runs if run.missing]
        made = run_in_parallel(todo, number, self._data_dir) if number > 1 else self._go(todo)
        with closing(made) as events:
            for run, event in events:
                if isinstance(event, Failed):
                    self.failed[run.variant, run.experiment.seed] = event.error
                yield run, event
        if self.failed:
            raise self._error()

    def _go(self, todo: Sequence[PlannedRun]) -> Generator[tuple[PlannedRun, Event], None, None]:
        """Run after run; a mistake in a later variant is found before any runs."""
        with closing(Series(self._data_dir)) as series:
            for run in firsts(todo):
                try:
                    series.check(run.experiment)
                except MmflError as error:
                    raise name_error(run, error) from error
            for run in todo:
                end: Event = None
                try:
                    with closing(series.run(run.experiment, run.folder)) as steps:
                        for step in steps:
                            yield run, step
                except Exception as error:
                    pass_on(error)
                    end = Failed(name_error(run, error))
                yield run, end

    def _error(self) -> ComparisonError:
        """One sentence about the runs that failed, and tracebacks of errors that are not ours."""
        errors = [*self.failed.values()]
        first = "; ".join(map(str, errors[:_NAMED]))
        more = f"; and {len(errors) - _NAMED} more" if len(errors) > _NAMED else ""
        made = ComparisonError(f"{len(errors)} of {len(self.runs)} runs failed: {first}{more}")
        made.__cause__ = errors[0]
        for note in [note for error in errors for note in getattr(error, "__notes__", ())]:
            made.add_note(note)
        return made

    def results(self) -> dict[str, dict[int, Run]]:
        """From variant and seed to the finished run; those that `go` saw fail are left out."""
        found: dict[str, dict[int, Run]] = {}
        for planned in self.runs:
            by_seed = found.setdefault(planned.variant, {})
            if (planned.variant, planned.experiment.seed) not in self.failed:
                by_seed[planned.experiment.seed] = Run.load(planned.folder)
        self._warn_of([run.made_with for runs in found.values() for run in runs.values()])
        return found

    def _warn_of_code(self, changed: Sequence[Sequence[str]]) -> None:
        """Warn of code that has changed since the kept runs were made, given for each run."""
        counts = Counter(name for names in changed for name in names)
        for name, count in counts.items():
            self._told.add(name)
            runs = plural(count, "run")
            said = f"the {name} has changed since {runs} finished; to run the new code, choose"
            warnings.warn(f"{str(self.out)!r}: {said} another folder", MmflWarning, stacklevel=3)

    def _warn_of(self, runs: Sequence[Mapping[str, str]]) -> None:
        """Warn, once for each kind, if runs were not made with the same versions and processor."""
        for name, counts in find_mixed_setups(runs).items():
            if name not in self._told:
                self._told.add(name)
                said = f"{str(self.out)!r}: {describe_mix(name, counts)}"
                warnings.warn(said, MmflWarning, stacklevel=3)


def compare(
    experiments: Mapping[str, Experiment],
    seeds: Sequence[int],
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    jobs: Jobs = "auto",
) -> dict[str, dict[int, Run]]:
    """Run every variant with every seed, unless `out` has the run; returns runs by name and seed.

    If runs fail, the others are finished and stored; then a `ComparisonError` names the failures.

    Args:
        experiments: The experiments by variant name.
        seeds: Each variant is run once with each seed.
        out: The folder for all runs.
        data_dir: Folder of npz files; by default $MMFL_DATA.
        jobs: How many runs at the same time; see `Comparison.go`.
    """
    comparison = Comparison(experiments, seeds, out, data_dir=data_dir)
    for _ in comparison.go(jobs):
        pass
    return comparison.results()


def _plan_run(
    variant: str, experiment: Experiment, folder: Path, hashes: Hashes
) -> tuple[PlannedRun, Run | None]:
    """One run of a comparison, and the finished run that its folder holds already, if any."""
    check_folder(folder)
    run = PlannedRun(variant, experiment, folder, done=False)
    try:
        stored = load_finished(folder, experiment, hashes)
    except (BusyRunError, DamagedRunError) as error:
        return dataclasses.replace(run, damage=name_error(run, error)), None
    return dataclasses.replace(run, done=stored is not None), stored


def _made_now(experiments: Mapping[str, Experiment]) -> dict[str, dict[str, str]]:
    """By variant: the versions and code that a run would be made with if it started now."""
    here = environment_now()
    return {
        name: made_with(here | {"code": hash_own_code(experiment.resolved())})
        for name, experiment in experiments.items()
    }


def _refuse_unlike(experiments: Mapping[str, Experiment]) -> None:
    """Refuse variants that cannot be compared, or that cannot share an engine."""
    if not isinstance(experiments, Mapping):
        raise InputError("a comparison needs a mapping from each variant's name to its experiment")
    for experiment in experiments.values():
        check_experiment(experiment)
    first, *others = (experiment.resolved() for experiment in experiments.values())
    for other in others:
        if [task.name for task in other.tasks] != [task.name for task in first.tasks]:
            raise InputError("variants must have the same tasks, in the same order")
        for one, task in zip(first.tasks, other.tasks, strict=True):
            if one.metric != task.metric:
                raise InputError(
                    f"variants must evaluate task {task.name!r} by the same metric, got "
                    f"{_describe_metric(one)} and {_describe_metric(task)}"
                )
        if other.engine != first.engine:
            raise InputError("variants share one engine, so its settings cannot be varied")


def _describe_metric(task: Task) -> str:
    """A task's metric: its kind, and its settings if it has any."""
    kind, *settings = METRICS.dump(task.metric).items()
    return str(kind[1]) + "".join(f", {key} = {short(value)}" for key, value in settings)


def _find_slugs(names: Iterable[str]) -> dict[str, str]:
    """The folder name of each variant; no two may be the same."""
    slugs = {name: slugify(name) for name in names}
    for name, slug in slugs.items():
        twin = next((n for n, s in slugs.items() if s == slug and n != name), None)
        if twin is not None:
            raise InputError(f"variants {name!r} and {twin!r} would share a folder; rename one")
    return slugs
