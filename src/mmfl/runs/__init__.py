"""Run directories: written, read, and compared."""

from mmfl.runs.runner import Run, StoredRounds, run, stored_rounds
from mmfl.runs.store import RunStore

__all__ = ["Run", "RunStore", "StoredRounds", "run", "stored_rounds"]
