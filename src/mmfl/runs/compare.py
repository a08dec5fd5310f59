"""Several variants of an experiment over several seeds: one engine, finished runs kept.

OUT/<variant>/seed-<n>/       one run directory each
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import time
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.config import dump
from mmfl.data.load import Shelf
from mmfl.errors import ConfigError, InputError, MmflError, StoreError
from mmfl.experiment import Experiment
from mmfl.objectives import METRICS
from mmfl.runs.result import Run
from mmfl.runs.runner import stored_rounds
from mmfl.state import RoundRecord
from mmfl.turns import Population

if TYPE_CHECKING:
    from mmfl.engines.base import Engine

__all__ = ["Comparison", "OtherRunError", "Planned", "compare"]


class OtherRunError(StoreError):
    """A folder holds a run of something else."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run of a comparison.

    Attributes:
        variant: The variant's name.
        experiment: With its seed.
        folder: Where it is, or will be, stored.
        done: Whether it was finished before.
    """

    variant: str
    experiment: Experiment
    folder: Path
    done: bool


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
        data = _Data(self._data_dir)
        runs = []
        for seed in seeds:
            for name, variant in experiments.items():
                experiment = dataclasses.replace(variant, seed=seed)
                folder = self.out / slugs[name] / f"seed-{seed}"
                done = _holds(folder, experiment, data)
                runs.append(Planned(name, experiment, folder, done))
        self.runs = tuple(runs)

    @property
    def todo(self) -> int:
        """How many rounds are still to be run."""
        return sum(run.experiment.rounds for run in self.runs if not run.done)

    def go(self) -> Generator[tuple[Planned, RoundRecord | None], None, None]:
        """Run what is missing; yields each round's record, and None when a run is over.

        Workers, and the data that runs have in common, are shared.
        """
        with ExitStack() as stack:
            engine: Engine | None = None
            data = _Data(self._data_dir)
            for planned in self._firsts():  # a mistake in a later variant is found before any runs
                with _named(planned):
                    if engine is None:
                        first = planned.experiment
                        engine = first.engine.open(first, data_dir=self._data_dir)
                        stack.enter_context(closing(engine))
                    known = engine.experiment.world == planned.experiment.resolved().world
                    engine.prepare(planned.experiment)
                    Population.of(engine.federation, engine.experiment)
                    if not known or planned.experiment is first:
                        engine.initial()
            for planned in self.runs:
                if not planned.done:
                    assert engine is not None  # the first of its variant was prepared
                    with _named(planned):
                        yield from self._run(planned, engine, data)
                yield planned, None

    def _firsts(self) -> Iterator[Planned]:
        """The first run of each variant that is to be run."""
        seen: set[str] = set()
        for planned in self.runs:
            if not planned.done and planned.variant not in seen:
                seen.add(planned.variant)
                yield planned

    @staticmethod
    def _run(
        planned: Planned, engine: Engine, data: _Data
    ) -> Iterator[tuple[Planned, RoundRecord]]:
        if _holds(planned.folder, planned.experiment, data):
            return  # another process was faster
        if planned.folder.exists():
            shutil.rmtree(planned.folder)  # interrupted or failed
        with stored_rounds(planned.experiment, planned.folder, engine=engine) as todo:
            for _, record in todo:
                yield planned, record

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
) -> dict[str, dict[int, Run]]:
    """Run every variant with every seed, as far as `out` does not hold it; all runs by name, seed.

    Args:
        experiments: From a variant's name to its experiment.
        seeds: Each variant is run once with each.
        out: The folder for all runs.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
    """
    comparison = Comparison(experiments, seeds, out, data_dir=data_dir)
    for _ in comparison.go():
        pass
    return comparison.results()


@contextmanager
def _named(planned: Planned) -> Iterator[None]:
    """What goes wrong in this block is said to be this run's."""
    try:
        yield
    except MmflError as error:
        where = f"{planned.variant}, seed {planned.experiment.seed}"
        raise type(error)(f"{where}: {error}") from error


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


class _Data:
    """The hashes of experiments' data, each data set read once and only if it is asked for."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._known: list[tuple[tuple[object, ...], dict[str, str]]] = []

    def hashes(self, experiment: Experiment) -> dict[str, str]:
        sets = tuple((task.name, task.dataset) for task in experiment.tasks)
        found = next((hashes for known, hashes in self._known if known == sets), None)
        if found is None:
            found = Shelf(self._data_dir).hashes(experiment)
            self._known.append((sets, found))
        return found | experiment.files()


def _holds(folder: Path, experiment: Experiment, data: _Data) -> bool:
    """Whether a folder holds this run, finished; what is not this experiment's is refused."""
    started = folder / "run.sqlite"
    if not folder.exists() or (folder.is_dir() and not started.exists() and _only_begun(folder)):
        return False
    found = Run.load(folder)
    if found.status == "running":
        raise StoreError(f"{str(folder)!r} is being run by another process")
    if not _stored_is(experiment, folder / "experiment.toml"):
        raise OtherRunError(
            f"{str(folder)!r} holds a run of another experiment; choose another folder (--out)"
        )
    if found.status != "finished":
        return False
    ours = data.hashes(experiment)
    other = [name for name, was in found.data.items() if was != ours.get(name)]
    if other:
        raise OtherRunError(
            f"{str(folder)!r} holds a run on other data than {_what(other[0])} has now; choose "
            "another folder (--out)"
        )
    return True


def _what(name: str) -> str:
    return name if name == "recruitment.bids" else f"task {name!r}"


def _only_begun(folder: Path) -> bool:
    """Whether a run's directory was left, a minute ago or longer, before anything was in it."""
    begun = {path.name for path in folder.iterdir()} <= {"experiment.toml", "environment.json"}
    return begun and (time.time() - folder.stat().st_mtime > 60 or not any(folder.iterdir()))


def _stored_is(experiment: Experiment, path: Path) -> bool:
    """Whether a stored file describes this experiment (engines aside)."""
    experiment = experiment.resolved()
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
        ours = dump(experiment)
        if {**table, "engine": None} == {**ours, "engine": None}:
            return True
        stored = Experiment.from_toml(text)
        return dataclasses.replace(stored, engine=experiment.engine) == experiment
    except (OSError, ValueError, ConfigError):
        return False
