"""The allocator protocol: who trains what this round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from mmfl.rng import Stream

__all__ = [
    "Allocator",
    "Assignment",
    "Assignments",
    "NoMemory",
    "Remembered",
    "View",
    "first_fault",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Remembered(Protocol):
    """What is known of clients' earlier turns."""

    def rows(self, ids: Ints, tasks: Sequence[str]) -> tuple[Ints, Floats, Floats]:
        """(n, S) each: how many there were, the last one's loss and the norm of its update."""
        ...

    def turns(self, tasks: Sequence[str]) -> Ints:
        """(S) how many turns there were, of all clients."""
        ...


@dataclass(frozen=True)
class NoMemory:
    """No turn is remembered."""

    def rows(self, ids: Ints, tasks: Sequence[str]) -> tuple[Ints, Floats, Floats]:
        """None yet, and unknown."""
        shape = (len(ids), len(tasks))
        return np.zeros(shape, np.int64), np.full(shape, np.nan), np.full(shape, np.nan)

    def turns(self, tasks: Sequence[str]) -> Ints:
        """None yet."""
        return np.zeros(len(tasks), np.int64)


@dataclass(frozen=True, eq=False)
class View:
    """What an allocator may know. Rows are the n active clients by ascending id, columns the tasks.

    Attributes:
        round: t, from 1.
        rounds: How many rounds are planned.
        tasks: The S task names.
        difficulty: (S) f_s >= 0, higher = worse; NaN = not known yet (the first round).
        clients: (n) ids of the active clients, ascending.
        positions: (n) their places in the whole population's ascending list of ids.
        population: K, the number of all clients.
        sizes: (n, S) examples held.
        eligible: (n, S) who may train what.
        capacity: (n) how many tasks a client may train in a round; 1 in the paper.
        remembered: What is known about clients' earlier turns: `counts`, `loss`, `norm` and `turns`
            are read from it on demand. By default, nothing.
        weights: (S) how much each task counts in the objective, > 0; by default all count 1.
        find_targets: Gives `targets` on demand; None = no task has a target.
        aggregation: The aggregator's state by task name, for rules that know their aggregator.
    """

    round: int
    rounds: int
    tasks: tuple[str, ...]
    difficulty: Floats
    clients: Ints
    positions: Ints
    population: int
    sizes: Ints
    eligible: Bools
    capacity: Ints
    remembered: Remembered = NoMemory()
    weights: Floats = field(default_factory=lambda: np.empty(0))
    find_targets: Callable[[], Floats] | None = None
    aggregation: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.weights):
            object.__setattr__(self, "weights", np.ones(len(self.tasks)))

    @cached_property
    def _rows(self) -> tuple[Ints, Floats, Floats]:
        return self.remembered.rows(self.clients, self.tasks)

    @property
    def counts(self) -> Ints:
        """(n, S) turns so far."""
        return self._rows[0]

    @property
    def loss(self) -> Floats:
        """(n, S) last known loss of the client's turn at the task; NaN = unknown."""
        return self._rows[1]

    @property
    def norm(self) -> Floats:
        """(n, S) last known norm of its update; NaN = unknown."""
        return self._rows[2]

    @cached_property
    def turns(self) -> Ints:
        """(S) accepted turns so far, of all clients."""
        return self.remembered.turns(self.tasks)

    @cached_property
    def targets(self) -> Floats:
        """(S) the difficulty at which a task reaches its `target`; NaN = it has none, or unknown.

        A target is a metric, so a score that is a loss has no such difficulty.
        """
        if self.find_targets is None:
            return np.full(len(self.tasks), np.nan)
        return self.find_targets()


class Assignment(NamedTuple):
    """A client, the column number of its task in the view, and the probability of that choice."""

    client: int
    task: int
    probability: float


@dataclass(frozen=True, eq=False)
class Assignments(Sequence[Assignment]):
    """A sequence of `Assignment`, stored as three arrays: a million take 24 MB instead of 200."""

    clients: Ints
    tasks: Ints
    probabilities: Floats

    @overload
    def __getitem__(self, index: int) -> Assignment: ...
    @overload
    def __getitem__(self, index: slice | Ints) -> Assignments: ...
    def __getitem__(self, index: int | slice | Ints) -> Assignment | Assignments:
        if isinstance(index, slice | np.ndarray):
            return Assignments(self.clients[index], self.tasks[index], self.probabilities[index])
        return Assignment(
            int(self.clients[index]), int(self.tasks[index]), float(self.probabilities[index])
        )

    def __len__(self) -> int:
        return len(self.clients)

    def __iter__(self) -> Iterator[Assignment]:
        rows = zip(
            self.clients.tolist(), self.tasks.tolist(), self.probabilities.tolist(), strict=True
        )
        return (Assignment(*row) for row in rows)

    def counts(self, tasks: int) -> Ints:
        """(S) how many clients each task got."""
        return np.bincount(self.tasks, minlength=tasks).astype(np.int64)


@runtime_checkable
class Allocator(Protocol):
    """Chooses a task for each active client.

    State is explicit: the first call gets None, later calls what the call before returned. It must
    be plain data (None, numbers, strings, lists, tuples, sets, dictionaries, NumPy arrays, and
    nothing that inherits from them), since checkpoints hold it. If its first rounds depend on
    `View.rounds`, its attribute `plans_ahead` is true, and its runs cannot be extended.
    """

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """The round's assignments, at most one per client while capacity is one, and the state."""
        ...


def first_fault(assignments: Assignments, view: View) -> str | None:
    """What is wrong with an allocator's answer, or None.

    It checks shapes, known clients and tasks, eligibility, capacity, probabilities in [0, 1].
    """
    clients, tasks, p = assignments.clients, assignments.tasks, assignments.probabilities
    if not clients.shape == tasks.shape == p.shape or clients.ndim != 1:
        return "clients, tasks and probabilities must be vectors of the same length"
    if clients.dtype.kind not in "iu" or tasks.dtype.kind not in "iu":
        return "clients and tasks must be whole numbers"
    if len(clients) == 0:
        return None
    rows = _rows(clients, view.clients)
    if rows is None:
        return "a client that is not active was given a task"
    if tasks.min() < 0 or tasks.max() >= len(view.tasks):
        wrong = tasks.min() if tasks.min() < 0 else tasks.max()
        return f"task number {wrong} does not exist"
    may = view.eligible[rows, tasks]
    if not may.all():
        row = np.flatnonzero(~may)[0]
        name = view.tasks[tasks[row]]
        return f"client {clients[row]} was given task {name!r}, which it may not train"
    if (np.bincount(rows, minlength=len(view.clients)) > view.capacity).any():
        return "a client was given more tasks than its capacity"
    many = view.capacity.max() > 1
    if many and len(np.unique(rows * len(view.tasks) + tasks)) < len(rows):
        return "a client was given the same task twice"
    if not ((p >= 0) & (p <= 1)).all():
        return "a probability lies outside [0, 1]"
    return None


def _rows(clients: Ints, active: Ints) -> Ints | None:
    """The positions of these clients among the active ones; None if one is not active."""
    if len(clients) == len(active) and (clients == active).all():
        return np.arange(len(active))
    rows = np.searchsorted(active, clients)
    if (rows == len(active)).any() or (active[rows] != clients).any():
        return None
    return rows
