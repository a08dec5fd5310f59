"""How much a turn still buys each task: learning curves, fitted as in Optimus and SLAQ.

Y. Peng, Y. Bao, Y. Chen, C. Wu, C. Guo: "Optimus: An Efficient Dynamic Resource Scheduler for Deep
Learning Clusters", EuroSys 2018; H. Zhang, L. Stafman, A. Or, M. J. Freedman: "SLAQ:
Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017. After k turns,

    f(k) = 1 / (b0 k + b1) + c      with b0, b1, c >= 0

**The fit.** For a given c, 1 / (f - c) is linear in k: weighted least squares, where an observation
weighs (f - c)^4, so that errors are those of f to first order, and 0.9 times as much as the next
one (SLAQ weighs the recent past more, too). c is the best of a few shares of the lowest f so far.
A difficulty that does not fall gives b0 = 0: a turn buys nothing. A task of fewer than three
observations has no curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from mmfl.allocate.base import Bools, Floats, Ints, View
from mmfl.allocate.rules.fed_fair import refuse_bad

__all__ = ["Curves", "divide", "fit_curves", "note_progress", "turns_left", "water_level"]

History = dict[str, list[list[float]]]

_KEPT = 32
"""How many observations of a task are kept."""

_FEWEST = 3
_FADE = 0.9
_FLOORS = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95])
_TINY = 1e-6
_HUGE = 1e100
_MOST = 1e12
"""At most so many turns are left."""


@dataclass(frozen=True, eq=False)
class Curves:
    """What is known of S tasks' difficulties as functions of their turns.

    Attributes:
        known: (S) whether there is a curve.
        turns: (S) k, turns so far.
        b0, b1, c: (S) the curves; b0 = 0, b1 = 1 and c = 0 where there is none.
        largest: (S) the largest fall from one observation to the next so far; at least a
            millionth of the largest difficulty.
        first: (S) the first difficulty seen; 1 if none was, 1e-100 if it was 0.
    """

    known: Bools
    turns: Ints
    b0: Floats
    b1: Floats
    c: Floats
    largest: Floats
    first: Floats


def note_progress(view: View, state: Any) -> History:
    """Each task's [turns so far, difficulty], whenever it has trained since; the last 32."""
    refuse_bad(view.difficulty[~np.isnan(view.difficulty)])
    history: History = dict((state or {}).get("progress", {}))
    for name, turns, f in zip(
        view.tasks, view.turns.tolist(), view.difficulty.tolist(), strict=True
    ):
        seen = history.get(name, [])
        if not isnan(f) and (not seen or turns > seen[-1][0]):
            history[name] = [*seen[1 - _KEPT :], [turns, f]]
    return history


def fit_curves(view: View, history: History) -> Curves:
    """The curves of the view's tasks."""
    S = len(view.tasks)
    seen = [history.get(name, []) for name in view.tasks]
    width = max(1, *map(len, seen))
    k, f, w = np.zeros((S, width)), np.ones((S, width)), np.zeros((S, width))
    for s, points in enumerate(seen):
        n = len(points)
        if n:
            k[s, :n], f[s, :n] = np.array(points).T
            f[s, n:] = f[s, n - 1]
            w[s, :n] = _FADE ** np.arange(n - 1, -1, -1)
    known = np.array([len(points) >= _FEWEST for points in seen])
    f = np.minimum(f, _HUGE)
    scale = np.maximum(f.max(axis=1), 1.0 / _HUGE)
    f /= scale[:, None]
    fall = np.maximum(f[:, :-1] - f[:, 1:], 0.0).max(axis=1, initial=_TINY)
    b0, b1, c = _fit(k, np.maximum(f, _TINY), w)
    first = np.maximum(f[:, 0] * scale, 1.0 / _HUGE)
    return Curves(
        known=known,
        turns=view.turns,
        b0=np.where(known, b0 / scale, 0.0),
        b1=np.where(known, b1 / scale, 1.0),
        c=np.where(known, c * scale, 0.0),
        largest=fall * scale,
        first=first,
    )


def _fit(k: Floats, f: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
    """(S) b0, b1 and c each, from observations (S, N) with 0 < f <= 1."""
    lowest = np.where(w > 0, f, np.inf).min(axis=1, initial=1.0)
    c = _FLOORS * lowest[:, None]  # (S, G)
    above = f[:, None, :] - c[:, :, None]  # (S, G, N)
    weight, y = w[:, None, :] * above**4, 1.0 / above
    x = k[:, None, :]
    total = np.maximum(weight.sum(axis=2), 1e-300)
    mean_x, mean_y = (weight * x).sum(axis=2) / total, (weight * y).sum(axis=2) / total
    x_off = x - mean_x[:, :, None]
    spread = (weight * x_off**2).sum(axis=2)
    slope = np.divide(
        (weight * x_off * y).sum(axis=2), spread, out=np.zeros_like(c), where=spread > 0
    )
    slope = np.maximum(slope, 0.0)
    level = mean_y - slope * mean_x
    through_0 = level < 0  # then b1 = 0, and the line goes through the origin
    square = np.maximum((weight * x**2).sum(axis=2), 1e-300)
    slope = np.where(through_0, (weight * x * y).sum(axis=2) / square, slope)
    level = np.maximum(level, 0.0)
    line = slope[:, :, None] * x + level[:, :, None]
    error = np.where(
        w[:, None, :] > 0, c[:, :, None] + 1.0 / np.maximum(line, 1e-3) - f[:, None], 0
    )
    best = (w[:, None, :] * error**2).sum(axis=2).argmin(axis=1)
    rows = np.arange(len(f))
    return slope[rows, best], level[rows, best], c[rows, best]


def turns_left(curves: Curves, targets: Floats, share: float, threshold: float) -> Floats:
    """(S) Q_s: turns until a task reaches its target, or converges if it has or can reach none.

    It has converged when `share` turns lower its curve by less than `threshold` times its first
    difficulty. Tasks without a curve get NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        end = (np.sqrt(curves.b0 * share / (threshold * curves.first)) - curves.b1) / curves.b0
        reach = (1.0 / (targets - curves.c) - curves.b1) / curves.b0
    end[curves.b0 == 0] = 0.0
    reachable = (targets > curves.c) & (curves.b0 > 0)
    left: Floats = np.clip(np.where(reachable, reach, end) - curves.turns, 0.0, _MOST)
    left[~curves.known] = np.nan
    return left


def water_level(slope: Floats, offset: Floats, total: float) -> Floats:
    """(S) n_s = max(0, slope_s u - offset_s), with the u at which they add up to a total.

    Args:
        slope: (S) >= 0, not all 0.
        offset: (S) >= 0.
        total: > 0.
    """
    some = np.flatnonzero(slope > 0)
    start = offset[some] / slope[some]  # where each begins to be above 0
    order = np.argsort(start, kind="stable")
    rate, lost = np.cumsum(slope[some][order]), np.cumsum(offset[some][order])
    levels = (total + lost) / rate  # the level if only the first ones are above 0
    last = np.flatnonzero(levels >= start[order])[-1]
    n: Floats = np.maximum(0.0, slope * levels[last] - np.where(slope > 0, offset, 0.0))
    return n


def divide(curves: Curves, wanted: Floats) -> Floats:
    """(S) shares of the clients: 1/S for a task without a curve; the others divide the rest.

    Args:
        curves: What is known.
        wanted: (S) proportions >= 0 of those with a curve; if all are 0, they share alike.
    """
    S = len(wanted)
    share: Floats = np.where(curves.known, wanted, 0.0)
    if not share.sum() > 0:
        share = curves.known.astype(np.float64)
    rest = curves.known.sum() / S
    share = share / max(share.sum(), 1e-300) * rest
    share[~curves.known] = 1 / S
    return share
