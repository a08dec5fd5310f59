"""Numbers about variants of an experiment, over seeds.

A *variant* is one way to do the experiment (an allocator, say), run once per seed. A *quantity* is
one number about a run. Seeds that have no such number (a target that was never reached, a task that
was never measured) are left out, and `Spread.n` and `Paired.seeds` tell how many were not.

Two variants are compared seed by seed: what a seed does to both of them (data, clients, initial
weights) cancels in the difference, so few seeds tell more than two separate means would.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from mmfl import fairness
from mmfl.errors import InputError
from mmfl.report.curves import Curves

__all__ = [
    "JAIN",
    "MEAN",
    "OVERALL",
    "VARIANCE",
    "WORST",
    "Paired",
    "Quantity",
    "Spread",
    "Summary",
    "Variant",
    "compare_variants",
    "confidence_interval",
    "of_task",
    "refuse_other_tasks",
    "rounds_to",
    "select_comparable",
    "spread",
    "summary",
    "variants",
]


@dataclass(frozen=True)
class Variant:
    """One way to do an experiment: a run for each seed, all with the same tasks."""

    name: str
    runs: Mapping[int, Curves]

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError(f"variant {self.name!r} has no runs")
        ordered = {seed: self.runs[seed] for seed in sorted(self.runs)}
        object.__setattr__(self, "runs", MappingProxyType(ordered))
        for seed, run in self.runs.items():
            if not run.has_same_metrics(self.curves):
                raise InputError(
                    f"the runs of variant {self.name!r} must have the same tasks and metrics: seed "
                    f"{seed} has {_name_tasks(run)}; seed {self.seeds[0]} has "
                    f"{_name_tasks(self.curves)}"
                )

    @property
    def seeds(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(self.runs)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return self.curves.tasks

    @property
    def curves(self) -> Curves:
        """The run of the first seed."""
        return next(iter(self.runs.values()))

    @property
    def better(self) -> tuple[str, ...]:
        """Per task, whether a "higher" or a "lower" metric is better."""
        return self.curves.better

    def values(self, quantity: Quantity) -> dict[int, float]:
        """The quantity by seed."""
        return {seed: quantity.of(run) for seed, run in self.runs.items()}


class Stored(Protocol):
    """A run that has a directory, as `mmfl.Run` does."""

    @property
    def folder(self) -> Path: ...


def variants(runs: Mapping[str, Mapping[int, Stored]]) -> list[Variant]:
    """What `mmfl.compare` returns (runs by variant and seed), as tables and figures take it."""
    return [
        Variant(name, {seed: Curves.load(run.folder) for seed, run in by_seed.items()})
        for name, by_seed in runs.items()
    ]


@dataclass(frozen=True)
class Quantity:
    """One number about a run.

    Attributes:
        label: What people call it.
        better: "higher" or "lower".
        of: Takes it from a run; NaN if the run has none.
        decimals: How many a person wants to see.
        counts_rounds: Whether it is a round, which may never come.
    """

    label: str
    better: str
    of: Callable[[Curves], float]
    decimals: int = 3
    counts_rounds: bool = False


def _variance(run: Curves) -> float:
    merits = run.merit[-1]
    return fairness.variance(merits) if np.isfinite(merits).all() else math.nan


WORST = Quantity("worst", "higher", lambda run: fairness.worst(run.merit[-1]))
MEAN = Quantity("mean", "higher", lambda run: float(run.merit[-1].mean()))
VARIANCE = Quantity("variance", "lower", _variance, decimals=4)
JAIN = Quantity("Jain", "higher", lambda run: fairness.jain(run.merit[-1]))
OVERALL = (WORST, MEAN, VARIANCE, JAIN)
"""What is said about all tasks together, from their merits after the last round."""


def of_task(run: Curves | Variant, name: str) -> Quantity:
    """One task's metric after the last round."""
    column = run.tasks.index(name)
    return Quantity(name, run.better[column], lambda run: float(run.metric[-1, column]))


def rounds_to(target: float) -> Quantity:
    """The first round after which the worst task's merit was measured and is at least `target`.

    With `evaluate.every` above 1 it may have been reached up to `Curves.step` - 1 rounds earlier.
    """

    def first(run: Curves) -> float:
        worst = run.worst
        return next((float(t) for t in run.measured if worst[t - 1] >= target), math.nan)

    return Quantity(f"rounds to {target:g}", "lower", first, decimals=1, counts_rounds=True)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n - 1 in the denominator) over the n seeds that have a value.

    Without any, the mean is NaN; with fewer than two, or an infinite one, the deviation is NaN.
    """

    mean: float
    sd: float
    n: int


def spread(values: Iterable[float]) -> Spread:
    """Exactly rounded, so that the order of the values does not matter."""
    known = [value for value in values if not math.isnan(value)]
    if not all(map(math.isfinite, known)):  # a model that diverged
        return Spread(sum(known) / len(known), math.nan, len(known))
    mean = statistics.mean(known) if known else math.nan
    sd = statistics.stdev(known) if len(known) > 1 else math.nan
    return Spread(mean, sd, len(known))


@dataclass(frozen=True)
class Summary:
    """A variant's results after the last round, over seeds.

    Attributes:
        variant: Its name.
        seeds: Ascending.
        tasks: Each task's metric.
        worst: The worst task's merit.
        mean: The mean merit.
        variance: The merits' population variance.
        jain: The merits' index of Jain.
        target: What the worst task was to reach, if that was asked.
        rounds_to_target: Over the seeds that reached it; `n` of them did.
    """

    variant: str
    seeds: tuple[int, ...]
    tasks: Mapping[str, Spread]
    worst: Spread
    mean: Spread
    variance: Spread
    jain: Spread
    target: float | None
    rounds_to_target: Spread | None


def summary(variant: Variant, target: float | None = None) -> Summary:
    """All results of a variant; with `target`, also how many rounds the worst task took to it."""

    def over_seeds(quantity: Quantity) -> Spread:
        return spread(variant.values(quantity).values())

    return Summary(
        variant=variant.name,
        seeds=variant.seeds,
        tasks={name: over_seeds(of_task(variant, name)) for name in variant.tasks},
        worst=over_seeds(WORST),
        mean=over_seeds(MEAN),
        variance=over_seeds(VARIANCE),
        jain=over_seeds(JAIN),
        target=target,
        rounds_to_target=None if target is None else over_seeds(rounds_to(target)),
    )


@dataclass(frozen=True)
class Paired:
    """A quantity of one variant minus that of another, seed by seed.

    Attributes:
        quantity: Which.
        seeds: The seeds in which both variants have it.
        differences: other - first, in the order of `seeds`.
        mean: Of the differences.
        interval: 95% confidence interval of their mean (Student's t); None for fewer than 2 seeds.
        first_better: In how many seeds `first` is better; neither is where they are equal.
        other_better: In how many seeds `other` is.
    """

    quantity: Quantity
    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    mean: float
    interval: tuple[float, float] | None
    first_better: int
    other_better: int


def compare_variants(first: Variant, other: Variant, quantity: Quantity) -> Paired:
    """How much higher a quantity is in `other` than in `first`, over their common seeds.

    Of `rounds_to`, beware: only seeds in which both reached the target can be compared, so a
    variant that never gets there in its bad seeds looks better than it is.
    """
    common = sorted(set(first.runs) & set(other.runs))
    if not common:
        raise InputError(
            f"variants {first.name!r} and {other.name!r} must have a seed in common to be "
            f"compared, got {_join(first.seeds)} and {_join(other.seeds)}"
        )
    of_first, of_other = first.values(quantity), other.values(quantity)
    by_seed = {seed: of_other[seed] - of_first[seed] for seed in common}
    by_seed = {seed: value for seed, value in by_seed.items() if not math.isnan(value)}
    differences = tuple(by_seed.values())
    found = spread(differences)
    higher, lower = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    higher_is_better = quantity.better == "higher"
    return Paired(
        quantity=quantity,
        seeds=tuple(by_seed),
        differences=differences,
        mean=found.mean,
        interval=confidence_interval(found),
        first_better=lower if higher_is_better else higher,
        other_better=higher if higher_is_better else lower,
    )


def refuse_other_tasks(variants: Sequence[Variant]) -> None:
    """Refuse variants with other tasks: they cannot be in one table."""
    if not variants:
        raise InputError("a comparison needs at least one variant, got none")
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        raise InputError(f"variants must have different names, got {_join(names)}")
    first = variants[0]
    for other in variants[1:]:
        if not other.curves.has_same_metrics(first.curves):
            raise InputError(
                f"variants must have the same tasks and metrics to be compared: {other.name!r} has "
                f"{_name_tasks(other.curves)}; {first.name!r} has {_name_tasks(first.curves)}"
            )


def select_comparable(variants: Sequence[Variant]) -> list[Variant]:
    """The first of these variants, and the others that have a seed in common with it."""
    first = set(variants[0].seeds)
    return [variant for variant in variants if first & set(variant.seeds)]


def confidence_interval(found: Spread) -> tuple[float, float] | None:
    """95% confidence interval of the mean: mean -+ t_{0.975, n-1} sd / sqrt(n); None if n < 2."""
    if math.isnan(found.sd):
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(found.n - 1, 0.975)) * found.sd / math.sqrt(found.n)
    return found.mean - half, found.mean + half


def _name_tasks(run: Curves) -> str:
    """The tasks, with the kinds of their metrics if they are known."""
    kinds = run.kinds or ("",) * len(run.tasks)
    found = []
    for name, kind, better in zip(run.tasks, kinds, run.better, strict=True):
        about = [*filter(None, [kind]), *(["lower is better"] if better == "lower" else [])]
        found.append(f"{name} ({', '.join(about)})" if about else name)
    return ", ".join(found)


def _join(things: Iterable[object]) -> str:
    return ", ".join(str(thing) for thing in things)
