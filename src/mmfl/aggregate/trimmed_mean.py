"""The mean of each coordinate without its extremes (Yin et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.aggregate.collected import coordinatewise
from mmfl.config import component
from mmfl.exchange import ClientUpdate, Params

__all__ = ["TrimmedMean"]


@component
class TrimmedMean:
    """w <- w + mean of the changes without the largest and smallest, coordinate by coordinate.

    Data sizes are ignored. As long as at most `trim` of a task's updates are bad (rounded down to
    whole updates), each coordinate stays within the range of the good ones.

    Attributes:
        trim: The share of the updates that is left out at each end.
    """

    trim: Annotated[float, Strict(), Field(ge=0, lt=0.5)] = 0.2

    mergeable: ClassVar[Literal[False]] = False

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights."""
        return coordinatewise(params, updates, self._mean), state

    def _mean(self, block: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        out = int(self.trim * len(block))
        block.sort(axis=0)
        left: npt.NDArray[np.float64] = block[out : len(block) - out].mean(axis=0)
        return left
