"""The suite as data: `experiments/benchmark`.

suite.toml            rules, and scales
settings/<name>.toml  an experiment without an allocator: what makes allocation hard
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mmfl.comparison import read_vary
from mmfl.config import Text, apply_set, component, parse, read_text_file, read_toml, short
from mmfl.errors import ConfigError, InputError, MmflError, did_you_mean
from mmfl.experiment import Experiment
from mmfl.reproduce import merge
from mmfl.system.files import is_file
from mmfl.system.user_code import add_prefix

__all__ = ["Suite", "find_suite", "load_suite"]

Table = dict[str, Any]


@component
class _SuiteFile:
    """What suite.toml holds.

    Attributes:
        baseline: The rule that prices of fairness refer to.
        rules: By name: keys of an experiment.
        scales: By name: keys of an experiment that replace those of every setting.
        full_data: Settings that need data sets that do not come with mmfl.
    """

    baseline: Text
    rules: Annotated[dict[Text, Table], Field(min_length=1)]
    scales: Annotated[dict[Text, Table], Field(min_length=1)]
    full_data: tuple[Text, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Settings and rules.

    Attributes:
        folder: Where it is.
        baseline: The rule that prices of fairness refer to.
        rules: By name: keys of an experiment.
        settings: By name: the tables of an experiment.
        scales: By name: keys of an experiment that replace those of every setting.
        full_data: Settings that need data sets that do not come with mmfl.
        own: Rules that a user added; only these may import code.
    """

    folder: Path
    baseline: str
    rules: Mapping[str, Table]
    settings: Mapping[str, Table]
    scales: Mapping[str, Table]
    full_data: tuple[str, ...] = ()
    own: frozenset[str] = field(default_factory=frozenset)

    def add_rule(self, text: str) -> tuple[Suite, str]:
        """The suite with one more rule, and its name.

        Args:
            text: As `mmfl compare --vary allocator=` takes it: "module:Name", a kind, or a table.
        """
        ((name, sets),) = _read_rule(text).items()
        table: Table = {}
        for assignment in sets:
            apply_set(table, assignment)
        if self.rules.get(name, table) != table:
            raise InputError(f"rule: the suite has another rule {name!r} than {text}")
        rules = {**self.rules, name: table}
        known = (self.folder, self.baseline, rules, self.settings, self.scales, self.full_data)
        return Suite(*known, own=self.own | {name}), name

    def select(self, what: str, names: str | None) -> tuple[str, ...]:
        """These "rules" or "settings", from a list with commas; by default all."""
        known: Mapping[str, Table] = {"rules": self.rules, "settings": self.settings}[what]
        chosen = list(known) if names is None else [name.strip() for name in names.split(",")]
        for name in chosen:
            if name not in known:
                raise InputError(
                    f"{what}: there is no {what[:-1]} {name!r}; {did_you_mean(name, known)}"
                )
        return tuple(dict.fromkeys(chosen))

    def experiments(self, setting: str, rules: Iterable[str], scale: str) -> dict[str, Experiment]:
        """The experiments of a setting, by rule; their seed is 0."""
        if scale not in self.scales:
            raise InputError(f"scale: there is no {scale!r}; {did_you_mean(scale, self.scales)}")
        base = merge(self.settings[setting], self.scales[scale])
        found = {}
        for name in rules:
            own = name in self.own
            try:
                found[name] = Experiment.from_dict(merge(base, self.rules[name]), allow_imports=own)
            except ConfigError as error:
                raise add_prefix(error, f"{setting}, {name}: ") from error.__cause__
        return found


def _read_rule(text: str) -> dict[str, tuple[str, ...]]:
    try:
        found = read_vary([f"allocator={text}"])
    except ConfigError:
        found = {}
    if len(found) != 1:
        raise InputError(
            "rule takes module:Name, or a table such as {kind='fed_fair',alpha=5}, got "
            f"{short(text)}"
        )
    return found


def find_suite() -> Path:
    """The folder of the suite: in this clone, or in the installed package."""
    here = Path(__file__).resolve()
    for folder in (here.parents[3] / "experiments" / "benchmark", here.parent / "suite"):
        if is_file(folder / "suite.toml"):
            return folder
    raise InputError("the benchmark's settings are not installed; name their folder")


def load_suite(folder: Path) -> Suite:
    """Read all files of a suite."""
    path = folder / "suite.toml"
    if not is_file(path):
        raise ConfigError(f"{str(folder)!r} is not a folder of a benchmark: it has no suite.toml")
    try:
        made = parse(_SuiteFile, _read(path))
    except MmflError as error:
        raise add_prefix(error, f"{path}: ") from error.__cause__
    files = sorted((folder / "settings").glob("*.toml"))
    if not files:
        raise ConfigError(f"{str(folder)!r} has no settings: put experiments into settings/*.toml")
    settings = {file.stem: _read(file) for file in files}
    for file in files:
        if "allocator" in settings[file.stem]:
            raise ConfigError(f"{file}: a setting has no allocator: the rules of suite.toml are it")
    for key, names in (("full_data", made.full_data), ("baseline", (made.baseline,))):
        known = settings if key == "full_data" else made.rules
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{path}: {key}: {short(name)} is unknown; {did_you_mean(name, known)}"
                )
    return Suite(folder, made.baseline, made.rules, settings, made.scales, made.full_data)


def _read(path: Path) -> Table:
    try:
        return read_toml(read_text_file(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
