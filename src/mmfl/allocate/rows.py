"""One draw per client from its own probabilities, where no two clients need have the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.rng import Stream

__all__ = ["draw_rows"]

_ALL = 1.0 - 1e-9
"""A row with a larger sum adds up to 1."""


def draw_rows(view: View, p: Floats, *, rng: Stream) -> Assignments:
    """At most one task for each active client; tasks are read in the order of their names.

    Args:
        view: The round.
        p: (n, S) each client's probabilities; what a row lacks to 1 is the probability to rest.
        rng: The round's stream.
    """
    by_name = np.array(sorted(range(len(view.tasks)), key=view.tasks.__getitem__), dtype=np.intp)
    p = p[:, by_name]
    sums = np.cumsum(p, axis=1)
    draws = rng.at(view.clients)
    total = sums[:, -1] if len(view.tasks) else np.zeros(len(p))
    # In a row that adds up to 1 but for rounding errors, no draw may lie beyond the sum.
    full = total > _ALL
    draws[full] = np.minimum(draws[full], np.nextafter(total[full], 0.0))
    drawn: npt.NDArray[np.intp] = (sums <= draws[:, None]).sum(axis=1)
    rows = np.flatnonzero(drawn < p.shape[1])
    drawn = drawn[rows]
    return Assignments(view.clients[rows], by_name[drawn], p[rows, drawn])
