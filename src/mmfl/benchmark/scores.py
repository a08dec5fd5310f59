"""How good rules are over all settings, with what is known about it: a bootstrap.

A draw chooses as many settings as there are, with replacement, and for each of them as many seeds,
with replacement; all rules get the same seeds. So an interval tells what other settings of this
kind, and other seeds, would say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.fairness import Price
from mmfl.report import Variant
from mmfl.reproduce import find_quantity
from mmfl.rng import stream

__all__ = ["QUANTITIES", "Estimate", "RuleScore", "find_common", "score_rules"]

Floats = npt.NDArray[np.float64]
Runs = Mapping[str, Mapping[str, Variant]]
"""By setting and rule."""

QUANTITIES = {
    "worst": "worst",
    "mean": "mean",
    "variance": "variance",
    "area": "worst over rounds",
}
"""From the title of a column to what it shows; "area" is that under the worst task's curve."""

RANKED = ("worst", "mean")
DRAWS = 4000


class Estimate(NamedTuple):
    """A number and its 95% interval, which is NaN if there is nothing to draw from."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class RuleScore:
    """A rule over all settings that all rules have been run in.

    Attributes:
        rule: Its name.
        means: By title of `QUANTITIES`, the mean over settings.
        ranks: By title ("worst", "mean"), the mean rank over settings; 1 is the best.
        gains: By title, the mean gain over the baseline; empty without its runs.
    """

    rule: str
    means: Mapping[str, Estimate]
    ranks: Mapping[str, Estimate]
    gains: Mapping[str, Estimate]

    @property
    def price(self) -> float:
        """Mean lost for a unit that the worst task gains; NaN where it gains nothing."""
        if not self.gains:
            return math.nan
        return Price(-self.gains["mean"].value, self.gains["worst"].value).rate


def find_common(runs: Runs, rules: Sequence[str]) -> dict[str, list[int]]:
    """From each setting that all rules have a common seed in to these seeds."""
    found = {}
    for setting, by_rule in runs.items():
        if all(rule in by_rule for rule in rules):
            seeds = set.intersection(*(set(by_rule[rule].seeds) for rule in rules))
            if seeds:
                found[setting] = sorted(seeds)
    return found


def score_rules(runs: Runs, rules: Sequence[str], baseline: str) -> list[RuleScore]:
    """The rules in the order given; nothing if there is no setting that all of them have."""
    common = find_common(runs, rules)
    if not common:
        return []
    tables = {title: _tabulate(runs, rules, common, what) for title, what in QUANTITIES.items()}
    draws = _Draws([len(seeds) for seeds in common.values()])
    means = {title: draws.estimate(table, lambda x: x) for title, table in tables.items()}
    ranks = {title: draws.estimate(tables[title], _rank) for title in RANKED}
    gains = {}
    if baseline in rules:
        base = list(rules).index(baseline)
        gains = {
            title: draws.estimate(tables[title], lambda x: x - x[:, [base]]) for title in RANKED
        }
    return [
        RuleScore(rule, *({t: every[t][n] for t in every} for every in (means, ranks, gains)))
        for n, rule in enumerate(rules)
    ]


def _tabulate(
    runs: Runs, rules: Sequence[str], common: Mapping[str, Sequence[int]], what: str
) -> list[Floats]:
    """For each setting a quantity, a row per rule, a column per seed."""
    quantity = find_quantity(what)
    found = []
    for setting, seeds in common.items():
        values = {rule: runs[setting][rule].values(quantity) for rule in rules}
        found.append(np.array([[values[rule][seed] for seed in seeds] for rule in rules]))
    return found


def _rank(values: Floats) -> Floats:
    """(n, R) the ranks of each row's values; the highest has rank 1, equal ones share theirs."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-values, axis=1))


class _Draws:
    """The draws of settings and seeds: the same for all quantities."""

    def __init__(self, seeds: Sequence[int]) -> None:
        """How many seeds each setting has."""
        rng = stream(0, "benchmark", "bootstrap")
        self._settings = rng.integers(len(seeds), size=(DRAWS, len(seeds)))
        self._seeds = [
            {s: rng.integers(count, size=(int((place == s).sum()), count))
             for s, count in enumerate(seeds)}
            for place in self._settings.T
        ]  # fmt: skip
        self._some = len(seeds) > 1 or max(seeds) > 1

    def estimate(
        self, tables: Sequence[Floats], change: Callable[[Floats], Floats]
    ) -> list[Estimate]:
        """For each rule the mean over settings of what a function makes of the means over seeds."""
        value = np.mean([change(table.mean(axis=1)[None])[0] for table in tables], axis=0)
        if not self._some:
            return [Estimate(float(v), math.nan, math.nan) for v in value]
        drawn = np.zeros((DRAWS, len(value)))
        for place, seeds in zip(self._settings.T, self._seeds, strict=True):
            for s, table in enumerate(tables):
                means = table[:, seeds[s]].mean(axis=2).T  # a row per draw, a column per rule
                drawn[place == s] += change(means)
        low, high = np.quantile(drawn / len(tables), [0.025, 0.975], axis=0)
        return [Estimate(*map(float, one)) for one in zip(value, low, high, strict=True)]
