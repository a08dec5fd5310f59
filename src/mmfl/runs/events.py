"""What happened in a run, in order: starts, the auction, rounds with their failures, the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mmfl.runs.auction import read_recruitment
from mmfl.runs.environment import made_with
from mmfl.runs.records import FailureRow, FaultRow
from mmfl.runs.result import status_of
from mmfl.runs.store import RunStore

__all__ = ["Event", "read_events"]


class Event(NamedTuple):
    """One thing that happened.

    Attributes:
        kind: "start", "resume", "auction", "round" or "end".
        round: The last finished round then; of a round, its own number.
        about: The details, as JSON has them.
    """

    kind: str
    round: int
    about: dict[str, Any]

    def as_data(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"event": self.kind, "round": self.round, **self.about}


def read_events(store: RunStore, after: int = 0) -> Iterator[Event]:
    """The events of a run after a round, in order; from 0 on with the start and the auction.

    A resume goes back to a round, so rounds before it that were done twice are there once.
    """
    environment = store.environment()
    resumed = environment.get("resumed")
    resumes = resumed if isinstance(resumed, list) else []
    starts = [one for one in resumes if isinstance(one, Mapping)]
    if not after:
        yield Event("start", 0, _describe_session(environment))
        hired = read_recruitment(store)
        if hired is not None:
            yield Event("auction", 0, dataclasses.asdict(hired))
    last = after
    for event in _read_rounds(store, after):
        yield from _resumes(starts, event.round - 1, event.round)
        yield event
        last = event.round
    yield from _resumes(starts, last, last + 1) if last else ()
    status = status_of(store.meta(), store.folder)
    if status != "running":
        yield Event("end", last, _describe_end(store, status))


def _resumes(starts: list[Mapping[str, Any]], first: int, before: int) -> Iterator[Event]:
    """The times that the run was resumed after one of these rounds."""
    for one in starts:
        round_ = one.get("after_round")
        if isinstance(round_, int) and first <= round_ < before:
            yield Event("resume", round_, _describe_session(one))


def _describe_session(session: Mapping[str, Any]) -> dict[str, Any]:
    """When and by what a run was started or resumed."""
    command = session.get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    time = session.get("started")
    return {
        "time": time if isinstance(time, str) else None,
        "command": words,
        "made_with": made_with(session),
    }


def _describe_end(store: RunStore, status: str) -> dict[str, Any]:
    meta = store.meta()
    return {
        "status": status,
        "reason": meta.get("reason", ""),
        "fingerprint": meta.get("fingerprint", ""),
        "damage": store.damage,
    }


def _read_rounds(store: RunStore, after: int) -> Iterator[Event]:
    """The rounds after a round, with their tasks, failures and faults."""
    last = "virtual, quarantined" if store.has("round", "virtual") else "NULL, NULL"
    turn = "turn" if store.has("failure", "turn") else "1"
    rounds = store.rows(
        f"SELECT round, active, seconds, {last} FROM round WHERE round > ? ORDER BY round", after
    )
    names = {number: name for number, name, *_ in store.tasks()}
    tasks: dict[int, dict[str, Any]] = {}
    failures: dict[int, list[dict[str, Any]]] = {}
    faults: dict[int, list[dict[str, Any]]] = {}
    for t, task, *row in store.rows(
        "SELECT round, task, clients, metric, loss, difficulty FROM round_task WHERE round > ? "
        "ORDER BY round, task",
        after,
    ):
        columns = ("clients", "metric", "loss", "difficulty")
        tasks.setdefault(t, {})[names[task]] = dict(zip(columns, row, strict=True))
    for t, client, task, *row in store.rows(
        f"SELECT round, client, task, reason, detail, {turn} FROM failure WHERE round > ?", after
    ):
        failure = FailureRow(t, client, names[task], row[0], row[1], bool(row[2]))
        failures.setdefault(t, []).append(_without_round(failure))
    if store.has("fault"):
        for t, client, task, *row in store.rows(
            "SELECT round, client, task, kind, outcome FROM fault WHERE round > ?", after
        ):
            fault = FaultRow(t, client, names[task], *row)
            faults.setdefault(t, []).append(_without_round(fault))
    for t, active, seconds, virtual, quarantined in rounds:
        yield Event(
            "round",
            t,
            {
                "active": active,
                "seconds": seconds,
                "virtual": virtual,
                "quarantined": quarantined,
                "tasks": tasks.get(t, {}),
                "failures": failures.get(t, []),
                "faults": faults.get(t, []),
            },
        )


def _without_round(row: FailureRow | FaultRow) -> dict[str, Any]:
    found = row._asdict()
    del found["round"]
    return found
