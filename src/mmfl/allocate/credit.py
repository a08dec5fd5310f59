"""Credit: fractions of clients are carried over from round to round instead of drawn.

A task with p_s = 0.3 of ten clients in every round gets three. With p_s = 0.25 it gets two or three
in turn, never none by chance. It is the largest-deficit rule of the chairman assignment problem
(R. Tijdeman: "The Chairman Assignment Problem", Discrete Mathematics 1980), for each set of tasks
that clients may train.
"""

from __future__ import annotations

import numpy as np

from mmfl.allocate.base import Floats, Ints

__all__ = ["serve_credits"]

_NOTHING = 1e-9
"""A smaller fraction is a rounding error."""


def serve_credits(expected: Floats, sizes: Ints, credit: Floats) -> tuple[Ints, Floats]:
    """Whole numbers of clients, each entry its expectation rounded up or down.

    1. Each task's credit grows by its expectation, and falls by the whole part, which it gets.
    2. Patterns with the fewest fractional entries come first. The clients that remain of a pattern
       go to those of its tasks with a fractional entry that have the largest credits, one each;
       among equal ones, to the first. Each costs its task a credit of 1.

    Args:
        expected: (G, S) expected clients of each pattern for each task.
        sizes: (G) the sums of the rows.
        credit: (S) from the rounds before.

    Returns:
        The counts (G, S), and the credits for the next round; their sum stays the same.
    """
    whole = np.floor(expected + _NOTHING)
    part = expected - whole
    counts = whole.astype(np.int64)
    credit = credit + part.sum(axis=0)
    open_cells = part > _NOTHING
    left = sizes - counts.sum(axis=1)
    choices = open_cells.sum(axis=1)
    for g in np.argsort(choices, kind="stable").tolist():
        if left[g] <= 0:
            continue
        cells = np.flatnonzero(open_cells[g] if left[g] <= choices[g] else expected[g] > 0)
        chosen = cells[np.argsort(-credit[cells], kind="stable")[: left[g]]]
        counts[g, chosen] += 1
        credit[chosen] -= 1.0
    return counts, credit
