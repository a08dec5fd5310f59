"""A federation without data and an engine without training: for tests above engines."""

from __future__ import annotations

import dataclasses

import numpy as np

import mmfl
from mmfl import Experiment
from mmfl.engines import MockEngine
from mmfl.exchange import ClientUpdate, Layout, Params

LAYOUT = Layout((("w", (2,)),))
TASKS = ("a", "b", "c")


@dataclasses.dataclass(frozen=True)
class Crowd:
    """A federation that is only a table of sizes."""

    table: np.ndarray
    tasks: tuple[str, ...] = TASKS
    sums: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    @property
    def clients(self):
        return range(len(self.table))

    def sizes(self, clients):
        return self.table[clients]

    def able(self, task=None):
        some = self.table if task is None else self.table[:, [self.tasks.index(task)]]
        return np.flatnonzero((some > 0).any(axis=1))


def experiment(**changes) -> Experiment:
    text = "rounds = 4\n[clients]\ncount = 12\n"
    text += "".join(f'[[tasks]]\nname = "{name}"\ndataset = "x"\n' for name in TASKS)
    return dataclasses.replace(Experiment.from_toml(text), **changes)


def step(job, params) -> ClientUpdate:
    """Every turn moves the weights by one."""
    delta = {"w": np.ones(2, np.float32)}
    return ClientUpdate(job.address, delta, 5, 5, 1.0, 0.5, 0.0)


def mock(turn=step, table=None, **options) -> MockEngine:
    first = {name: Params(LAYOUT, np.zeros(2, np.float32)) for name in TASKS}
    table = np.full((12, 3), 5) if table is None else table
    changes = options.pop("changes", {})
    return MockEngine(experiment(**changes).resolved(), Crowd(table), first, turn, **options)


def play(engine: MockEngine):
    return list(mmfl.rounds(engine.experiment, engine=engine))
