"""FedFairMMFL's difficulty-aware, alpha-fair allocation.

M. Siew, H. Zhang, J.-I. Park, Y. Liu, Y. Ruan, L. Su, S. Ioannidis, E. Yeh, C. Joe-Wong: "Fair
Concurrent Training of Multiple Models in Federated Learning", Algorithm 1, lines 4-5.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.odds import normalize_log_odds
from mmfl.allocate.sampling import Sampling, SamplingKind, sample
from mmfl.config import Natural, component
from mmfl.errors import InputError
from mmfl.fairness import check_weights
from mmfl.rng import Stream

__all__ = ["FedFair", "allocation_probabilities", "refuse_bad"]


def allocation_probabilities(
    difficulty: npt.ArrayLike, alpha: float, weights: npt.ArrayLike | None = None
) -> Floats:
    """The vector p of the paper's equation for line 5: p_s = f_s^(alpha-1) / sum f^(alpha-1).

    Computed as exp((alpha-1)(log f - log max f)), so that neither tiny nor huge difficulties lose
    their proportions. alpha = 1, or all f = 0: uniform. alpha = inf: uniform over the worst tasks.

    With weights w_s, the objective is the sum of w_s f_s^alpha, whose gradient has alpha w_s
    f_s^(alpha-1) in front of that of f_s: so p_s ~ w_s f_s^(alpha-1), and wherever the above is
    uniform, it is in proportion to the weights.

    Args:
        difficulty: (S) f_s, finite and >= 0, higher = worse off.
        alpha: Emphasis on fairness, in [1, inf].
        weights: (S) w_s, finite and > 0; by default all are equal.
    """
    try:
        f = np.asarray(difficulty, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"difficulty must be a vector of numbers, got {difficulty!r}") from None
    if f.ndim != 1 or f.size == 0:
        raise InputError(f"difficulty must be a non-empty vector, got shape {f.shape}")
    refuse_bad(f)
    if not alpha >= 1:
        raise InputError(f"alpha must be >= 1 (inf included), got {alpha}")
    w = None if weights is None else check_weights(weights, f.size)[None]
    p: Floats = _each(f[None], alpha, w)[0]
    return p


def refuse_bad(f: Floats) -> None:
    """Refuse difficulties that are not finite and >= 0, and name the first one."""
    bad = ~(np.isfinite(f) & (f >= 0))
    if bad.any():
        raise InputError(
            f"difficulty must be finite and >= 0, got {f[bad][0]} for task {bad.argmax()}"
        )


def _each(f: Floats, alpha: float, weights: Floats | None) -> Floats:
    """The vectors p of several vectors f, one per row; the same bits as one at a time."""
    worst = f.max(axis=1, keepdims=True)
    if alpha == 1:
        log = np.zeros_like(f)
    elif np.isinf(alpha):
        log = np.where(f == worst, 0.0, -np.inf)
    else:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log = (alpha - 1) * (np.log(f) - np.log(worst))
    log[worst[:, 0] == 0] = 0.0
    return normalize_log_odds(log, weights)


@component
class FedFair:
    """Each active client draws its task with probability proportional to f_s^(alpha-1).

    With weights of tasks, `tasks.weight`, it is proportional to weight_s f_s^(alpha-1).

    Attributes:
        alpha: The paper's alpha in [1, inf]: 1 is uniform (or in proportion to the weights), inf
            sends every client to the worst task.
        sampling: "independent" (the paper: one draw per client), "stratified" (each task's number
            of clients within one of its expectation; each client's probabilities unchanged) or
            "credit" (the same, but the fractions are carried over to the next round, not drawn).
        floor: Minimum number of clients for each task, as long as there are enough clients.
    """

    alpha: Annotated[float, Strict(), Field(ge=1)] = 3.0
    sampling: SamplingKind = "independent"
    floor: Natural = 0

    def probabilities(
        self, difficulty: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> Floats:
        """The vector p (equation of line 5) for one client that may train all these tasks."""
        return allocation_probabilities(difficulty, self.alpha, weights)

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """Algorithm 1, lines 4-5; while a difficulty is unknown (line 1), all count as equal."""
        refuse_bad(view.difficulty[~np.isnan(view.difficulty)])

        def p(tasks: npt.NDArray[np.intp]) -> Floats:
            f = view.difficulty[tasks]
            f[np.isnan(f).any(axis=1)] = 1.0
            return _each(f, self.alpha, view.weights[tasks])

        return sample(view, p, Sampling(self.sampling, self.floor), state, rng=rng)
