"""Run directories: written, read, and compared."""

from mmfl.runs.result import Run
from mmfl.runs.runner import StoredRounds, run, stored_rounds
from mmfl.runs.store import RunStore

__all__ = ["Run", "RunStore", "StoredRounds", "run", "stored_rounds"]
