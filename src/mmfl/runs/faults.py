"""The injected faults of a run, read from its directory.

In `run.sqlite`, table `fault` has a row for each injected fault: round, task, client, kind and
outcome ("lost", "refused" or "accepted"). In table `round`, `virtual` is the round's duration in
virtual seconds (NULL if clients have no speeds) and `quarantined` says how many clients are in
quarantine after it. Run directories from before there were faults have none of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmfl.runs.store import RunStore

__all__ = ["FaultCount", "Tally", "count_faults", "count_quarantined", "longest", "tallies"]


@dataclass(frozen=True)
class Tally:
    """The outcomes of one kind of fault.

    Attributes:
        injected: How often it was made to happen.
        lost: Of that, turns from which nothing arrived in time.
        refused: What the checks stopped.
        accepted: What the checks could not know.
    """

    injected: int
    lost: int
    refused: int
    accepted: int


@dataclass(frozen=True)
class FaultCount:
    """How often a client misbehaved in a task, and the outcome.

    Attributes:
        task: The task's name.
        client: The client's id.
        kind: What it did.
        outcome: "lost", "refused" or "accepted".
        number: How often.
    """

    task: str
    client: int
    kind: str
    outcome: str
    number: int


def tallies(store: RunStore) -> dict[str, Tally]:
    """By kind of fault, in alphabetical order; nothing if there were none."""
    if not store.has("fault"):
        return {}
    found = store.rows(
        "SELECT kind, count(*), sum(outcome = 'lost'), sum(outcome = 'refused'), "
        "sum(outcome = 'accepted') FROM fault GROUP BY kind ORDER BY kind"
    )
    return {kind: Tally(*numbers) for kind, *numbers in found}


def count_faults(store: RunStore) -> list[FaultCount]:
    """By task, client, kind and outcome, in this order."""
    if not store.has("fault"):
        return []
    found = store.rows(
        "SELECT name, client, kind, outcome, count(*) FROM fault JOIN task ON number = fault.task "
        "GROUP BY number, client, kind, outcome ORDER BY number, client, kind, outcome"
    )
    return [FaultCount(*row) for row in found]


def longest(store: RunStore) -> float | None:
    """The longest round in virtual seconds; None if clients had no speeds."""
    if not store.has("round", "virtual"):
        return None
    found: float | None = store.rows("SELECT max(virtual) FROM round")[0][0]
    return found


def count_quarantined(store: RunStore) -> int:
    """How many clients are in quarantine after the last round."""
    if not store.has("round", "quarantined"):
        return 0
    found = store.rows("SELECT quarantined FROM round ORDER BY round DESC LIMIT 1")
    return int(found[0][0]) if found else 0
