"""What the round loop knows between two rounds: explicit, replaced as a whole, never changed.

A checkpoint is a `State` on disk; a fingerprint is a hash over what must be the same everywhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np

from mmfl.allocate import Assignments
from mmfl.exchange import ClientFailure, Params
from mmfl.faults import Fault, Offenders
from mmfl.loop.client_history import ClientTable
from mmfl.objectives import Measured

__all__ = ["ClientTable", "RoundRecord", "State", "extend_chain"]


@dataclass(frozen=True, eq=False)
class State:
    """The loop's state after a round; everything that the next round depends on.

    Attributes:
        round: t; 0 before the first.
        params: Each task's weights w_s, read-only from here on: the next round starts from them.
        versions: How many rounds each task has trained in.
        difficulty: f_s; NaN while unknown.
        measured: The last regular evaluation on the test split (`evaluate.every`); None = not yet.
        allocator: The allocator's own state.
        aggregator: The aggregator's own state, per task.
        clients: What is remembered about clients.
        chain: Running SHA-256 over assignments and scores so far.
        stale: Tasks that have trained since the evaluation in `measured`.
        lineage: `Experiment.lineage` of the experiment that this state belongs to.
        offenders: Clients whose updates were refused recently, or that are in quarantine.
        loss: Each task's loss where f_s was measured, if the aggregator wants it.
    """

    round: int
    params: Mapping[str, Params]
    versions: Mapping[str, int]
    difficulty: Mapping[str, float]
    measured: Mapping[str, Measured | None]
    allocator: Any
    aggregator: Mapping[str, Any]
    clients: ClientTable
    chain: str
    stale: frozenset[str]
    lineage: str
    offenders: Offenders = field(default_factory=dict)
    loss: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for weights in self.params.values():
            weights.flat.flags.writeable = False

    @classmethod
    def first(cls, params: Mapping[str, Params], lineage: str) -> State:
        """The state before round 1: Algorithm 1, line 1."""
        tasks = list(params)
        return cls(
            round=0,
            params=dict(params),
            versions=dict.fromkeys(tasks, 0),
            difficulty=dict.fromkeys(tasks, float("nan")),
            measured=dict.fromkeys(tasks),
            allocator=None,
            aggregator=dict.fromkeys(tasks),
            clients=ClientTable.empty(tasks),
            chain=hashlib.sha256(b"mmfl run").hexdigest(),
            stale=frozenset(tasks),
            lineage=lineage,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over assignments, scores and weights; equal runs have equal fingerprints."""
        digest = hashlib.sha256(bytes.fromhex(self.chain))
        for task in sorted(self.params):
            weights = self.params[task]
            digest.update(repr((task, weights.layout.entries)).encode())
            digest.update(weights.flat.astype("<f4", copy=False).tobytes())
        return digest.hexdigest()

    def replace(self, **changes: Any) -> State:
        """A state that differs in these fields."""
        return dataclasses.replace(self, **changes)


def extend_chain(
    chain: str,
    round: int,  # noqa: A002
    tasks: Sequence[str],
    assignments: Assignments,
    difficulty: Mapping[str, float],
) -> str:
    """The running hash after a round: by task name, its clients and its score."""
    digest = hashlib.sha256(bytes.fromhex(chain) + struct.pack("<q", round))
    # All clients once, task after task; a stable order of short numbers takes no comparisons.
    number = assignments.tasks.astype(np.uint16)
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=len(tasks)))
    by_task = np.split(assignments.clients[order].astype("<i8", copy=False), ends[:-1])
    for task in sorted(tasks):
        clients = by_task[tasks.index(task)]
        clients.sort(kind="stable")  # quick: allocators mostly go by ascending client
        digest.update(repr((task, len(clients))).encode())
        digest.update(clients.data)
        digest.update(struct.pack("<d", difficulty[task]))
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """What happened in a round; mappings are by task name.

    Attributes:
        round: t.
        tasks: The names, in the order of the assignment's task numbers.
        active: How many clients were active.
        assignments: Which client was assigned which task.
        clients: How many clients' updates each task accepted.
        samples: Training examples processed.
        failures: Turns that failed; and, with `turn` False, evaluations that failed and surplus
            answers.
        difficulty: f_s after the round.
        metric: Metric on the test split at the last evaluation; NaN before the first.
        loss: Loss on the test split at the last evaluation; NaN before the first.
        fresh: Whether the test split was evaluated after this round.
        seconds: The whole round.
        seconds_train: Training and aggregation.
        seconds_evaluate: Evaluation.
        seconds_aggregate: The part of `seconds_train` in which the coordinator checked, counted and
            aggregated the updates.
        seconds_clients: The clients' time, added up over all turns (workers run in parallel).
        faults: The injected faults and their outcomes.
        virtual: The round's duration in virtual seconds; NaN if clients have no speeds.
        turns: (client, task, loss at the start, norm, examples, seconds) of each accepted update.
    """

    round: int
    tasks: tuple[str, ...]
    active: int
    assignments: Assignments
    clients: Mapping[str, int]
    samples: int
    failures: tuple[ClientFailure, ...]
    difficulty: Mapping[str, float]
    metric: Mapping[str, float]
    loss: Mapping[str, float]
    fresh: bool
    seconds: float
    seconds_train: float
    seconds_evaluate: float
    seconds_aggregate: float = 0.0
    seconds_clients: float = 0.0
    faults: tuple[Fault, ...] = ()
    virtual: float = nan
    turns: Sequence[tuple[int, str, float, float, int, float]] = ()
