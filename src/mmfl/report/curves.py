"""One run as numbers: how good each task was after each round, and who trained it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError, StoreError
from mmfl.objectives import describe_merits, find_merit
from mmfl.runs import RunStore, TaskTurns, inexact, made_with, sessions, turns_by_task

__all__ = ["BETTER", "Curves"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BETTER = ("higher", "lower")


@dataclass(frozen=True, eq=False)
class Curves:
    """What a run did, round by round. Rows are the T rounds from 1, columns the S tasks.

    Attributes:
        tasks: (S) names.
        better: (S) whether a "higher" or a "lower" metric is better.
        metric: (T, S) as last measured on the test split; NaN before the first measurement.
        clients: (T, S) clients' turns.
        evaluated: The rounds after which the metric is of the models of that round, ascending;
            after others it is an earlier one. None = all rounds.
        outcomes: By task, what became of its turns; empty if that is not known.
        made_with: What its bits depend on besides the experiment; empty if that is not known.
        inexact: Why it may have other bits than an uninterrupted run; "" if it has the same.
        virtual: (T) duration of each round in virtual seconds; None if clients have no speeds.
        targets: By task, the metric to reach; tasks without a target are left out.
        kinds: (S) of the metrics; empty if they are not known.
    """

    tasks: tuple[str, ...]
    better: tuple[str, ...]
    metric: Floats
    clients: Ints
    evaluated: tuple[int, ...] | None = None
    outcomes: Mapping[str, TaskTurns] = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)
    inexact: str = ""
    virtual: Floats | None = None
    targets: Mapping[str, float] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tasks or len(set(self.tasks)) < len(self.tasks):
            raise InputError(f"tasks must be one or more different names, got {self.tasks!r}")
        if len(self.better) != len(self.tasks) or not set(self.better) <= set(BETTER):
            raise InputError(
                f"better must say 'higher' or 'lower' for each task, got {self.better!r}"
            )
        if self.kinds and len(self.kinds) != len(self.tasks):
            raise InputError(f"kinds must have one metric for each task, got {self.kinds!r}")
        shape = self.metric.shape
        if shape[1:] != (len(self.tasks),) or not shape[0] or self.clients.shape != shape:
            raise InputError(
                f"metric and clients must have a row per round and {len(self.tasks)} columns, "
                f"got shapes {shape} and {self.clients.shape}"
            )

    @classmethod
    def load(cls, folder: str | Path) -> Curves:
        """Read a run directory with at least one round, finished or not."""
        with closing(RunStore.open(Path(folder))) as store:
            return cls.of(store)

    @classmethod
    def of(cls, store: RunStore) -> Curves:
        """Read a run with at least one round from its opened directory."""
        tasks = store.tasks()
        rounds = store.rows("SELECT round, fresh FROM round ORDER BY round")
        aims = store.rows("SELECT name, target FROM task WHERE target IS NOT NULL")
        rows = store.rows("SELECT round, task, metric, clients FROM round_task")
        environment = store.environment()
        if not rounds:
            raise StoreError(f"the run in {str(store.folder)!r} has no finished round yet")
        row_of = {number: row for row, (number, _) in enumerate(rounds)}
        evaluated = tuple(row_of[number] + 1 for number, fresh in rounds if fresh)
        column_of = {number: column for column, (number, *_) in enumerate(tasks)}
        metric = np.full((len(rounds), len(tasks)), math.nan)
        clients = np.zeros(metric.shape, np.int64)
        for number, task, value, turns in rows:
            at = row_of[number], column_of[task]
            metric[at] = math.nan if value is None else value
            clients[at] = turns
        return cls(
            tasks=tuple(name for _, name, _, _ in tasks),
            better=tuple(better for *_, better in tasks),
            metric=metric,
            clients=clients,
            evaluated=evaluated,
            outcomes=turns_by_task(store),
            made_with=made_with(sessions(environment)[-1]),
            inexact=inexact(environment),
            virtual=_read_virtual(store),
            targets=dict(aims),
            kinds=tuple(kind for _, _, kind, _ in tasks),
        )

    @property
    def rounds(self) -> int:
        """T, the number of rounds done."""
        return len(self.metric)

    @property
    def measured(self) -> tuple[int, ...]:
        """The rounds after which the models were measured, ascending."""
        return tuple(range(1, self.rounds + 1)) if self.evaluated is None else self.evaluated

    @property
    def step(self) -> int:
        """How many rounds there are at most from one measurement to the next."""
        return max(np.diff((0, *self.measured)).tolist(), default=self.rounds)

    @property
    def merit(self) -> Floats:
        """(T, S) the metrics as numbers where higher is better: see `describe_merits`."""
        return self.merit_of(self.metric)

    def merit_of(self, metric: Floats) -> Floats:
        """(..., S) values of the tasks' metrics as numbers where higher is better."""
        kinds = self.kinds or ("",) * len(self.tasks)
        rules = [find_merit(*of) for of in zip(kinds, self.better, strict=True)]
        return np.stack([rule(metric[..., s]) for s, rule in enumerate(rules)], axis=-1)

    def has_same_metrics(self, other: Curves) -> bool:
        """Whether both have the same tasks, and metrics of the same kinds if these are known.

        Settings of metrics are not stored, so they cannot be compared.
        """
        known = self.kinds == other.kinds or not (self.kinds and other.kinds)
        return known and (self.tasks, self.better) == (other.tasks, other.better)

    @property
    def merit_rule(self) -> str:
        """How metrics where lower is better become merits, as a clause; "" without any."""
        kinds = self.kinds or ("",) * len(self.tasks)
        return describe_merits(
            dict(zip(self.tasks, zip(kinds, self.better, strict=True), strict=True))
        )

    @property
    def worst(self) -> Floats:
        """(T) the worst task's merit; NaN until all tasks were measured."""
        return np.asarray(self.merit.min(axis=1))

    @property
    def turns(self) -> Ints:
        """(S) clients' turns over all rounds."""
        return np.asarray(self.clients.sum(axis=0))


def _read_virtual(store: RunStore) -> Floats | None:
    """The virtual seconds of each round, if clients have speeds."""
    if not store.has("round", "virtual"):
        return None
    rows = store.rows("SELECT virtual FROM round ORDER BY round")
    return None if (None,) in rows or not rows else np.array(rows, np.float64)[:, 0]
