"""The auction of a run, in its directory: what was bid, who was recruited, what was paid.

In `run.sqlite`, table `auction` has a row for each task: willing clients, full winners, take-up,
price (NULL if winners' pay differs), spend, and all bids as a zlib-compressed blob of little-endian
float64, in the order of the federation's clients. Table `award` has a row for each client and task
with participation above 0; `paid` is what is paid in the end, NULL before the run has finished.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.config import dump
from mmfl.errors import StoreError
from mmfl.loop import RecruitedClients, compute_payments
from mmfl.market import MECHANISMS
from mmfl.runs.assignments import unpack_assignments
from mmfl.runs.store import RunStore

__all__ = [
    "StoredRecruitment",
    "TaskRecruitment",
    "read_bids",
    "read_recruitment",
    "save_recruitment",
    "settle",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_INFLATED = 1 << 30
"""The most bytes that the bids for a task may take."""


@dataclass(frozen=True)
class TaskRecruitment:
    """What the auction did for one task.

    Attributes:
        willing: How many clients were willing to train it.
        winners: How many were recruited, fractional ones left out.
        take_up: How many were recruited, fractions included.
        price: What each winner is paid; None if that differs, or nobody won.
        spend: What is promised for it.
        paid: What was paid for it in the end; None before the run has finished.
    """

    willing: int
    winners: int
    take_up: float
    price: float | None
    spend: float
    paid: float | None


@dataclass(frozen=True)
class StoredRecruitment:
    """A run's auction as its directory has it.

    Attributes:
        mechanism: Its kind.
        budget: B; None if it has none.
        stop: Why no more joined; None where this is not said.
        tasks: By task.
    """

    mechanism: str
    budget: float | None
    stop: str | None
    tasks: dict[str, TaskRecruitment]

    @property
    def spent(self) -> float:
        """What is promised in all."""
        return sum(task.spend for task in self.tasks.values())

    @property
    def paid(self) -> float | None:
        """What was paid in the end in all; None before the run has finished."""
        amounts = [task.paid for task in self.tasks.values()]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) if len(known) == len(amounts) else None

    @property
    def min_take_up(self) -> float:
        """The take-up of the task that recruited least."""
        return min(task.take_up for task in self.tasks.values())


def save_recruitment(store: RunStore, recruited: RecruitedClients, ids: Ints) -> None:
    """Write an auction's bids and outcome.

    Args:
        store: The run.
        recruited: Who won what.
        ids: The clients' ids, in the order of the bids' rows.
    """
    outcome = recruited.outcome
    mechanism = recruited.settings.mechanism
    budget = getattr(mechanism, "budget", None)
    told = {"kind": MECHANISMS.kind_of(mechanism), "budget": budget, "stop": outcome.stop}
    store.write(
        "INSERT INTO auction VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                s,
                int(outcome.bids.willing[s]),
                len(outcome.winners[s]),
                float(outcome.take_up[s]),
                outcome.price[s],
                float(outcome.spend[s]),
                zlib.compress(outcome.bids.values[:, s].astype("<f8").tobytes(), 1),
            )
            for s in range(len(outcome.bids.tasks))
        ],
    )
    rows, columns = np.nonzero(outcome.participation > 0)
    cells = (outcome.bids.values, outcome.participation, outcome.payment)
    numbers = [cell[rows, columns].tolist() for cell in cells]
    store.write(
        "INSERT INTO award VALUES (?, ?, ?, ?, ?, NULL)",
        zip(columns.tolist(), ids[rows].tolist(), *numbers, strict=True),
    )
    # Comes last: a run that says that it had an auction has all of it.
    store.note(auction=json.dumps(told), mechanism=json.dumps(dump(mechanism), default=repr))


def settle(store: RunStore, recruited: RecruitedClients, ids: Ints) -> None:
    """Write what is paid in the end, by the turns that the run's rounds record."""
    asked = np.zeros(recruited.able.shape, dtype=np.int64)
    failed = asked.copy()
    if recruited.settings.dropouts != "paid":
        for (blob,) in store.rows("SELECT assignment FROM round"):
            turns = unpack_assignments(blob)
            np.add.at(asked, (np.searchsorted(ids, turns.clients), turns.tasks), 1)
        for task, client in store.rows("SELECT task, client FROM failure WHERE turn"):
            failed[np.searchsorted(ids, client), task] += 1
    paid = compute_payments(recruited, asked, asked - failed)
    rows, columns = np.nonzero(recruited.outcome.participation > 0)
    amounts = paid[rows, columns].tolist()
    store.write(
        "UPDATE award SET paid = ? WHERE task = ? AND client = ?",
        zip(amounts, columns.tolist(), ids[rows].tolist(), strict=True),
    )


def read_recruitment(store: RunStore) -> StoredRecruitment | None:
    """A run's auction; None if it had none."""
    told = store.meta().get("auction")
    if told is None:
        return None
    try:
        found = json.loads(told)
        mechanism, budget, stop = str(found["kind"]), found["budget"], found["stop"]
        if not isinstance(budget, int | float | None) or not isinstance(stop, str | None):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreError(f"the run in {str(store.folder)!r} is damaged: meta.auction") from None
    tasks = {}
    finished = store.meta().get("status") == "finished"
    for name, willing, winners, take_up, price, spend, paid in store.rows(
        "SELECT name, willing, winners, take_up, price, spend, "
        "(SELECT total(paid) FROM award WHERE award.task = number) "
        "FROM auction JOIN task ON number = auction.task ORDER BY number"
    ):
        given = paid if finished else None
        tasks[name] = TaskRecruitment(willing, winners, take_up, price, spend, given)
    if not tasks:
        raise StoreError(f"the run in {str(store.folder)!r} is damaged: it has no table auction")
    return StoredRecruitment(mechanism, budget, stop, tasks)


def read_bids(store: RunStore) -> dict[str, Floats]:
    """From task to all clients' bids, in the order of the clients; inf is unwilling."""
    found = {}
    if store.has("auction", "bids"):
        query = "SELECT name, bids FROM auction JOIN task ON number = auction.task ORDER BY number"
        for name, blob in store.rows(query):
            inflating = zlib.decompressobj()
            try:
                data = inflating.decompress(blob, _INFLATED)
            except zlib.error:
                data = b"?"
            if len(data) % 8 or not inflating.eof:
                raise StoreError(f"the run in {str(store.folder)!r} is damaged: the bids")
            found[name] = np.frombuffer(data, "<f8").astype(np.float64)
    if len({bids.size for bids in found.values()}) > 1:
        raise StoreError(f"the run in {str(store.folder)!r} is damaged: the bids")
    return found
