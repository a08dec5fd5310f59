"""The convergence bounds, corrected; as the paper prints them they are in `printed`.

docs/explanation/theory.md says, statement by statement, what was repaired and why. In all, t and T
count only the rounds in which the task trained, the selection skew is meant given that somebody was
selected, and `distance` is a squared one: E|w - w*|^2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.theory import printed
from mmfl.theory.constants import Constants

__all__ = [
    "auction_bound",
    "corollary_bound",
    "one_step_bound",
    "recursion_bound",
    "t_step_bound",
]

Floats = npt.NDArray[np.float64]


def one_step_bound(
    distance: float, t: float, constants: Constants, *, square_weight: float = 1.0
) -> float:
    """The theorem "Model Parameter Convergence": a bound on E|w_{t+1} - w*|^2.

    This is the printed formula. What is corrected is its scope: one local step, in a round in which
    some client trained. Read as a bound for a whole round of tau steps, it is false for tau > 1.

    Args:
        distance: E|w_t - w*|^2.
        t: The round, counting those in which the task trained.
        constants: Of the task.
        square_weight: `square_weight_term` given that `Sel` is not empty; at most 1.
    """
    c, eta = constants, constants.rate(t)
    _distance(distance)
    shrunk = (1.0 - eta * c.mu * (1.0 + 3.0 * c.rho_lo / 8.0)) * distance
    bias = 2.0 * eta * c.gap * (c.rho_hi - c.rho_lo)
    noise = c.sigma**2 * square_weight + 32.0 * (c.tau * c.G) ** 2 + 6.0 * c.rho_lo * c.L * c.gap
    return shrunk + bias + eta**2 * noise


def recursion_bound(
    T: int,
    constants: Constants,
    distance: float,
    *,
    square_weight: float = 1.0,
    steps: int | None = None,
) -> Floats:
    """(T + 1) the theorem applied step by step, as errors: L/2 times the bound on E|w - w*|^2.

    This is the best bound that the theorem gives. `t_step_bound`, a closed form, is never below it.

    Args:
        T: Rounds in which the task trains.
        constants: Of the task.
        distance: |w_0 - w*|^2.
        square_weight: As for `one_step_bound`.
        steps: How often it is applied in a round; by default tau times, once for each local step.
            Once a round, as the paper means it, E|w - w*|^2 can exceed it; see
            docs/explanation/convergence.md.
    """
    steps = max(1, round(constants.tau)) if steps is None else steps
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps!r}")
    found = np.empty(_rounds(T) + 1)
    found[0] = _distance(distance)
    for t in range(T):
        found[t + 1] = found[t]
        for _ in range(steps):
            found[t + 1] = one_step_bound(found[t + 1], t, constants, square_weight=square_weight)
    return found * (constants.L / 2.0)


def t_step_bound(T: float, constants: Constants, distance: float) -> float:
    """The corollary "Model Convergence", corrected: a bound on E[f_s(w_T)] - f_s*.

    1/(T+gamma) [4L (32 tau^2 G^2 + sigma^2) / (3 rho mu^2) + 8 L^2 Gamma / mu^2 + L gamma d0 / 2]
    + 8 L Gamma / (3 mu) (rho_hi / rho_lo - 1). The paper's lacks L in the first term, and has 16
    where the theorem that it is proved from has 32.
    """
    c = constants
    _rounds(T), _distance(distance)
    noise = 4.0 * c.L * (32.0 * (c.tau * c.G) ** 2 + c.sigma**2) / (3.0 * c.rho_lo * c.mu**2)
    apart = 8.0 * c.L**2 * c.gap / c.mu**2
    start = c.L * c.offset * distance / 2.0
    bias = 8.0 * c.L * c.gap / (3.0 * c.mu) * (c.rho_hi / c.rho_lo - 1.0)
    return (noise + apart + start) / (T + c.offset) + bias


def corollary_bound(
    T: float,
    constants: Constants,
    distance: float,
    *,
    form: Literal["corrected", "printed"] = "corrected",
) -> float:
    """`t_step_bound`, or the paper's `printed.t_step_bound`."""
    if form not in ("corrected", "printed"):
        raise InputError(f"form must be corrected or printed, got {form!r}")
    if form == "printed":
        return printed.t_step_bound(T, constants, distance)
    return t_step_bound(T, constants, distance)


def auction_bound(T: float, constants: Constants, distance: float, *, nobody: float) -> float:
    """The theorem "Convergence with Auctions", corrected: with the chance that nobody is recruited.

    nobody * max(L/2 |w_0 - w*|^2, `t_step_bound`) + (1 - nobody) * `t_step_bound`: it never falls
    as people stop joining. If nobody joins, the error stays what it was, at most L/2 |w_0 - w*|^2.
    While T is small, the bound for clients that train is larger than that: it does not yet show any
    gain from training, and holds without training, too.

    The error is that of the recruited clients' own objective, as everywhere in the paper. The
    printed bound has a sum over sets of winners that says nothing about them and *falls* as people
    stop joining.

    Args:
        T: Rounds in which the task trained.
        constants: Of the task, valid for every set of winners.
        distance: |w_0 - w*|^2.
        nobody: The chance that the auction recruits nobody for the task.
    """
    if not 0 <= nobody <= 1:
        raise InputError(f"nobody must be a probability in [0, 1], got {nobody!r}")
    trained = t_step_bound(T, constants, distance)
    lost = max(constants.L / 2.0 * _distance(distance) - trained, 0.0)
    return trained + nobody * lost


def _distance(distance: float) -> float:
    if not 0 <= distance < np.inf:
        raise InputError(f"distance must be finite and >= 0, got {distance!r}")
    return float(distance)


def _rounds(T: float) -> int:
    if not 0 <= T < np.inf:
        raise InputError(f"T must be finite and >= 0, got {T!r}")
    return int(T)
