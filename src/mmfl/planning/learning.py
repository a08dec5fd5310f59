"""How a task learns: its difficulty and metric as functions of the work, from finished runs.

A `History` is one task in one run. `Learning.of` puts the histories of a task together: it finds
the power beta of a round's clients with which they fall onto one curve, and fits that curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.planning.curves import Curve, work_done

__all__ = ["DEFAULT_BETA", "History", "Learning", "best_beta", "scatter"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DEFAULT_BETA = 0.25
"""Unless runs clearly say otherwise. Three embedded tasks fell onto one curve best with .25 or .3,
from runs with 3, 6 and 12 active clients (experiments/plan_error/results/plan_error.md)."""

_SLACK = 1e-6
"""The round loop adds up work in float32: amounts that differ by less than this are equal."""

_BETAS = np.linspace(0.0, 1.0, 21)
_APART, _COMMON, _CLEARLY = 1.5, 0.2, 0.8


@dataclass(frozen=True, eq=False)
class History:
    """One task in one run, round by round.

    Attributes:
        clients: (T) accepted updates n_t.
        difficulty: (T) f_s after each round; NaN where it is not known.
        metric: (T) on the test split; NaN where it was not measured after that round.
    """

    clients: Ints
    difficulty: Floats
    metric: Floats

    def points(self, beta: float) -> tuple[Floats, Floats]:
        """Work and difficulty after each round in which the task trained, and before the first."""
        work = work_done(self.clients, beta)
        new = (self.clients > 0) | (work == 0)
        return work[new], self.difficulty[new]

    @property
    def mean_clients(self) -> float:
        """Clients in a round in which the task trained, on average."""
        trained = self.clients[self.clients > 0]
        return float(trained.mean()) if trained.size else math.nan


def best_beta(histories: Sequence[History]) -> float | None:
    """The power of a round's clients with which these runs' curves fall onto each other best.

    None if runs cannot tell: a single run is a falling curve whatever beta is, and so are runs that
    had about the same number of clients in a round (the most less than half as many again as the
    least). Runs are compared where they have work in common; a beta that leaves them less than a
    fifth of their points there is left out. Seeds alone make runs differ, so another beta than
    `DEFAULT_BETA` must bring their points closer to one curve by a fifth (mean square).
    """
    mean_clients = [history.mean_clients for history in histories if history.mean_clients > 0]
    if len(mean_clients) < 2 or max(mean_clients) < _APART * min(mean_clients):
        return None
    errors = np.array([scatter(histories, beta) for beta in _BETAS.tolist()])
    if np.isnan(errors).all():
        return None
    usual = scatter(histories, DEFAULT_BETA)
    if np.nanmin(errors) > _CLEARLY * usual:
        return DEFAULT_BETA
    return float(_BETAS[int(np.nanargmin(errors))])


def scatter(histories: Sequence[History], beta: float) -> float:
    """Mean squared distance of the runs' points from one curve through all, where runs overlap.

    NaN if they hardly do.
    """
    points = [h.points(beta) for h in histories if h.mean_clients > 0]
    low, high = max(x[0] for x, _ in points), min(x[-1] for x, _ in points)
    x, y = (np.concatenate(part) for part in zip(*points, strict=True))
    common = (x >= low) & (x <= high) & np.isfinite(y)
    if common.sum() < max(_COMMON * len(x), 2):
        return math.nan
    curve = Curve.fit(x, y)
    return float(
        np.mean([(curve.at(u) - f) ** 2 for u, f in zip(x[common], y[common], strict=True)])
    )


@dataclass(frozen=True, eq=False)
class Learning:
    """What is known of a task from runs: a `mmfl.planning.surrogate.Predictor`.

    Attributes:
        beta: A round with n clients adds n^beta to the work.
        beta_known: Whether beta was given, or is what the runs tell; else it is `DEFAULT_BETA`.
        hardness: The difficulty f_s over work.
        shortfall: The metric over work, times -1 where higher is better: so it falls.
        records: By run, the best of it so far, which decides when a target is reached for the first
            time: some runs are luckier than others. Empty if no run measured the metric.
        better: Whether a "higher" or a "lower" metric is better.
    """

    beta: float
    beta_known: bool
    hardness: Curve
    shortfall: Curve | None
    records: tuple[Curve, ...]
    better: str

    @classmethod
    def of(
        cls,
        histories: Sequence[History],
        *,
        better: str = "higher",
        bounds: tuple[float, float] = (-math.inf, math.inf),
        beta: float | None = None,
    ) -> Learning:
        """Put the histories of a task together.

        Args:
            histories: At least one in which the task trained.
            better: Whether a "higher" or a "lower" metric is better.
            bounds: What a metric lies between.
            beta: In [0, 1]; by default what the histories tell, else `DEFAULT_BETA`.
        """
        known = [h for h in histories if h.mean_clients > 0 and np.isfinite(h.difficulty).any()]
        if not known:
            raise InputError("the task was never trained")
        fitted = beta if beta is not None else best_beta(known)
        beta = DEFAULT_BETA if fitted is None else fitted
        x, y = (np.concatenate(part) for part in zip(*(h.points(beta) for h in known), strict=True))
        sign, floor = (-1.0, -bounds[1]) if better == "higher" else (1.0, bounds[0])
        measured = [(work_done(h.clients, beta), sign * h.metric) for h in known]
        measured = [(u[np.isfinite(v)], v[np.isfinite(v)]) for u, v in measured]
        measured = [(u, v) for u, v in measured if v.size]
        shortfall = None
        if measured:
            u, v = (np.concatenate(part) for part in zip(*measured, strict=True))
            shortfall = Curve.fit(u, v, floor=floor)
        records = tuple(Curve.fit(u, np.minimum.accumulate(v), floor=floor) for u, v in measured)
        hardness = Curve.fit(x, y, floor=0.0)
        return cls(beta, fitted is not None, hardness, shortfall, records, better)

    def is_beyond(self, work: float) -> bool:
        """Whether no run has done as much work: what is said of it is extrapolated."""
        return work > self.hardness.end * (1 + _SLACK)

    def difficulty(self, work: float) -> float:
        """f_s after this work."""
        return max(0.0, self.hardness.at(work))

    def metric(self, work: float) -> float:
        """The metric after this work; NaN if no run measured it."""
        if self.shortfall is None:
            return math.nan
        return self.shortfall.at(work) * (-1.0 if self.better == "higher" else 1.0)

    def has_reached(self, target: float, work: float, *, like: int = 0) -> bool:
        """Whether the metric was as good as this target at least once, after this work.

        Args:
            target: The metric to reach.
            work: U.
            like: Which run it is like; runs take turns.
        """
        if not self.records:
            return False
        aim = -target if self.better == "higher" else target
        record = self.records[like % len(self.records)]
        return record.at(work * (1 + _SLACK)) <= aim + 1e-9 * max(1.0, abs(aim))
