"""What a report says about one run besides its curves, read from its opened directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mmfl.report.document.turns import TurnSummary, summarise_turns
from mmfl.runs import (
    Run,
    RunStore,
    read_bids,
    read_records,
    read_turn_table,
)

__all__ = ["FailureCount", "RunFacts", "read_facts"]


class FailureCount(NamedTuple):
    """How often turns or evaluations of a task failed for a reason, with an example."""

    task: str
    reason: str
    number: int
    example: str


@dataclass(frozen=True, eq=False)
class RunFacts:
    """What a report says about one run.

    Attributes:
        run: Its results, state and times.
        environment: Its environment.json.
        seconds: By round: all, training, evaluation.
        quarantined: The most clients that were in quarantine after a round.
        turns: What became of its turns, and the map of them.
        failures: By task and reason, the most frequent first.
        failed_rounds: The rounds of failed turns.
        awards: Who was recruited for what.
        bids: From task to all clients' bids.
    """

    run: Run
    environment: Mapping[str, Any]
    seconds: npt.NDArray[np.float64]
    quarantined: int
    turns: TurnSummary
    failures: tuple[FailureCount, ...]
    failed_rounds: npt.NDArray[np.int64]
    awards: tuple[Any, ...]
    bids: Mapping[str, npt.NDArray[np.float64]]


def read_facts(store: RunStore) -> RunFacts:
    """Read a run from its opened directory."""
    rounds = list(read_records(store, "rounds"))
    seconds = [(row.seconds, row.seconds_train, row.seconds_evaluate) for row in rounds]
    return RunFacts(
        run=Run.of(store),
        environment=store.environment(),
        seconds=np.array(seconds, np.float64).reshape(len(rounds), 3),
        quarantined=max((row.quarantined or 0 for row in rounds), default=0),
        turns=summarise_turns(read_turn_table(store), len(rounds), len(store.tasks())),
        failures=tuple(_count_failures(store)),
        failed_rounds=_find_failed_rounds(store),
        awards=tuple(read_records(store, "awards")),
        bids=read_bids(store),
    )


def _count_failures(store: RunStore) -> list[FailureCount]:
    # What is sent twice is refused, and costs nothing: the first one stands.
    query = (
        "SELECT name, reason, count(*), min(detail) FROM failure "
        "JOIN task ON number = failure.task WHERE reason != 'duplicate' "
        "GROUP BY number, reason ORDER BY count(*) DESC, number, reason"
    )
    return [FailureCount(*row) for row in store.rows(query)]


def _find_failed_rounds(store: RunStore) -> npt.NDArray[np.int64]:
    rows = store.rows("SELECT round FROM failure WHERE reason != 'duplicate' ORDER BY round")
    return np.array([t for (t,) in rows], np.int64)
