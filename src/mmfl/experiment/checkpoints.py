"""``[checkpoints]``: when a run is saved."""

from __future__ import annotations

from mmfl.config import Count, Natural, Positive, component

__all__ = ["Checkpoints"]


@component
class Checkpoints:
    """``[checkpoints]``: how often a run is saved. This does not affect its result.

    Attributes:
        rounds: Rounds between two checkpoints.
        seconds: Minimum time between two checkpoints (10 unless `rounds` is set), or 20 times as
            long as the last one took to write, if that is longer.
        keep: How many to keep; with 0, none are written.
    """

    rounds: Count | None = None
    seconds: Positive | None = None
    keep: Natural = 3

    def __post_init__(self) -> None:
        if self.rounds is not None and self.seconds is not None:
            raise ValueError(
                f"takes rounds or seconds, not both, got {self.rounds} and {self.seconds:g}"
            )
