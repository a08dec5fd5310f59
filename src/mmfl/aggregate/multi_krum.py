"""The mean of the updates that lie closest to their neighbours (Blanchard et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.aggregate.collected import COORDINATES, apply_step, deltas_of
from mmfl.config import component
from mmfl.exchange import ClientUpdate, Flat, Params

__all__ = ["MultiKrum"]


@component
class MultiKrum:
    """The mean of the n - f updates with the best scores; data sizes are ignored.

    An update's score is the sum of its squared distances to its n - f - 2 nearest neighbours, where
    f is how many of the n updates may be bad. The method requires n >= 2 f + 3: with fewer updates,
    f is as large as that allows.

    Attributes:
        bad: The share of updates that may be bad: f = bad * n, rounded down.
    """

    bad: Annotated[float, Strict(), Field(ge=0, lt=0.5)] = 0.2

    mergeable: ClassVar[Literal[False]] = False

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights."""
        deltas = deltas_of(updates)
        step = np.zeros(params.layout.size)
        chosen = self.choose(deltas)
        for number in chosen:
            step += deltas[number]
        return apply_step(params, step / max(1, len(chosen))), state

    def choose(self, deltas: list[Flat]) -> list[int]:
        """The indices of the chosen updates, ascending; among equal scores the first."""
        n = len(deltas)
        f = max(0, min(int(self.bad * n), (n - 3) // 2))
        nearest = np.sort(_squared_distances(deltas), axis=1)[:, 1 : 1 + max(0, n - f - 2)]
        best = np.argsort(nearest.sum(axis=1), kind="stable")[: n - f]
        return sorted(best.tolist())


def _squared_distances(deltas: list[Flat]) -> npt.NDArray[np.float64]:
    """Between every two updates, from differences: products would cancel for similar updates."""
    n = len(deltas)
    found = np.zeros((n, n))
    for start in range(0, len(deltas[0]) if deltas else 0, COORDINATES):
        block = np.array([delta[start : start + COORDINATES] for delta in deltas], np.float64)
        for number in range(1, n):
            apart = block[:number] - block[number]
            found[number, :number] += np.einsum("ij,ij->i", apart, apart)
    return found + found.T
