"""What the paper says, as data that a machine can check. `CLAIMS` is the family's table.

A claim becomes one number per seed, so that it has a mean, a confidence interval and a verdict:
the claim *holds* if the interval is on its side of zero, it *fails* if the interval is on the other
side, and otherwise it is *not decided*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from mmfl.config import Family, NonNegative, Text, component
from mmfl.report import Quantity, Spread, Variant, confidence_interval, spread
from mmfl.reproduce.quantities import find_quantity
from mmfl.reproduce.times import count_censored, find_time

__all__ = ["CLAIMS", "Claim", "Gain", "Hardest", "Outcome", "Trend", "Value", "Verdict"]

Runs = Mapping[str, Mapping[str, Variant]]
"""By setting and variant."""

Verdict = Literal["holds", "fails", "not decided", ""]


@dataclass(frozen=True)
class Outcome:
    """The result of checking a claim.

    Attributes:
        spread: Mean, standard deviation and number of the seeds' values.
        interval: 95% confidence interval of the mean; None for fewer than 2 seeds.
        verdict: On the paper's claim; "" if there is only a number to report.
        detail: What is needed to understand the number, such as the name of the best baseline.
        decimals: How many to show.
        signed: Whether it is a difference.
    """

    spread: Spread
    interval: tuple[float, float] | None
    verdict: Verdict
    detail: str = ""
    decimals: int = 3
    signed: bool = True

    def tolerance(self, seeds: int) -> float:
        """How far the mean over other seeds may be from this one: three standard errors."""
        if math.isnan(self.spread.sd) or not seeds:
            return math.inf
        error = self.spread.sd * math.sqrt(1 / self.spread.n + 1 / seeds)
        return max(3 * error, 0.5 * 10.0**-self.decimals)


class Claim(Protocol):
    """A sentence of the paper that can be checked on runs."""

    @property
    def says(self) -> str:
        """The claim, in a sentence."""
        ...

    @property
    def paper(self) -> float | str | None:
        """The paper's own number."""
        ...

    def check(self, runs: Runs) -> Outcome | None:
        """What the runs say; None if some of them are missing."""
        ...


@component
class Gain:
    """A variant is better than the best of several others, seed by seed.

    Attributes:
        says: The claim.
        setting: In which setting.
        of: The variant.
        over: The others. The one with the best mean over the seeds counts.
        quantity: See `mmfl.reproduce.quantities`.
        margin: How much worse it may be for the claim to hold; for claims such as "comparable".
        paper: The paper's difference.
    """

    says: Text
    setting: Text
    of: Text
    over: Annotated[tuple[Text, ...], Field(min_length=1)]
    quantity: Text = "worst"
    margin: NonNegative = 0.0
    paper: float | None = None

    def check(self, runs: Runs) -> Outcome | None:
        """`of` minus the best other."""
        found = _find(runs, self.setting, (self.of, *self.over))
        if found is None:
            return None
        ours, *others = found
        quantity = find_quantity(self.quantity)
        sign = 1 if quantity.better == "higher" else -1
        seeds = set(ours.seeds).intersection(*(other.seeds for other in others))
        if not seeds:
            return None
        means = [_mean(other, quantity, seeds) for other in others]
        best = others[int(np.argmax(np.nan_to_num(np.multiply(sign, means), nan=-np.inf)))]
        mine, theirs = ours.values(quantity), best.values(quantity)
        differences = [mine[seed] - theirs[seed] for seed in sorted(seeds)]
        if np.isnan(differences).all():  # such as the time to a target that no task has
            return None
        good = [sign * difference + self.margin for difference in differences]
        detail = f"against {best.name}{_name_censored(self.quantity, (ours, best))}"
        return _outcome(differences, quantity, good, detail)


@component
class Hardest:
    """A task is the worst one.

    Attributes:
        says: The claim.
        setting: In which setting.
        of: Under which variant.
        task: Which task.
        paper: How the paper puts it.
    """

    says: Text
    setting: Text
    of: Text
    task: Text
    paper: str | None = None

    def check(self, runs: Runs) -> Outcome | None:
        """The next worst task's final metric minus that of the task."""
        found = _find(runs, self.setting, (self.of,))
        if found is None:
            return None
        (variant,) = found
        named = find_quantity(f"task {self.task}")
        others = {
            task: find_quantity(f"task {task}") for task in variant.tasks if task != self.task
        }
        values = [
            min(other.of(run) for other in others.values()) - named.of(run)
            for run in variant.runs.values()
        ]
        means = {
            task: spread(variant.values(other).values()).mean for task, other in others.items()
        }
        worst = min(means, key=lambda task: means[task])
        mean = spread(variant.values(named).values()).mean
        detail = f"{self.task} {mean:.3f}, worst of the others {worst} {means[worst]:.3f}"
        return _outcome(values, named, values, detail)


@component
class Trend:
    """A quantity rises (or falls) from one variant to the next, or from setting to setting.

    Attributes:
        says: The claim.
        settings: In which setting, or in which order of settings.
        variants: In which order of variants, or of which one.
        quantity: See `mmfl.reproduce.quantities`.
        direction: "up" or "down".
        paper: How the paper puts it.
    """

    says: Text
    settings: Annotated[tuple[Text, ...], Field(min_length=1)]
    variants: Annotated[tuple[Text, ...], Field(min_length=1)]
    quantity: Text
    direction: Literal["up", "down"] = "up"
    paper: str | None = None

    def check(self, runs: Runs) -> Outcome | None:
        """The slope of the quantity, per step."""
        found = [_find(runs, setting, self.variants) for setting in self.settings]
        if None in found:
            return None
        steps = [variant for row in found if row for variant in row]
        seeds = sorted(set(steps[0].seeds).intersection(*(step.seeds for step in steps)))
        if not seeds or len(steps) < 2:
            return None
        quantity = find_quantity(self.quantity)
        table = np.array([[step.values(quantity)[seed] for step in steps] for seed in seeds])
        places = np.arange(len(steps)) - (len(steps) - 1) / 2
        slopes = (table @ places / (places @ places)).tolist()
        sign = 1 if self.direction == "up" else -1
        means = ", ".join(f"{mean:.{quantity.decimals}f}" for mean in table.mean(axis=0))
        return _outcome(slopes, quantity, [sign * slope for slope in slopes], f"means {means}")


@component
class Value:
    """A number that the paper reports. There is no verdict: settings differ.

    Attributes:
        says: What it is.
        setting: In which setting.
        of: Of which variant.
        quantity: See `mmfl.reproduce.quantities`.
        paper: The paper's number.
    """

    says: Text
    setting: Text
    of: Text
    quantity: Text = "worst"
    paper: float | None = None

    def check(self, runs: Runs) -> Outcome | None:
        """The quantity."""
        found = _find(runs, self.setting, (self.of,))
        if found is None:
            return None
        quantity = find_quantity(self.quantity)
        values = spread(found[0].values(quantity).values())
        interval = confidence_interval(values)
        return Outcome(values, interval, "", decimals=quantity.decimals, signed=False)


CLAIMS = Family(
    name="claim",
    table={"gain": Gain, "hardest": Hardest, "trend": Trend, "value": Value},
    needs=("check",),
)


def _find(runs: Runs, setting: str, variants: Sequence[str]) -> list[Variant] | None:
    """These variants, or None if one of them has no runs."""
    here = runs.get(setting, {})
    return [here[name] for name in variants] if all(name in here for name in variants) else None


def _name_censored(quantity: str, variants: Sequence[Variant]) -> str:
    """Which variants have runs that never get there, if the quantity is a time."""
    time = find_time(quantity)
    if time is None:
        return ""
    counts = {one.name: count_censored(time, one.runs.values()) for one in variants}
    return "".join(
        f"; {name} does not reach it in {count} of {len(one.runs)} runs"
        for one, (name, count) in zip(variants, counts.items(), strict=True)
        if count
    )


def _mean(variant: Variant, quantity: Quantity, seeds: set[int]) -> float:
    values = variant.values(quantity)
    return spread(values[seed] for seed in seeds).mean


def _outcome(
    values: Sequence[float], quantity: Quantity, good: Sequence[float], detail: str
) -> Outcome:
    """The outcome of seeds' values; `good` are they, signed so that > 0 is as claimed."""
    ends = confidence_interval(spread(good))
    verdict: Verdict = "not decided"
    if ends is not None and ends[0] > 0:
        verdict = "holds"
    elif ends is not None and ends[1] < 0:
        verdict = "fails"
    found = spread(values)
    return Outcome(found, confidence_interval(found), verdict, detail, quantity.decimals)
