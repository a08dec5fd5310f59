"""The median of the updates in each coordinate (Yin et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from mmfl.aggregate.collected import coordinatewise
from mmfl.config import component
from mmfl.exchange import ClientUpdate, Params

__all__ = ["Median"]


@component
class Median:
    """w <- w + median of the changes, coordinate by coordinate; data sizes are ignored.

    As long as fewer than half of a task's updates are bad, each coordinate stays within the range
    of the good ones.
    """

    mergeable: ClassVar[Literal[False]] = False

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """The task's new weights."""
        return coordinatewise(params, updates, lambda block: np.median(block, axis=0)), state
