"""``[checkpoints]``: when a run is saved."""

from __future__ import annotations

from mmfl.config import Count, Natural, Positive, component

__all__ = ["Checkpoints"]


@component
class Checkpoints:
    """``[checkpoints]``: how often a run is saved; no influence on its result.

    Attributes:
        rounds: Rounds between two checkpoints.
        seconds: After a round, if so much time has passed since the last one (10 unless `rounds` is
            set); or 20 times what the last one took to be written, if that is longer.
        keep: How many are kept; 0 = none are written.
    """

    rounds: Count | None = None
    seconds: Positive | None = None
    keep: Natural = 3

    def __post_init__(self) -> None:
        if self.rounds is not None and self.seconds is not None:
            raise ValueError(
                f"takes rounds or seconds, not both, got {self.rounds} and {self.seconds:g}"
            )
