"""The paper's allocation as one call, for other frameworks that have their own training loop."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.fed_fair import FedFair, allocation_probabilities
from mmfl.errors import InputError
from mmfl.rng import stream

__all__ = ["assign"]


def assign(
    difficulty: npt.ArrayLike | None,
    active: npt.ArrayLike,
    eligible: npt.ArrayLike | None = None,
    *,
    alpha: float = 3.0,
    round: int,  # noqa: A002
    seed: int,
    tasks: int | None = None,
    sampling: Literal["independent", "stratified"] = "independent",
    floor: int = 0,
) -> Assignments:
    """One round of the paper's allocation (Algorithm 1, lines 4-5) for use in other frameworks.

    Args:
        difficulty: (S) f_s >= 0, higher = worse off; None before anything is known (then uniform,
            and `tasks` or `eligible` tells S).
        active: (n) ids of the active clients, whole numbers >= 0, each once.
        eligible: (n, S) booleans, rows as in `active`; by default everybody may train everything.
        alpha: In [1, inf].
        round: t; each round has its own draws.
        seed: Of the whole run.
        tasks: S, where neither `difficulty` nor `eligible` tells it.
        sampling: As in `FedFair`.
        floor: As in `FedFair`.

    Returns:
        A sequence of (client, task number, probability) in ascending order of client. A client that
        may train nothing is left out.
    """
    ids = np.asarray(active)
    if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0)):
        raise InputError("active must be a list of client ids, whole numbers >= 0")
    ids = ids.astype(np.int64)
    may = None if eligible is None else np.asarray(eligible)
    f = None if difficulty is None else np.asarray(difficulty, dtype=np.float64)
    S = len(f) if f is not None and f.ndim == 1 else (may.shape[-1] if may is not None else tasks)
    if not S:
        raise InputError("difficulty must be a non-empty vector; without it, give tasks=S")
    if may is None:
        may = np.ones((len(ids), S), dtype=bool)
    if may.dtype != np.bool_ or may.shape != (len(ids), S):
        raise InputError(
            f"eligible must be booleans of shape ({len(ids)}, {S}), "
            f"got {may.dtype} of shape {may.shape}"
        )
    if f is not None:
        allocation_probabilities(f, alpha)
    order = np.argsort(ids, kind="stable")
    ids, may = ids[order], may[order]
    if (np.diff(ids) == 0).any():
        raise InputError(f"active names client {ids[:-1][np.diff(ids) == 0][0]} twice")
    unknown = np.full(may.shape, np.nan)
    view = View(
        round=round,
        rounds=round,
        tasks=tuple(f"{s:09d}" for s in range(S)),
        difficulty=np.full(S, np.nan) if f is None else f,
        clients=ids,
        positions=np.arange(len(ids)),
        population=len(ids),
        sizes=may.astype(np.int64),
        eligible=may,
        capacity=np.ones(len(ids), np.int64),
        counts=np.zeros(may.shape, np.int64),
        loss=unknown,
        norm=unknown,
    )
    rule = FedFair(alpha=alpha, sampling=sampling, floor=floor)
    return rule.allocate(view, None, rng=stream(seed, "allocate", round))[0]
