"""Turns of a run that failed, by task, and tasks that never trained."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mmfl.errors import StoreError, one_line
from mmfl.runs.auction import read_recruitment
from mmfl.runs.store import RunStore

__all__ = ["TaskTurns", "find_troubles", "turns_by_task"]


_UNPLANNED = ("raised", "worker")
"""Reasons that no simulated fault has."""


@dataclass(frozen=True)
class TaskTurns:
    """What became of a task's turns.

    Attributes:
        accepted: Updates that were accepted.
        failed: Turns that failed, or whose update was refused.
        reason: Why, most often; "" if none failed.
        left_out: Whether the auction left the task out.
        nobody: Whether there was no client that could train it, for another reason.
    """

    accepted: int
    failed: int = 0
    reason: str = ""
    left_out: bool = False
    nobody: bool = False

    @property
    def trained(self) -> bool:
        """Whether the task's model was ever changed."""
        return self.accepted > 0

    @property
    def broken(self) -> bool:
        """Whether the task never trained although it should have: a failure of the run.

        A task that the auction left out, or that got no turn by chance, does not count.
        """
        return not self.trained and (self.failed > 0 or self.nobody)

    @property
    def why(self) -> str:
        """Why the task never trained, as the end of a sentence; "" if it did."""
        if self.trained:
            return ""
        if self.failed:
            return f"all {self.failed:,} turns failed; most common reason: {self.reason}"
        if self.nobody:
            return "no client could train it"
        return "the auction left it out" if self.left_out else "it got no turn"


def find_troubles(outcomes: Mapping[str, TaskTurns], *, faults: bool) -> Iterator[str]:
    """A sentence for each task that never trained, or whose turns failed and not by a plan.

    Args:
        outcomes: What became of each task's turns.
        faults: Whether faults were simulated.
    """
    for name, turns in outcomes.items():
        if turns.broken:
            yield f"task {name!r} never trained: {turns.why}"
        elif turns.failed and (not faults or turns.reason.startswith(_UNPLANNED)):
            yield (
                f"{turns.failed:,} of {turns.failed + turns.accepted:,} turns of task {name!r} "
                f"failed; most common reason: {turns.reason}"
            )


def turns_by_task(store: RunStore) -> dict[str, TaskTurns]:
    """From task to what became of its turns."""
    query = "SELECT task, total(clients) FROM round_task GROUP BY task"
    accepted: dict[int, float] = dict(store.rows(query))
    failed: dict[str, tuple[int, str]] = {}
    if store.has("failure", "turn"):
        for name, reason, detail, count in store.rows(
            "SELECT name, reason, min(detail), count(*) FROM failure "
            "JOIN task ON number = failure.task WHERE turn GROUP BY number, reason "
            "ORDER BY count(*) DESC, reason"
        ):
            before, first = failed.get(name, (0, f"{reason}: {detail}"))
            failed[name] = (before + count, first)
    auction = read_recruitment(store)
    none = {} if auction is None else {n: task.take_up == 0 for n, task in auction.tasks.items()}
    unable = _names(store)
    found = {}
    for task, name, *_ in store.tasks():
        number, reason = failed.get(name, (0, ""))
        count = int(accepted.get(task, 0))
        left_out = none.get(name, False)
        nobody = name in unable and not left_out
        found[name] = TaskTurns(int(count), number, one_line(reason), left_out, nobody)
    return found


def _names(store: RunStore) -> list[str]:
    """The tasks that no client could train, as the run wrote them down."""
    try:
        found = json.loads(store.meta().get("untrainable", "[]"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise StoreError(f"the run in {str(store.folder)!r}: meta.untrainable is malformed")
    return found
