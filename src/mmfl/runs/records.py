"""The tables of a run as records: what `pandas.DataFrame` and `polars.DataFrame` take as it is.

A record is a named tuple. None stands for what was not measured, or is not known.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mmfl.errors import InputError, StoreError, did_you_mean
from mmfl.runs.assignments import unpack_assignments, unpack_turns
from mmfl.runs.store import RunStore

__all__ = [
    "RECORDS",
    "AuctionRow",
    "AwardRow",
    "ClientRow",
    "FailureRow",
    "FaultRow",
    "MetricRow",
    "RoundRow",
    "TaskRow",
    "TurnRow",
    "read_clients",
    "read_records",
]


class TaskRow(NamedTuple):
    """A task: the name of its metric, which of its values is better, and its target."""

    task: str
    metric: str
    better: str
    target: float | None


class ClientRow(NamedTuple):
    """A client that has a name, such as a hospital."""

    client: int
    name: str


class RoundRow(NamedTuple):
    """A round.

    Attributes:
        round: Its number, from 1.
        active: How many clients were active.
        samples: Training examples processed, each pass counted.
        evaluated: Whether the test split was evaluated after it.
        seconds: Its time.
        seconds_train: Of that, training and aggregation.
        seconds_evaluate: Of that, evaluation.
        virtual: Its duration in virtual seconds; None if clients have no speeds.
        quarantined: How many clients were in quarantine after it; None in runs of old versions.
    """

    round: int
    active: int
    samples: int
    evaluated: bool
    seconds: float
    seconds_train: float
    seconds_evaluate: float
    virtual: float | None
    quarantined: int | None


class MetricRow(NamedTuple):
    """A task after a round.

    Attributes:
        round: The round.
        task: The task.
        clients: How many updates were accepted.
        version: In how many rounds it has trained so far.
        difficulty: f_s; None while unknown.
        metric: Metric on the test split at the last evaluation; None before the first.
        loss: Loss on the test split at the last evaluation; None before the first.
    """

    round: int
    task: str
    clients: int
    version: int
    difficulty: float | None
    metric: float | None
    loss: float | None


class TurnRow(NamedTuple):
    """A client's turn at a task; in the order of rounds, tasks and clients.

    The last four are None if no update was accepted, and in runs of versions of mmfl that did not
    store them.

    Attributes:
        round: The round.
        client: The client's id.
        task: The task that it was assigned.
        accepted: Whether its update was accepted; why not, is in the failures.
        examples: How many examples of the task the client holds.
        loss: The loss of the turn's first batch, at the weights received.
        norm: The Euclidean norm of the update.
        seconds: How long it took; the only one that differs from run to run.
    """

    round: int
    client: int
    task: str
    accepted: bool
    examples: int | None
    loss: float | None
    norm: float | None
    seconds: float | None


class FailureRow(NamedTuple):
    """A failure of a client.

    Attributes:
        round: The round.
        client: The client's id.
        task: The task.
        reason: A word.
        detail: A sentence.
        turn: Whether a turn failed; else it was an evaluation, or an answer too many.
    """

    round: int
    client: int
    task: str
    reason: str
    detail: str
    turn: bool


class FaultRow(NamedTuple):
    """An injected fault, and its outcome: "lost", "refused" or "accepted"."""

    round: int
    client: int
    task: str
    kind: str
    outcome: str


class AuctionRow(NamedTuple):
    """What the auction did for a task; see `mmfl.runs.auction.TaskRecruitment`."""

    task: str
    willing: int
    winners: int
    take_up: float
    price: float | None
    spend: float


class AwardRow(NamedTuple):
    """What a client won in the auction.

    Attributes:
        client: The client's id.
        task: The task.
        bid: Its bid.
        participation: The share for which it was recruited.
        payment: What it was promised.
        paid: What it is paid in the end; None before the run has finished.
    """

    client: int
    task: str
    bid: float
    participation: float
    payment: float
    paid: float | None


def read_records(store: RunStore, table: str) -> Iterator[Any]:
    """The records of one of the tables in `RECORDS`; none if an older format does not have it."""
    if table not in RECORDS:
        raise InputError(f"a run has no table {table!r}; {did_you_mean(table, RECORDS)}")
    return RECORDS[table][1](store)


def _read_tasks(store: RunStore) -> Iterator[TaskRow]:
    query = "SELECT name, metric, better, target FROM task ORDER BY number"
    return (TaskRow(*row) for row in store.rows(query))


def read_clients(store: RunStore) -> Iterator[ClientRow]:
    """The clients that have names."""
    names = store.environment().get("clients")
    known = names if isinstance(names, list) else []
    return (ClientRow(client, str(name)) for client, name in enumerate(known))


def _read_rounds(store: RunStore) -> Iterator[RoundRow]:
    last = "virtual, quarantined" if store.has("round", "virtual") else "NULL, NULL"
    query = "SELECT round, active, samples, fresh, seconds, seconds_train, seconds_evaluate"
    for row in store.rows(f"{query}, {last} FROM round ORDER BY round"):
        yield RoundRow(*row)._replace(evaluated=bool(row[3]))


def _read_metrics(store: RunStore) -> Iterator[MetricRow]:
    query = "SELECT round, name, clients, version, difficulty, round_task.metric, loss"
    join = "FROM round_task JOIN task ON number = task ORDER BY round, number"
    return (MetricRow(*row) for row in store.rows(f"{query} {join}"))


def _read_turns(store: RunStore) -> Iterator[TurnRow]:
    names = [name for _, name, *_ in store.tasks()]
    stored = store.has("round", "turns")
    query = f"SELECT assignment, {'turns' if stored else 'NULL'} FROM round WHERE round = ?"
    for (t,) in store.rows("SELECT round FROM round ORDER BY round"):
        ((assignment, blob),) = store.rows(query, t)
        turns = unpack_assignments(assignment)
        if turns.tasks.max(initial=0) >= len(names):
            raise StoreError(f"round {t} of the run assigns clients to a task that does not exist")
        order = np.lexsort((turns.clients, turns.tasks))
        whose = zip(turns.clients[order].tolist(), turns.tasks[order].tolist(), strict=True)
        if stored:
            columns = [column[order].tolist() for column in unpack_turns(blob, turns)]
            ends = zip(*columns, strict=True)
            for (client, task), end in zip(whose, ends, strict=True):
                yield TurnRow(t, client, names[task], *(end if end[0] else _FAILED))
        else:
            failed = _read_failed(store, t)
            for client, task in whose:
                accepted = (client, task) not in failed
                yield TurnRow(t, client, names[task], accepted, *_FAILED[1:])


_FAILED = (False, None, None, None, None)


def _read_failed(store: RunStore, t: int) -> set[tuple[int, int]]:
    """Clients and tasks of the turns of a round that failed, in a run of an older format."""
    where = "AND turn" if store.has("failure", "turn") else ""
    return set(store.rows(f"SELECT client, task FROM failure WHERE round = ? {where}", t))


def _read_failures(store: RunStore) -> Iterator[FailureRow]:
    turn = "turn" if store.has("failure", "turn") else "1"
    query = f"SELECT round, client, name, reason, detail, {turn} FROM failure"
    for row in store.rows(f"{query} JOIN task ON number = failure.task ORDER BY failure.rowid"):
        yield FailureRow(*row)._replace(turn=bool(row[5]))


def _read_faults(store: RunStore) -> Iterator[FaultRow]:
    query = "SELECT round, client, name, kind, outcome FROM fault JOIN task ON number = fault.task"
    if store.has("fault"):
        yield from (FaultRow(*row) for row in store.rows(f"{query} ORDER BY fault.rowid"))


def _read_auction(store: RunStore) -> Iterator[AuctionRow]:
    query = "SELECT name, willing, winners, take_up, price, spend FROM auction"
    if store.has("auction", "task"):
        for row in store.rows(f"{query} JOIN task ON number = auction.task ORDER BY number"):
            yield AuctionRow(*row)


def _read_awards(store: RunStore) -> Iterator[AwardRow]:
    paid = "paid" if store.meta().get("status") == "finished" else "NULL"
    query = f"SELECT client, name, bid, participation, payment, {paid} FROM award"
    if store.has("award", "task"):
        for row in store.rows(f"{query} JOIN task ON number = award.task ORDER BY number, client"):
            yield AwardRow(*row)


Reader = Callable[[RunStore], Iterator[Any]]

RECORDS: dict[str, tuple[type[Any], Reader]] = {
    "tasks": (TaskRow, _read_tasks),
    "clients": (ClientRow, read_clients),
    "rounds": (RoundRow, _read_rounds),
    "metrics": (MetricRow, _read_metrics),
    "turns": (TurnRow, _read_turns),
    "failures": (FailureRow, _read_failures),
    "faults": (FaultRow, _read_faults),
    "auction": (AuctionRow, _read_auction),
    "awards": (AwardRow, _read_awards),
}
"""From a table's name to its records' type, and what reads them."""
