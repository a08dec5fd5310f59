"""One draw per client from its own probabilities, where no two clients need have the same."""

from __future__ import annotations

import numpy as np

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.rng import Stream

__all__ = ["draw_rows"]

_BLOCK = 1 << 8
"""How many clients are handled at a time: their numbers stay in the processor's cache."""


def draw_rows(view: View, odds: Floats, q: Floats, *, rng: Stream) -> Assignments:
    """At most one task for each active client; tasks are read in the order of their names.

    Args:
        view: The round.
        odds: (n, S) the proportions >= 0 of each client's probabilities.
        q: (n) what these add up to, from 0 to 1; with the rest of the probability, it rests.
        rng: The round's stream.
    """
    S = len(view.tasks)
    by_name = np.array(sorted(range(S), key=view.tasks.__getitem__), dtype=np.intp)
    in_order = bool((by_name == np.arange(S)).all())
    draws, drawn = rng.at(view.clients), np.full(len(q), S)
    p = np.zeros(len(q))
    for start in range(0, len(q), _BLOCK):
        some = slice(start, start + _BLOCK)
        own = odds[some] if in_order else odds[some, by_name]
        sums = np.cumsum(own, axis=1)
        total, share = sums[:, -1], q[some]
        # The last possible task ends at q exactly, whatever rounding errors say.
        trains = (draws[some] < share) & (total > 0)
        passed = draws[some] / np.where(trains, share, 1.0) * total
        passed = np.minimum(passed, np.nextafter(total, 0.0))
        first = (sums <= passed[:, None]).sum(axis=1)
        rows = np.flatnonzero(trains)
        drawn[start + rows] = first[rows]
        p[start + rows] = share[rows] * own[rows, first[rows]] / total[rows]
    rows = np.flatnonzero(drawn < S)
    return Assignments(view.clients[rows], by_name[drawn[rows]], np.minimum(p[rows], 1.0))
