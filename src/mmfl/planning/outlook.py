"""What a plan says: for each alpha and budget, what to expect of each task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.runs import no_nan

__all__ = ["Estimate", "Outlook", "Plan", "Reach", "Scenario", "Source"]

Source = Literal["runs", "difficulty", "equal"]


@dataclass(frozen=True)
class Estimate:
    """A mean over draws.

    Attributes:
        mean: The mean.
        error: Its standard error; NaN of a single draw.
    """

    mean: float
    error: float

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Estimate:
        """From one value for each draw."""
        x = np.asarray(values, dtype=np.float64)
        if not x.size:
            return cls(math.nan, math.nan)
        error = float(x.std(ddof=1)) / math.sqrt(x.size) if x.size > 1 else math.nan
        return cls(float(x.mean()), error)


@dataclass(frozen=True)
class Reach:
    """When a task reaches its target for the first time, over draws.

    Attributes:
        target: The metric to reach.
        median: Of the round; inf = not within the rounds that were planned.
        low: The round that a tenth of the draws do not exceed.
        high: The round that nine tenths do not exceed; inf = not within the rounds.
        reached: The share of draws that reach it within the rounds.
        extrapolated: The share of those that do so with more work than the runs tell of.
    """

    target: float
    median: float
    low: float
    high: float
    reached: float
    extrapolated: float

    @classmethod
    def of(cls, target: float, rounds: Sequence[float], beyond: Sequence[bool]) -> Reach:
        """From the round in each draw (inf = never), and whether the curve was extrapolated."""
        t = np.asarray(rounds, dtype=np.float64)
        there = np.isfinite(t)
        low, median, high = np.quantile(t, [0.1, 0.5, 0.9], method="inverted_cdf").tolist()
        far = np.asarray(beyond)[there]
        share = float(far.mean()) if far.size else 0.0
        return cls(target, median, low, high, float(there.mean()), share)


@dataclass(frozen=True)
class Outlook:
    """What is to be expected of one task.

    Attributes:
        clients: Clients in a round whose updates are accepted.
        share: The task's share of all turns.
        starved: The share of rounds in which it has no such client.
        take_up: Clients that the auction recruits for it, fractions included; None without one.
        spend: What is promised for it; None without an auction.
        nobody: The share of draws in which nobody is recruited who could train it; None without an
            auction.
        difficulty: f_s after the last round; None if it was given, or counts as that of the others.
        metric: After the last round; None without runs.
        extrapolated: The share of draws that end with more work than the runs tell of.
        reach: When it reaches its target; None if it has none, or without runs.
    """

    clients: Estimate
    share: Estimate
    starved: Estimate
    take_up: Estimate | None = None
    spend: Estimate | None = None
    nobody: Estimate | None = None
    difficulty: Estimate | None = None
    metric: Estimate | None = None
    extrapolated: float = 0.0
    reach: Reach | None = None


@dataclass(frozen=True)
class Scenario:
    """One alpha with one budget.

    Attributes:
        alpha: Of the allocator; None if it has none.
        budget: Of the auction; None if there is none.
        tasks: By task.
        active: Active clients in a round.
        spent: What is promised in all; None without an auction.
        nobody: The share of draws in which some task recruits nobody; None without an auction.
    """

    alpha: float | None
    budget: float | None
    tasks: dict[str, Outlook]
    active: Estimate
    spent: Estimate | None
    nobody: Estimate | None


@dataclass(frozen=True)
class Plan:
    """The predicted effect of alphas and budgets, before anything is spent.

    Attributes:
        scenarios: By budget, then by alpha.
        rounds: How many rounds there are.
        draws: How many times each was drawn.
        tasks: Names.
        source: Where difficulties come from: "runs", "difficulty" (they were given) or "equal".
        runs: The run directories.
        beta: By task, the power of a round's clients in the work that they do; {} without runs.
        notes: What a person should know besides the numbers, a sentence each.
    """

    scenarios: tuple[Scenario, ...]
    rounds: int
    draws: int
    tasks: tuple[str, ...]
    source: Source
    runs: tuple[Path, ...]
    beta: dict[str, float]
    notes: tuple[str, ...]

    @property
    def alphas(self) -> tuple[float | None, ...]:
        """In the order given."""
        return tuple(dict.fromkeys(scenario.alpha for scenario in self.scenarios))

    @property
    def budgets(self) -> tuple[float | None, ...]:
        """In the order given."""
        return tuple(dict.fromkeys(scenario.budget for scenario in self.scenarios))

    def at(self, alpha: float | None, budget: float | None) -> Scenario:
        """The scenario with this alpha and this budget."""
        return next(s for s in self.scenarios if (s.alpha, s.budget) == (alpha, budget))

    def data(self) -> dict[str, Any]:
        """As JSON has it: what is not known, or is never, is None; an infinite alpha is "inf"."""
        table = asdict(self)
        table["runs"] = [str(folder) for folder in self.runs]
        for scenario in table["scenarios"]:
            if scenario["alpha"] == math.inf:
                scenario["alpha"] = "inf"
        plain: dict[str, Any] = no_nan(table)
        return plain
