"""When a checkpoint is due. It has no influence on results, so it may look at the clock."""

from __future__ import annotations

from mmfl.experiment import Checkpoints

__all__ = ["CheckpointSchedule"]

SECONDS = 10.0
"""The interval, if none is set."""

PATIENCE = 20.0
"""An interval in seconds is at least this many times what the last checkpoint took: < 5%."""


class CheckpointSchedule:
    """Decides when a checkpoint is due, from rounds and times."""

    def __init__(self, settings: Checkpoints, *, round: int, now: float) -> None:  # noqa: A002
        """It starts counting now, after this round."""
        self._settings = settings
        self._round = round
        self._time = now
        self._cost = 0.0

    def due(self, round: int, now: float) -> bool:  # noqa: A002
        """Whether to save after this round."""
        settings = self._settings
        if not settings.keep:
            return False
        if settings.rounds is not None:
            return round - self._round >= settings.rounds
        wanted = SECONDS if settings.seconds is None else settings.seconds
        return now - self._time >= max(wanted, PATIENCE * self._cost)

    def note_saved(self, round: int, start: float, end: float) -> None:  # noqa: A002
        """A checkpoint was written in that time."""
        self._round, self._time, self._cost = round, end, end - start
