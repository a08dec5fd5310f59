"""The paper's allocation as one call, for other frameworks that have their own training loop."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.rules.fed_fair import FedFair
from mmfl.errors import InputError
from mmfl.fairness import check_weights
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
    weights: npt.ArrayLike | None = None,
) -> Assignments:
    """One round of the paper's allocation (Algorithm 1, lines 4-5) for use in other frameworks.

    Args:
        difficulty: (S) f_s >= 0, higher is worse; None before anything is known (then allocation is
            uniform, and S comes from `tasks` or `eligible`).
        active: (n) ids of the active clients, whole numbers >= 0, each once.
        eligible: (n, S) booleans, rows as in `active`; by default all clients may train all.
        alpha: In [1, inf].
        round: t; each round has its own random draws.
        seed: Seed of the whole run.
        tasks: S, if neither `difficulty` nor `eligible` is given.
        sampling: As in `FedFair`.
        floor: As in `FedFair`.
        weights: (S) how much each task counts, > 0; by default all count alike.

    Returns:
        A sequence of (client, task number, probability) in ascending order of client. A client that
        may train nothing is left out.
    """
    rule = FedFair(alpha=alpha, sampling=sampling, floor=floor)
    ids = _clients(active)
    may = None if eligible is None else _array("eligible", eligible)
    f = None
    if difficulty is not None:
        rule.probabilities(difficulty)  # raises an error if a difficulty is malformed
        f = np.asarray(difficulty, dtype=np.float64)
    S = _tasks(f, may, tasks)
    w = np.ones(S) if weights is None else check_weights(weights, S)
    if may is None or (len(ids) == 0 and may.size == 0):
        may = np.ones((len(ids), S), dtype=bool)
    if may.dtype != np.bool_ or may.shape != (len(ids), S):
        raise InputError(
            f"eligible must be booleans of shape ({len(ids)}, {S}), "
            f"got {may.dtype} of shape {may.shape}"
        )
    if isinstance(round, bool) or not isinstance(round, int | np.integer) or round < 0:
        raise InputError(f"round must be a whole number >= 0, got {round!r}")
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids, kind="stable")
        ids, may = ids[order], may[order]
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise InputError(f"active names client {twice[0]} twice")
    view = View(
        round=round,
        rounds=round,
        tasks=tuple(f"{s:09d}" for s in range(S)),
        difficulty=np.full(S, np.nan) if f is None else f,
        clients=ids,
        positions=np.arange(len(ids)),
        population=len(ids),
        sizes=may.view(np.int8),
        eligible=may,
        capacity=np.ones(len(ids), np.int64),
        weights=w,
    )
    return rule.allocate(view, None, rng=stream(seed, "allocate", round))[0]


def _array(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(f"{name} must be an array, but its rows differ in length") from None


def _clients(active: npt.ArrayLike) -> npt.NDArray[np.int64]:
    ids = _array("active", active)
    if ids.size == 0 and ids.ndim == 1:
        return np.empty(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= 2**63:
        raise InputError("active must be a list of client ids, whole numbers from 0 to 2^63 - 1")
    return ids.astype(np.int64)


def _tasks(
    f: npt.NDArray[np.float64] | None, may: npt.NDArray[Any] | None, tasks: int | None
) -> int:
    """S, from whichever argument determines it."""
    if tasks is not None and (isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1):
        raise InputError(f"tasks must be a whole number >= 1, got {tasks!r}")
    told = len(f) if f is not None else may.shape[1] if may is not None and may.ndim == 2 else tasks
    if not told:
        raise InputError("without difficulty, give tasks=S or eligible (clients x tasks)")
    if tasks is not None and tasks != told:
        raise InputError(f"tasks = {tasks}, but the other arguments have {told} tasks")
    return told
