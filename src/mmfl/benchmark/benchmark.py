"""Some rules in some settings over some seeds: what is to be run, what came out, what is expected.

OUT/<scale>/<setting>/<rule>/seed-<n>/           run directories
SUITE/results/<scale>/<setting>.json             curves of the runs that were made here
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from mmfl.benchmark.suite import Suite
from mmfl.comparison import Comparison, refuse_other_seeds, slugify
from mmfl.errors import DataError
from mmfl.experiment import DataCache, Experiment
from mmfl.report import Variant
from mmfl.reproduce import (
    Archive,
    ArchivedRun,
    Finding,
    Outcome,
    Value,
    find_finished,
    group_by_seeds,
)

__all__ = ["CHECKED", "Benchmark"]

CHECKED = ("worst", "mean")
"""The quantities that are compared with what is stored."""


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A part of a suite at a scale.

    Attributes:
        suite: Settings and rules.
        scale: The name of the scale.
        rules: The names of the rules.
        settings: The names of the settings.
        seeds: The seeds; runs and results of others are not looked at.
        out: The folder for all runs.
        data_dir: Folder of npz files.
    """

    suite: Suite
    scale: str
    rules: tuple[str, ...]
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    out: Path
    data_dir: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the runs of this scale are."""
        return self.out / slugify(self.scale)

    @cached_property
    def _experiments(self) -> dict[str, dict[str, Experiment]]:
        """By setting and rule."""
        return {
            setting: self.suite.experiments(setting, self.rules, self.scale)
            for setting in self.settings
        }

    def drop_without_data(self) -> tuple[Benchmark, list[str]]:
        """The benchmark without the settings whose data sets are missing, and these settings."""
        missing = []
        for setting in self.settings:
            if setting in self.suite.full_data:
                try:
                    DataCache(self.data_dir).arrays(next(iter(self._experiments[setting].values())))
                except DataError:
                    missing.append(setting)
        kept = tuple(setting for setting in self.settings if setting not in missing)
        return dataclasses.replace(self, settings=kept), missing

    def check(self) -> None:
        """Make all experiments, so that a mistake is found before anything runs."""
        assert self._experiments is not None

    def comparisons(self, *, missing: bool = False) -> Iterator[tuple[str, Comparison]]:
        """The comparisons of each setting, by its name; finished runs are kept.

        Args:
            missing: Whether to leave out runs whose curves are stored with the suite.
        """
        stored = self.load_results().runs if missing else {}
        for setting, experiments in self._experiments.items():
            folder = self.folder / slugify(setting)
            known = stored.get(setting, {})
            for names, seeds in group_by_seeds(experiments, self.seeds, known):
                chosen = {name: experiments[name] for name in names}
                yield setting, Comparison(chosen, seeds, folder, data_dir=self.data_dir)

    def collect(self) -> Archive:
        """Your finished runs. Runs of another experiment are refused."""
        found = Archive("benchmark", self.scale)
        for setting, experiments in self._experiments.items():
            for rule, experiment in experiments.items():
                folder = self.folder / slugify(setting) / slugify(rule)
                refuse_other_seeds(folder, experiment, ())
                for seed, path in find_finished(folder):
                    if seed in self.seeds:
                        found.add(setting, rule, seed, ArchivedRun.of(path))
        return found

    def load_results(self, *, every_seed: bool = False) -> Archive:
        """What is stored with the suite of these rules, settings and seeds.

        Args:
            every_seed: Whether to take all seeds of a rule that has none of these.
        """
        found = Archive("benchmark", self.scale)
        for setting in self.settings:
            stored = self._load_stored(setting).runs.get(setting, {})
            for rule, runs in stored.items():
                if rule in self.rules:
                    wanted = [seed for seed in runs if seed in self.seeds]
                    for seed in wanted or (runs if every_seed else ()):
                        found.add(setting, rule, seed, runs[seed])
        return found

    def store(self, runs: Archive) -> None:
        """Add runs to the stored results; those of a user's own rules are left out."""
        for setting, rules in runs.runs.items():
            stored = self._load_stored(setting)
            for rule, by_seed in rules.items():
                for seed, run in by_seed.items():
                    if rule not in self.suite.own:
                        stored.add(setting, rule, seed, run)
            if stored.runs:
                stored.save(self._results(setting))

    def compare(self, yours: Archive) -> list[Finding]:
        """Whether your numbers are what is stored.

        The deviation over seeds is that of all rules in the setting together: so few seeds say
        little about the deviation of one rule.
        """
        stored, mine = self.load_results(every_seed=True).variants(), yours.variants()
        found = []
        for setting, by_rule in mine.items():
            expected = stored.get(setting, {})
            for quantity in CHECKED:
                claims = {
                    rule: Value(f"{setting}, {rule}: {quantity}", setting, rule, quantity)
                    for rule in by_rule
                    if rule in expected
                }
                outcomes = {rule: _check(claim, stored) for rule, claim in claims.items()}
                pooled = _pool([outcome.spread.sd for outcome in outcomes.values()])
                for rule, claim in claims.items():
                    one = outcomes[rule]
                    wide = dataclasses.replace(one.spread, sd=pooled)
                    known = dataclasses.replace(one, spread=wide)
                    found.append(Finding(claim, known, claim.check(mine)))
        return found

    def _load_stored(self, setting: str) -> Archive:
        path = self._results(setting)
        return Archive.load(path, "benchmark", self.scale) or Archive("benchmark", self.scale)

    def _results(self, setting: str) -> Path:
        return self.suite.folder / "results" / slugify(self.scale) / f"{setting}.json"


def _check(claim: Value, runs: dict[str, dict[str, Variant]]) -> Outcome:
    outcome = claim.check(runs)
    assert outcome is not None  # there are runs
    return outcome


def _pool(deviations: Sequence[float]) -> float:
    """The deviation of several groups together; NaN if a group has none."""
    return math.sqrt(statistics.fmean(sd * sd for sd in deviations)) if deviations else math.nan
