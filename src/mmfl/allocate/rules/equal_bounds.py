"""Equal bounds: the alternative that the paper names, and calls less practical than its own rule.

M. Siew et al.: "Fair Concurrent Training of Multiple Models in Federated Learning", after the
corollary "Fairness and Convergence": an allocation that "can explicitly enforce fairness across the
upper-bounds in (eq. w_bound). However, this approach requires integer programming methods and
estimating unknown constants like sigma^2 and L for each task".

**The problem.** m clients are active, each may train some of the tasks. Choose how many clients n_s
train each task, so that the largest of the bounds U_s(n_s) on the tasks' difficulties after the
round is as small as possible; then the second largest, and so on. `min_max` solves it exactly,
without integer programming.

**The bound.** The theorem "Model Parameter Convergence", times L/2 so that it speaks of losses
(with the present error f_s - f_s* for its bound (L/2) |w_s - w_s*|^2), and with a selection of n
clients that hold equally much (the sum of squared weights is 1/n), is

    U_s(n) = (1 - c_s) f_s + a_s + v_s / n      for n >= 1,      U_s(0) = f_s
    c_s = eta mu (1 + 3 rho_lo / 8)             what a round takes off
    v_s = (L / 2) eta^2 sigma^2                 the noise of one client
    a_s = c_s f_s* + (L / 2) eta^2 (32 tau^2 G^2 + 6 rho_lo L Gamma_s)
          + L eta Gamma_s (rho_hi - rho_lo)     what remains, however many clients there are

So of all the unknown constants only c_s, a_s and v_s matter. Clients that hold unequal amounts, or
whose turns fail, make v_s larger: it is what a client that is *sent* is worth.

**The constants.** What a round with n clients did to f_s is an observation of them, linear in all
three and noisy: f_s(t+1) - f_s(t) = -c_s f_s(t) + a_s + v_s / n + noise. They are fitted by least
squares, subject to c_s, a_s, v_s >= 0, with a normal prior; what the prior weighs depends on how
noisy the observations turn out to be. Norms of updates are not used: they are lengths in a model's
own parameters, which only another unknown, L, could turn into losses.
"""

from __future__ import annotations

from math import isnan
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.allocate.base import Assignments, Floats, Ints, View
from mmfl.allocate.min_max import min_max_counts
from mmfl.allocate.patterns import Patterns
from mmfl.allocate.rules.fed_fair import refuse_bad
from mmfl.allocate.rules.uniform import Uniform
from mmfl.allocate.sampling import deal
from mmfl.config import Count, Flag, component
from mmfl.rng import Stream

__all__ = ["EqualBounds", "bounds_after"]

PRIOR = (0.1, 0.0, 0.05)
"""c, a and v of a task of which nothing is known, in units of its first difficulty."""

_SPREAD, _NOISE = 0.05, 0.1
"""How far each may be from that, and the standard deviation of an observation, worth one of them.

These five numbers predict the next difficulty best in runs that no result comes from; see
docs/explanation/equal-bounds.md. Others close by do as well.
"""

_MOST = 1e6
"""A difficulty counts as at most this many times a task's first one."""

_FITS = 4
"""So often constants and noise are fitted in turn."""


def bounds_after(f: float, constants: npt.ArrayLike, most: int, horizon: int = 1) -> Floats:
    """(most + 1) U_s(n) for n = 0, 1, ...: a bound on the difficulty after `horizon` rounds.

    Every round has n clients, and the one-step bound is applied once per round. The result never
    rises with n: if one client is estimated to do harm, sending none does not count as better.
    Otherwise a task with a bad start would be left alone, and nothing more would be learnt about
    it.

    Args:
        f: The difficulty now.
        constants: (3) c_s, a_s and v_s.
        most: The largest n.
        horizon: H.
    """
    c, a, v = np.asarray(constants, dtype=np.float64)
    with np.errstate(divide="ignore"):
        gone = -np.expm1(horizon * np.log1p(-c))  # 1 - (1 - c)^H
    added = gone / c if c else horizon  # 1 + (1 - c) + (1 - c)^2 + ...
    bounds = np.empty(most + 1)
    bounds[1:] = (1.0 - gone) * f + added * (a + v / np.arange(1, most + 1))
    bounds[0] = np.max(bounds[1:2], initial=f)
    return bounds


@component
class EqualBounds:
    """Chooses numbers of clients that minimise the largest bound on a task's difficulty.

    The bounds are the paper's convergence theorem, with constants estimated during the run. Weights
    of tasks are ignored, because a largest value is what the weighted objective becomes at alpha =
    inf, where weights do not matter.

    Attributes:
        horizon: H, how many rounds to look ahead; 1 is the theorem.
        memory: About how many past rounds with clients are used to fit a task's constants: an
            observation weighs 1 - 1/memory times as much as the next one. The constants change with
            the learning rate.
        learn: Whether to estimate the constants; otherwise the prior's are used.
    """

    horizon: Count = 1
    memory: Annotated[float, Strict(), Field(ge=1)] = 40.0
    learn: Flag = True

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """While a task that can be trained has no known difficulty, clients are spread evenly.

        A task that no active client may train is ignored.

        State: by task name, a table with its first difficulty, its difficulty and number of clients
        in the last round (`f`, `n`), and the sums of squares and products of its observations.
        """
        f = dict(zip(view.tasks, view.difficulty.tolist(), strict=True))
        refuse_bad(view.difficulty[~np.isnan(view.difficulty)])
        memory = self.memory if self.learn else None
        learnt = {
            task: _learn_round((state or {}).get(task), now, memory)
            for task, now in f.items()
            if not isnan(now)
        }

        def counts(patterns: Patterns, order: npt.NDArray[np.intp]) -> Ints:
            most = len(view.clients)
            bounds = np.zeros((len(order), most + 1))  # of tasks that nobody may train, too
            for row, name in zip(bounds, (view.tasks[s] for s in order), strict=True):
                if name in learnt:
                    row[:] = bounds_after(f[name], _constants(learnt[name]), most, self.horizon)
            return min_max_counts(bounds, patterns)

        if (np.isnan(view.difficulty) & view.eligible.any(axis=0)).any():
            found, _ = Uniform(sampling="stratified").allocate(view, None, rng=rng)
        else:
            found = deal(view, counts, rng=rng)
        n = dict(zip(view.tasks, found.counts(len(f)).tolist(), strict=True))
        return found, {task: table | {"n": n[task]} for task, table in learnt.items()}

    def constants(self, state: Any) -> dict[str, tuple[float, float, float]]:
        """By task name, c_s, a_s and v_s as they are estimated in a state."""
        return {task: _constants(learnt) for task, learnt in (state or {}).items()}


def _learn_round(before: dict[str, Any] | None, f: float, memory: float | None) -> dict[str, Any]:
    """A task's table in the state, with what the last round did to its difficulty added."""
    if before is None:
        return {"first": f or 1.0, "f": f, "sums": np.zeros((4, 4)).tolist()}
    sums = np.array(before["sums"])
    if before["n"] and memory is not None:
        then, now = (min(each / before["first"], _MOST) for each in (before["f"], f))
        seen = np.array([-then, 1.0, 1.0 / before["n"], now - then])
        sums = (1.0 - 1.0 / memory) * sums + np.outer(seen, seen)
    return before | {"f": f, "sums": sums.tolist()}


def _constants(learnt: dict[str, Any]) -> tuple[float, float, float]:
    """c_s, a_s and v_s: theta with the least |y - X theta|^2 / var + |theta - prior|^2 / spread^2.

    The variance of the observations is that of the residuals, found together with theta.
    """
    from scipy.optimize import nnls

    sums = np.array(learnt["sums"])
    gram, moment = sums[:3, :3], sums[:3, 3]  # X'X and X'y
    var = _NOISE**2
    for _ in range(_FITS):
        prior = var / _SPREAD**2
        R = np.linalg.cholesky(gram + prior * np.eye(3))
        # |R' theta - z|^2 is the sum above times var, but for a constant.
        z = np.linalg.solve(R, moment + prior * np.array(PRIOR))
        theta, _ = nnls(R.T, z)
        residual = np.array([*-theta, 1.0])
        var = (_NOISE**2 + max(residual @ sums @ residual, 0.0)) / (1.0 + gram[1, 1])
    c, a, v = theta.tolist()
    return min(c, 1.0), learnt["first"] * a, learnt["first"] * v
