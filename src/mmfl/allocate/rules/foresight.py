"""Foresight, an experimental rule of our own: alpha-fairness on the outcome at the end.

`fed_fair` looks at how bad a task is now. What counts at the end is how bad it will be, and how
much a turn still buys. So this rule divides all remaining turns so as to minimise the sum of
w_s f_s(end)^alpha, and starts on that plan; the plan is made anew in every round.

1. A task's difficulty after n turns is f(n) = f(0) (a + (1 - a) (1 + max(0, n - d) / h)^-c). Every
   a (floor), c (power), h (turns until it falls) and d (delay: a plateau at the start) of a grid is
   a hypothesis. Its weight is its likelihood of what was seen, with unknown noise; older rounds
   count less. So a plateau is not a floor while a delay explains it as well.
2. What x more turns are worth is the mean of f(end)^alpha over hypotheses, from the difficulty now.
3. As a function of x it need not be convex. The turns go to the steepest edges of the tasks' lower
   convex hulls, until none are left. A task gets no more than the clients that may train it have.
4. A quarter of the clients is spread evenly, to keep learning about all tasks.
5. Clients that may train only some tasks choose by odds under which all tasks get their shares.

What is known about it: experiments/benchmark/DEVELOPMENT.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.allocate.base import Assignments, Floats, Ints, View
from mmfl.allocate.odds import normalize_log_odds
from mmfl.allocate.patterns import Patterns
from mmfl.allocate.rules.fed_fair import refuse_bad
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, component
from mmfl.rng import Stream

__all__ = ["Foresight"]

_FLOORS = np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9])[:, None]
_POWERS, _TURNS, _DELAYS = (
    axis.ravel()
    for axis in np.meshgrid(
        [0.3, 0.7, 1.5], 2.0 ** np.arange(7), [0.0, 4.0, 12.0, 30.0, 80.0], indexing="ij"
    )
)
_NOISE = 0.03
"""The least noise of a relative difficulty: what validation data and one turn add to it."""

_FORGET = 0.9
"""What an observation weighs against the next one."""

_EVEN = 0.25
_FITS = 30
_LEAST = 1e-9
"""Of odds: no task is out of reach."""

_STEPS = 25
"""Numbers of turns that a plan knows."""

_UNLIKELY = 1e-3
"""Hypotheses of a lower weight, relative to the largest, are left out of a plan."""

_MOST = 10.0
"""A difficulty counts as at most this many times a task's first one."""


@component
class Foresight:
    """Divides the remaining turns so that the sum of f_s^alpha is least at the end. Experimental.

    It learns each task's curve of difficulty over turns, plateaus included, from the run itself.
    With weights of tasks, `tasks.weight`, the sum is that of weight_s f_s^alpha.

    Attributes:
        alpha: As in `FedFair`: 1 is the best mean, a large one the best worst task.
        sampling: "independent", "stratified" or "credit", as in `FedFair`.
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    plans_ahead: ClassVar[bool] = True

    alpha: Annotated[float, Strict(), Field(ge=1, le=1e3)] = 3.0
    sampling: SamplingKind = "credit"
    floor: Natural = 0

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """While a difficulty is unknown, clients are spread evenly.

        State: `seen`, by task name, the first difficulty (`first`) and the turns before it
        (`start`), the last turns (`turns`) and given ones (`given`), and the weighted number
        (`count`) and squared errors (`errors`) of observations, by hypothesis.
        """
        refuse_bad(view.difficulty[~np.isnan(view.difficulty)])
        state = dict(state or {})
        seen = dict(state.get("seen", {}))
        share = np.full(len(view.tasks), 1.0 / len(view.tasks))
        if not np.isnan(view.difficulty).any():
            for s, name in enumerate(view.tasks):
                f, n = float(view.difficulty[s]), int(view.turns[s])
                seen[name] = _observe(seen.get(name), f, n)
            share = (1 - _EVEN) * self._plan(view, seen) + _EVEN * share
            share = _fit_odds(view, share)

        def p(tasks: npt.NDArray[np.intp]) -> Floats:
            log = np.log(share[tasks])
            return normalize_log_odds(log - log.max(axis=1, keepdims=True))

        found, state = sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
        for s, count in enumerate(found.counts(len(view.tasks)).tolist()):
            if view.tasks[s] in seen:
                name = view.tasks[s]
                seen[name] = seen[name] | {"given": seen[name]["given"] + count}
        return found, {**(state or {}), "seen": seen}

    def _plan(self, view: View, seen: Mapping[str, Any]) -> Floats:
        """(S) each task's share of the remaining turns."""
        left = len(view.clients) * max(1, view.rounds - view.round + 1)
        may = view.eligible.sum(axis=0) * max(1, view.rounds - view.round + 1)
        steps = np.unique(np.rint(left * np.linspace(0, 1, _STEPS) ** 2))
        f = view.difficulty / (view.difficulty.max() or 1.0)
        w = view.weights / view.weights.max()
        order = sorted(range(len(f)), key=view.tasks.__getitem__)
        edges = []
        for s in order:
            n, known = int(view.turns[s]), seen[view.tasks[s]]
            expected = w[s] * f[s] ** self.alpha * _expect(known, n, steps, self.alpha)
            edges += [(*edge, s) for edge in _find_edges(expected, steps)]
        got = np.zeros(len(f))
        rest = float(left)
        for _, width, s in sorted(edges, key=lambda edge: edge[0]):
            taken = min(width, rest, may[s] - got[s])
            got[s] += taken
            rest -= taken
        return got / got.sum() if got.any() else np.full(len(f), 1.0 / len(f))


def _fit_odds(view: View, share: Floats) -> Floats:
    """(S) odds that give each task its share of the clients, as far as eligibility lets them.

    A client chooses among its tasks in proportion to the odds: those of a task that few clients may
    train must be higher than its share. Found by iterative proportional fitting.
    """
    order = np.argsort(np.array(view.tasks), kind="stable")
    patterns = Patterns.of(view.eligible, order)
    if patterns.number is None:
        return share
    target, sizes = share[order], patterns.sizes / max(patterns.sizes.sum(), 1)
    odds = target.copy()
    for _ in range(_FITS):
        table = patterns.sets * odds
        table *= (sizes / np.maximum(table.sum(axis=1), _LEAST))[:, None]
        got = table.sum(axis=0)
        odds = np.where(got > 0, odds * target / np.maximum(got, _LEAST), odds)
        odds = np.maximum(odds / odds.max(), _LEAST)
    fitted = np.empty(len(odds))
    fitted[order] = odds
    return fitted


def _observe(before: Mapping[str, Any] | None, f: float, n: int) -> dict[str, Any]:
    """What is known of a task, with its difficulty after n turns added, if there were new ones."""
    if before is None:
        errors = np.zeros((len(_FLOORS), len(_POWERS)))
        return {"first": f or 1.0, "start": n, "turns": n, "given": 0, "count": 0.0,
                "errors": errors}  # fmt: skip
    if n <= before["turns"]:
        return dict(before)
    ratio = _MOST if f >= _MOST * before["first"] else f / before["first"]
    error = ratio - _relative(np.array([n - before["start"]]))[..., 0]
    return {
        **before,
        "turns": n,
        "count": _FORGET * before["count"] + 1.0,
        "errors": _FORGET * before["errors"] + error**2,
    }


def _relative(turns: Ints | Floats) -> Floats:
    """(a, h, n) the difficulty after these numbers of turns, by hypothesis; 1 at the start."""
    late = np.maximum(turns - _DELAYS[:, None], 0.0) / _TURNS[:, None]
    fall = (1.0 + late) ** -_POWERS[:, None]
    floors = _FLOORS[..., None]
    return np.asarray(floors + (1.0 - floors) * fall)


def _expect(seen: Mapping[str, Any], n: int, more: Floats, alpha: float) -> Floats:
    """The mean of (difficulty after so many more given turns / difficulty now)^alpha."""
    count = seen["count"]
    log = -0.5 * count * np.log(seen["errors"] / max(count, 1.0) + _NOISE**2)
    weight = np.exp(log - log.max())
    accepted = (n - seen["start"] + 1.0) / (seen["given"] + 1.0)
    past = float(n - seen["start"])
    curves = _relative(np.concatenate([[past], past + min(accepted, 1.0) * more]))
    likely = weight > _UNLIKELY
    falls = (curves[likely][:, 1:] / curves[likely][:, :1]) ** alpha
    mean: Floats = weight[likely] @ falls / weight[likely].sum()
    return mean


def _find_edges(values: Floats, steps: Floats) -> list[tuple[float, float]]:
    """Slope and width of each edge of the lower convex hull, the steepest descent first."""
    hull: list[tuple[float, float]] = []
    for x, y in zip(steps.tolist(), values.tolist(), strict=True):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x1) < (y - y1) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return [((y1 - y0) / (x1 - x0), x1 - x0) for (x0, y0), (x1, y1) in pairwise(hull)]
