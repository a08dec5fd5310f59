"""The federation: which clients there are, and how many examples each holds of each task.

The round loop knows ids and sizes, never data. A simulated federation also has the shards; it is
rebuilt from the experiment and the labels wherever it is needed (coordinator and workers alike),
since every draw in it is addressed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.data import Arrays, AtNodes, AutoPartition, ByGroup, Cut, Shards, holders, match_clients
from mmfl.errors import DataError, EngineError, MmflError, MmflWarning
from mmfl.exchange import Split
from mmfl.objectives import find_sums_shape
from mmfl.rng import stream
from mmfl.system.user_code import Guard, add_prefix, guard_part

if TYPE_CHECKING:
    from mmfl.experiment import Experiment, Task

__all__ = ["PIECE", "Federation", "SimulatedFederation", "hold_shards", "simulate"]

Ints = npt.NDArray[np.int64]

_GROUPED = AutoPartition | ByGroup
"""Partitions that make each group of the data a client."""

PIECE = 2
"""An evaluation is shared out in pieces of this many batches; their sums are added in order."""


class Federation(Protocol):
    """The clients: all that the round loop knows about them."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks' names."""
        ...

    @property
    def clients(self) -> Sequence[int]:
        """The clients' stable ids, ascending."""
        ...

    @property
    def sums(self) -> Mapping[str, tuple[int, ...]]:
        """From task to the shape of its metric's sums; only tasks whose metric has some."""
        ...

    def sizes(self, clients: Ints) -> Ints:
        """(n, S) examples that each of these clients holds of each task; 0 = cannot train it."""
        ...

    def able(self, task: str | None = None) -> Ints | None:
        """Places in `clients` of those that hold data of the task, or of any; None = all do."""
        ...


@dataclass(frozen=True, eq=False)
class _TaskRows:
    """Which rows of a task's data are whose; the server's rows are in the order of evaluation."""

    pool: Ints
    shards: Shards
    validation: Ints
    test: Ints


@dataclass(frozen=True, eq=False)
class SimulatedFederation:
    """Clients 0, 1, ... with shards of data sets, and the rows that the server keeps.

    Attributes:
        clients: Their numbers.
        parts: From task to whose its rows are.
        batch_size: Of evaluations.
        sums: See `Federation`.
        names: What the first clients are called, in order, where the data names its groups.
    """

    clients: range
    parts: Mapping[str, _TaskRows]
    batch_size: int
    sums: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks' names."""
        return tuple(self.parts)

    def sizes(self, clients: Ints) -> Ints:
        """(n, S) examples held."""
        table = np.empty((len(self.parts), len(clients)), np.int64)
        for column, (task, part) in zip(table, self.parts.items(), strict=True):
            with _guard_shards(task):
                column[:] = part.shards.sizes(clients)
        return table.T

    def able(self, task: str | None = None) -> Ints | None:
        """Places of those that hold data of the task, or of any; None = all do."""
        shards = {
            name: self.parts[name].shards for name in (self.parts if task is None else [task])
        }
        for name, some in shards.items():
            with _guard_shards(name):
                if some.everybody:
                    return None
        found = []
        for name, some in shards.items():
            with _guard_shards(name):
                found.append(holders(some, len(self.clients)))
        places = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        return None if len(places) == len(self.clients) else places

    def shard(self, task: str, client: int) -> Ints:
        """The rows of the task's training data that lie with a client."""
        part = self.parts[task]
        try:
            return part.pool[part.shards.shard(client)]
        except BaseException:  # a guard around every turn's shard would take longer than finding it
            with _guard_shards(task):
                raise

    def pieces(self, task: str, split: Split) -> int:
        """In how many pieces the server's split of a task is evaluated."""
        return -(-len(self._kept(task, split)) // (PIECE * self.batch_size))

    def piece(self, task: str, split: Split, number: int) -> Ints:
        """The rows of one piece, in the order of evaluation."""
        length = PIECE * self.batch_size
        return self._kept(task, split)[number * length : (number + 1) * length]

    def _kept(self, task: str, split: Split) -> Ints:
        part = self.parts[task]
        if split == "test":
            return part.test
        if split == "validation" and len(part.validation):
            return part.validation
        raise EngineError(f"task {task!r}: the server keeps no {split} data")


def _guard_shards(task: str) -> Guard:
    """A guard for a block that asks shards, which a user's partition may have made."""
    return Guard(f"task {task!r}: its partition failed", DataError)


def simulate(experiment: Experiment, arrays: Mapping[str, Arrays]) -> SimulatedFederation:
    """Share the tasks' training data out: first the server's validation rows, then the clients'.

    Args:
        experiment: Clients, partitions and seed.
        arrays: From task name to its data; only the labels are read.

    Warns of a partition that could not quite do as asked (`Cut.note`).
    """
    parts, sums = {}, {}
    by_group = [task.name for task in experiment.tasks if isinstance(task.partition, _GROUPED)]
    matched, differ = match_clients({name: arrays[name] for name in by_group})
    names = next((data.group_names for data in matched.values() if data.group_names), ())
    listed = ", ".join(names[:6]) + (f", ... {names[-1]}" if len(names) > 6 else "")
    if len(names) > experiment.clients.count:
        raise DataError(
            f"the data names {len(names):,} clients ({listed}), but clients.count = "
            f"{experiment.clients.count}; set it to {len(names)}"
        )
    if differ:
        warnings.warn(
            f"not every task has the same clients; they are numbered in the order of all "
            f"{len(names):,} names: {listed}",
            MmflWarning,
            stacklevel=2,
        )
    arrays = {**arrays, **matched}
    for task in experiment.tasks:
        y = arrays[task.name].y_train
        shape = _find_sums_shape(task, arrays[task.name])
        if shape is not None:
            sums[task.name] = shape
        if isinstance(task.dataset, AtNodes):  # the server has none of it
            nothing = np.empty(0, np.int64)
            own = Cut(nothing, nothing, experiment.clients.count)
            parts[task.name] = _TaskRows(nothing, own, nothing, nothing)
            continue
        order = stream(experiment.seed, "validation", task.name).permutation(len(y))
        kept = round(experiment.validation * len(y)) if experiment.holds_validation else 0
        if experiment.holds_validation and not 0 < kept < len(y):
            raise DataError(
                f"task {task.name!r}: validation = {experiment.validation:g} of {len(y)} training "
                f"examples leaves {kept} for the server and {len(y) - kept} for the clients"
            )
        pool = np.sort(order[kept:])
        rng = stream(experiment.seed, "partition", task.name)
        try:
            with Guard("its partition failed", DataError, part=task.partition, always=True):
                examples = arrays[task.name].examples(pool)
                shards = task.partition.split(examples, experiment.clients.count, rng=rng)
        except MmflError as error:
            raise add_prefix(error, f"task {task.name!r}: ", task.partition) from error.__cause__
        if isinstance(shards, Cut) and shards.note:
            warnings.warn(f"task {task.name!r}: {shards.note}", MmflWarning, stacklevel=2)
        test = stream(experiment.seed, "test", task.name).permutation(len(arrays[task.name].y_test))
        parts[task.name] = _TaskRows(pool, shards, order[:kept], test)
    count, batch_size = experiment.clients.count, experiment.evaluate.batch_size
    return SimulatedFederation(range(count), parts, batch_size, sums, names)


def hold_shards(
    experiment: Experiment,
    arrays: Mapping[str, Arrays],
    shards: Mapping[str, Shards],
    tests: Mapping[str, Ints],
) -> SimulatedFederation:
    """The federation as one of its clients sees it, which has data of its own.

    Args:
        experiment: Its clients and tasks.
        arrays: From task to the client's data.
        shards: From task to which rows of it are the client's.
        tests: From task to which test rows are the client's.
    """
    nothing, parts, sums = np.empty(0, np.int64), {}, {}
    for task in experiment.tasks:
        rows = np.arange(len(arrays[task.name].y_train))
        parts[task.name] = _TaskRows(rows, shards[task.name], nothing, tests[task.name])
        shape = _find_sums_shape(task, arrays[task.name])
        if shape is not None:
            sums[task.name] = shape
    count, batch_size = experiment.clients.count, experiment.evaluate.batch_size
    return SimulatedFederation(range(count), parts, batch_size, sums)


def _find_sums_shape(task: Task, data: Arrays) -> tuple[int, ...] | None:
    """The shape of the sums of a task's metric, if it has some."""
    try:
        with guard_part("metric", task.metric):
            return None if task.metric is None else find_sums_shape(task.metric, data)
    except MmflError as error:
        raise add_prefix(error, f"task {task.name!r}: ") from error.__cause__
