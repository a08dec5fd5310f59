"""Studies: what the paper did, as data. `experiments/paper/*.toml` has one per experiment.

A *study* compares *variants* (rules, auctions) in several *settings* (federations). A *scale* says
how large it all is, so that the same study runs in seconds, in minutes, or with the paper's
constants. A study, a setting and a scale together make experiments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from mmfl.config import (
    Count,
    Flag,
    Positive,
    Text,
    component,
    parse,
    read_text_file,
    read_toml,
    short,
)
from mmfl.errors import ConfigError, did_you_mean
from mmfl.experiment import Experiment
from mmfl.reproduce.auctions import AuctionStudy
from mmfl.reproduce.claims import CLAIMS, Claim
from mmfl.reproduce.names import check_study_names
from mmfl.reproduce.panels import PANELS, Panel
from mmfl.system.files import is_file

__all__ = [
    "Scale",
    "Study",
    "StudySetting",
    "find_studies",
    "load_scales",
    "load_study",
    "merge",
]

T = TypeVar("T")
Table = dict[str, Any]


@component
class Scale:
    """How large a study is.

    Attributes:
        about: What was changed, in a sentence or two.
        rounds: T; the paper's is 120.
        points: Factor of the examples per client.
        seeds: How many seeds are run by default, from 0.
        experiment: Keys of an experiment that all studies share.
        tasks: By data set: `dataset`, `model` and other keys of a task.
        published: The same, for settings with the authors' own networks; what is not here is as in
            `tasks`.
        targets: By data set, the accuracy to reach in studies that are `timed`.
    """

    about: Text
    rounds: Count
    points: Positive
    seeds: Count
    experiment: Table
    tasks: dict[str, Table]
    published: dict[str, Table] = dataclasses.field(default_factory=dict)
    targets: dict[str, Positive] = dataclasses.field(default_factory=dict)


@component
class StudySetting:
    """One federation.

    Attributes:
        tasks: Names of tasks. A name is that of a data set; what follows a "-" tells copies apart.
        networks: "clean", or "published" for the authors' own.
        points: Examples per client at the paper's scale; by default the study's.
        experiment: Keys of an experiment, besides the study's.
        variants: Names of the variants to run; by default all.
    """

    tasks: Annotated[tuple[Text, ...], Field(min_length=1)]
    networks: Literal["clean", "published"] = "clean"
    points: tuple[Count, Count] | None = None
    experiment: Table = dataclasses.field(default_factory=dict)
    variants: tuple[Text, ...] | None = None


@component
class Study:
    """One experiment of the paper.

    Attributes:
        title: What it asks.
        paper: Where it is in the paper.
        points: Examples per client and task, lowest and highest, at the paper's scale.
        experiment: Keys of an experiment that all settings share.
        partition: Of every task; points are added.
        settings: By name.
        variants: By name: keys of an experiment; the first is the rule that the paper proposes.
        claims: What the paper says.
        panels: What its figure shows.
        columns: How many panels are in a row.
        maps: Whether to store who trained what, for maps.
        timed: Whether tasks have the scale's targets, so that the time to them can be measured.
        runs: The study whose runs are used, if its settings of the same names are the same; by
            default the study has its own.
    """

    title: Text
    paper: Text
    points: tuple[Count, Count]
    settings: Annotated[dict[Text, StudySetting], Field(min_length=1)]
    variants: Annotated[dict[Text, Table], Field(min_length=1)]
    experiment: Table = dataclasses.field(default_factory=dict)
    partition: Table = dataclasses.field(default_factory=lambda: {"kind": "iid", "overlap": True})
    claims: tuple[Annotated[Claim, CLAIMS], ...] = ()
    panels: tuple[Annotated[Panel, PANELS], ...] = ()
    columns: Annotated[Count, Field(le=6)] = 3
    maps: Flag = False
    timed: Flag = False
    runs: Text | None = None

    def __post_init__(self) -> None:
        for name, setting in self.settings.items():
            for variant in setting.variants or ():
                if variant not in self.variants:
                    hint = did_you_mean(variant, self.variants)
                    raise ValueError(f"setting {name!r} has no variant {variant!r}; {hint}")

    def experiments(self, setting: str, scale: Scale) -> dict[str, Experiment]:
        """The experiments of a setting, by variant; their seed is 0."""
        here = self.settings[setting]
        names = here.variants or tuple(self.variants)
        base = merge(scale.experiment, self.experiment, here.experiment)
        base |= {"rounds": scale.rounds, "tasks": self._tasks(here, scale)}
        return {name: Experiment.from_dict(merge(base, self.variants[name])) for name in names}

    def _tasks(self, setting: StudySetting, scale: Scale) -> list[Table]:
        """What `[[tasks]]` says."""
        low, high = (max(1, round(n * scale.points)) for n in setting.points or self.points)
        partition = self.partition | {"points": [low, high]}
        library = scale.tasks | (scale.published if setting.networks == "published" else {})
        tasks = []
        for name in setting.tasks:
            data = name.partition("-")[0]
            if data not in library:
                raise ConfigError(f"the scale has no task {data!r}; {did_you_mean(data, library)}")
            target = {"target": scale.targets[data]} if self.timed and data in scale.targets else {}
            tasks.append({"name": name, "partition": partition, **target, **library[data]})
        return tasks


def merge(*tables: Mapping[str, Any]) -> Table:
    """One table of several; later ones win, key by key. Another `kind` replaces a whole table."""
    merged: Table = {}
    for table in tables:
        for key, value in table.items():
            old = merged.get(key)
            if isinstance(old, Mapping) and isinstance(value, Mapping) and _same_kind(old, value):
                merged[key] = merge(old, value)
            else:
                merged[key] = value
    return merged


def _same_kind(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return "kind" not in new or new["kind"] == old.get("kind", new["kind"])


def find_studies(folder: Path) -> list[str]:
    """The names of the studies in a folder, sorted; `ConfigError` if there is no such folder."""
    if not is_file(folder / "scales.toml"):
        raise ConfigError(f"{str(folder)!r} is not a folder of studies: it has no scales.toml")
    return sorted(path.stem for path in folder.glob("*.toml") if path.stem != "scales")


def load_study(folder: Path, name: str) -> Study | AuctionStudy:
    """The study of this name; one with `budgets` is about auctions alone."""
    known = find_studies(folder)
    if name not in known:
        raise ConfigError(f"there is no study {name!r}; {did_you_mean(name, known)}")
    path = folder / f"{name}.toml"
    table = _read(path)
    study: Study | AuctionStudy
    if "budgets" in table:
        study = _parse(AuctionStudy, table, str(path))
    else:
        study = _parse(Study, table, str(path))
        if study.runs is not None and study.runs not in known:
            hint = did_you_mean(study.runs, known)
            raise ConfigError(f"{path}: runs: there is no study {study.runs!r}; {hint}")
    try:
        check_study_names(study)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return study


def load_scales(folder: Path) -> dict[str, Scale]:
    """All scales, by name."""
    path = folder / "scales.toml"
    tables = _read(path)
    return {name: _parse(Scale, table, f"{path}: {name}") for name, table in tables.items()}


def _read(path: Path) -> Table:
    text = read_text_file(path)
    try:
        return read_toml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parse(cls: type[T], table: Any, where: str) -> T:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table, got {short(table)}")
    try:
        return parse(cls, table)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
