"""What aggregators that need individual updates share: blocks of coordinates, and the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from mmfl.exchange import ClientUpdate, Flat, Params

__all__ = ["apply_step", "coordinatewise", "deltas_of"]

Doubles = npt.NDArray[np.float64]

COORDINATES = 1 << 14
"""How many coordinates of all updates are handled together."""


def deltas_of(updates: Iterable[ClientUpdate]) -> list[Flat]:
    """The changes as flat vectors."""
    found = []
    for update in updates:
        assert isinstance(update.delta, Params), "only checked updates are aggregated"
        found.append(update.delta.flat)
    return found


def apply_step(params: Params, step: Doubles, mean: Doubles | None = None) -> Params:
    """The weights after a step, in new memory.

    Args:
        params: The weights before.
        step: What is added to them; it is overwritten.
        mean: What is added to running statistics instead: they are averaged.
    """
    if mean is not None:
        for place in params.layout.statistics:
            step[place] = mean[place]
    return Params(params.layout, (params.flat + step).astype(np.float32))


def coordinatewise(
    params: Params, updates: Iterable[ClientUpdate], rule: Callable[[Doubles], Doubles]
) -> Params:
    """The weights after a step that a rule computes from the updates, coordinate by coordinate.

    Args:
        params: The weights.
        updates: Any number of updates; without any, nothing changes.
        rule: From (n updates, some coordinates) to the step in these coordinates.
    """
    deltas = deltas_of(updates)
    step = np.zeros(params.layout.size)
    for start in range(0, len(step) if deltas else 0, COORDINATES):
        some = slice(start, start + COORDINATES)
        step[some] = rule(np.array([delta[some] for delta in deltas], np.float64))
    return apply_step(params, step)
