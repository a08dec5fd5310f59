"""From logarithms of odds to probabilities, one set of tasks per row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Floats

__all__ = ["normalize_log_odds", "restrict_shares"]


def normalize_log_odds(log: Floats, weights: Floats | None = None) -> Floats:
    """(g, c) rows p_s ~ w_s exp(log_s) that sum to 1; the same bits as one row at a time.

    Equal weights give the bits of no weights.

    Args:
        log: (g, c) logarithms with a maximum of 0 in each row, unless there are weights; changed.
        weights: (g, c) w_s > 0.
    """
    if weights is not None:  # in logarithms, too: neither tiny nor huge ones lose their proportions
        w = np.log(weights)
        log += w - w.max(axis=1, keepdims=True)
        log -= log.max(axis=1, keepdims=True)
    odds = np.exp(log)
    p: Floats = odds / odds.sum(axis=1, keepdims=True)
    return p


def restrict_shares(shares: Floats) -> Callable[[npt.NDArray[np.intp]], Floats]:
    """From sets of tasks (g, c) to their shares, made to add up to 1; all alike where all are 0."""

    def p(tasks: npt.NDArray[np.intp]) -> Floats:
        some: Floats = shares[tasks]
        total = some.sum(axis=1, keepdims=True)
        return np.where(total > 0, some / np.where(total > 0, total, 1.0), 1.0 / tasks.shape[1])

    return p
