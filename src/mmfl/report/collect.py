"""Stored runs, put together as variants: runs of the same experiment that differ in their seed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmfl.errors import InputError, StoreError
from mmfl.experiment import differences, read_table
from mmfl.report.curves import Curves
from mmfl.report.remarks import Remark
from mmfl.report.statistics import Variant
from mmfl.runs import Overview, RunStore, find_runs, order_variants, place_of, read_overview

__all__ = ["Collection", "StoredRun", "collect"]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run that has at least one round.

    Attributes:
        folder: Its directory.
        seed: Its seed.
        settings: Its experiment, as its directory has it.
        overview: Its state, and the like.
        curves: What it did, round by round.
        facts: What else was read; see `collect`.
    """

    folder: Path
    seed: int
    settings: Mapping[str, Any]
    overview: Overview
    curves: Curves
    facts: Any = None

    @property
    def finished(self) -> bool:
        """Whether it has done all of its rounds."""
        return self.overview.state == "finished"


@dataclass(frozen=True, eq=False)
class Collection:
    """Runs by variant and seed, in the order in which they were named.

    Attributes:
        runs: The runs.
        left_out: The runs that are not among them, and why, as a clause.
    """

    runs: Mapping[str, Mapping[int, StoredRun]]
    left_out: Mapping[Path, str]

    @property
    def variants(self) -> list[Variant]:
        """As tables and figures take them."""
        return [
            Variant(name, {seed: run.curves for seed, run in by_seed.items()})
            for name, by_seed in self.runs.items()
        ]

    def finished(self) -> Collection:
        """Only the finished runs: the last metrics of others cannot be compared with theirs."""
        kept: dict[str, dict[int, StoredRun]] = {}
        left_out = dict(self.left_out)
        for name, by_seed in self.runs.items():
            for seed, run in by_seed.items():
                if run.finished:
                    kept.setdefault(name, {})[seed] = run
                else:
                    left_out[run.folder] = _describe_state(run.overview)
        return Collection(kept, left_out)

    def remarks(self) -> list[Remark]:
        """What is wrong with comparing these runs: left out, other data, other lengths."""
        found = [
            Remark("", f"{folder} is left out: {why}", serious=True)
            for folder, why in self.left_out.items()
        ]
        for name, by_seed in self.runs.items():
            for seed, run in by_seed.items():
                if not run.finished:
                    of = f"{run.curves.rounds} of {run.overview.planned} rounds are done"
                    said = f"the run with seed {seed} is {run.overview.state}: {of}"
                    found.append(Remark(name, said, serious=True))
        lengths = sorted({run.curves.rounds for by in self.runs.values() for run in by.values()})
        if len(lengths) > 1:
            said = f"the runs have from {lengths[0]} to {lengths[-1]} rounds"
            found.append(Remark("", f"{said}; the tables have the metrics after the last"))
        return [*found, *self._find_other_data()]

    def _find_other_data(self) -> Iterator[Remark]:
        """A remark on each variant one of whose tasks has another data set than in the first."""
        settings = {name: next(iter(by.values())).settings for name, by in self.runs.items()}
        first = next(iter(settings), "")
        for name, table in settings.items():
            for key in differences(settings[first], table):
                task = re.fullmatch(r"tasks\.(.+?)\.dataset(\..*)?", key)
                if task is not None:
                    said = f"task {task[1]!r} has another data set than in {first}"
                    yield Remark(name, said, serious=True)
                    break


@dataclass
class _Group:
    """Runs of one experiment that differ in their seed."""

    origin: tuple[str, ...]
    settings: Mapping[str, Any]
    names: Sequence[str]
    runs: dict[int, StoredRun] = field(default_factory=dict)


def collect(
    paths: Iterable[Path], also: Callable[[RunStore], Any] = lambda store: None
) -> Collection:
    """All runs in some folders, which may be runs, comparisons, or hold several of them.

    Runs of a comparison belong to their variant. Other runs belong together if their experiments
    differ in nothing but the seed. What cannot be read is left out; `StoreError` if nothing is
    left.

    Args:
        paths: The folders.
        also: What else to read of each run, from its opened directory.
    """
    left_out: dict[Path, str] = {}
    groups: list[_Group] = []
    for folder in _find(paths):
        run = _read(folder, left_out, also)
        if run is not None:
            _join(groups, run)
    if not groups:
        first = next(iter(left_out.items()), None)
        more = "" if first is None else f": {first[0]}: {first[1]}"
        raise StoreError(f"there is no run that can be used{more}")
    return Collection(_name(groups), left_out)


def _find(paths: Iterable[Path]) -> Iterator[Path]:
    """The run directories, each once."""
    seen = set()
    for path in paths:
        catalog = find_runs(path)
        if not catalog.runs:
            raise StoreError(f"there is no run in {str(path)!r}")
        for folder in catalog.runs:
            real = os.path.realpath(folder)
            if real not in seen:
                seen.add(real)
                yield folder


def _read(
    folder: Path, left_out: dict[Path, str], also: Callable[[RunStore], Any]
) -> StoredRun | None:
    """A run, checked against its hashes; else None, and why it is left out."""
    overview = read_overview(folder)
    if overview.state in ("damaged", "locked") or not overview.rounds:
        left_out[folder] = _describe_state(overview)
        return None
    try:
        settings = read_table(folder / "experiment.toml")
        seed = settings.get("seed", 0)
        if not isinstance(seed, int):
            raise StoreError("its seed is not a number")
        with closing(RunStore.open(folder)) as store:
            curves = Curves.of(store)
            return StoredRun(folder, seed, settings, overview, curves, also(store))
    except StoreError as error:
        said = str(error).removeprefix(f"the run in {str(folder)!r} is damaged: ")
        left_out[folder] = f"it is damaged: {said}"
        return None


def _describe_state(run: Overview) -> str:
    if run.state == "damaged":
        return f"it is damaged: {run.damage}"
    if run.state == "locked":
        return "another program has locked its database"
    if not run.rounds:
        return f"it is {run.state}, with no finished round"
    return f"it is {run.state} after round {run.rounds} of {run.planned}"


def _join(groups: list[_Group], run: StoredRun) -> None:
    """Put a run to those of its variant, or start a new group."""
    place = place_of(run.folder)
    origin = () if place is None else (os.path.realpath(place.folder), place.variant)
    settings = {key: value for key, value in run.settings.items() if key != "seed"}
    for group in groups:
        same = group.origin == origin and not differences(group.settings, settings)
        if same and run.seed not in group.runs:
            group.runs[run.seed] = run
            return
    if place is None:
        names = [run.folder.name, str(run.folder)]
    else:
        name = order_variants(place.folder, [place.variant])[place.variant]
        names = [name, f"{place.folder.name}/{name}", f"{place.folder}/{name}"]
    groups.append(_Group(origin, settings, names, {run.seed: run}))


def _name(groups: Sequence[_Group]) -> dict[str, dict[int, StoredRun]]:
    """The groups by name: the shortest that tells all of them apart."""
    groups = _order(groups)
    for length in range(3):
        names = [group.names[min(length, len(group.names) - 1)] for group in groups]
        if len(set(names)) == len(names):
            break
    else:
        names = [str(next(iter(group.runs.values())).folder) for group in groups]
    if len(set(names)) < len(names):
        raise InputError("two variants have the same name; rename a folder")
    return {
        name: dict(sorted(group.runs.items())) for name, group in zip(names, groups, strict=True)
    }


def _order(groups: Sequence[_Group]) -> list[_Group]:
    """The variants of a comparison in its own order, where its first one is."""
    found: dict[str, list[_Group]] = {}
    for number, group in enumerate(groups):
        found.setdefault(group.origin[0] if group.origin else f" {number}", []).append(group)
    ordered = []
    for origin, members in found.items():
        if not members[0].origin:
            ordered += members
            continue
        slugs = order_variants(Path(origin), [one.origin[1] for one in members])
        place = {slug: number for number, slug in enumerate(slugs)}
        ordered += sorted(members, key=lambda one: place[one.origin[1]])
    return ordered
