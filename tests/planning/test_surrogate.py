"""A surrogate experiment decides who trains what exactly as the real run does."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.allocate import FedFair, Themis, Uniform
from mmfl.experiment import Inline
from mmfl.faults import Faults, Misbehaving
from mmfl.faults.values import Scaled
from mmfl.planning import Surrogate
from mmfl.planning.surrogate import Fixed, make_surrogate_experiment, work_of
from support.crowd import TASKS, Crowd, experiment

RECRUITMENT = """
[recruitment]
mechanism = { kind = "max_min_fair", budget = 2.6 }
bids = { kind = "uniform" }
"""
FAULTS = """
[faults]
dropout = 0.3
speed = { kind = "lognormal", median = 50.0, sigma = 1.0 }
deadline = 3.0
[[faults.clients]]
does = "nan"
share = 0.3
[quarantine]
strikes = 1
rounds = 2
"""


@dataclasses.dataclass(frozen=True)
class Replay:
    """A task whose difficulty after so many turns is what a real run measured then."""

    seen: dict[int, float]
    beta: float = 1.0

    def difficulty(self, work: float) -> float:
        return self.seen.get(round(work), 1.0)  # before the first turn nobody asks for it

    def metric(self, work: float) -> float:
        return math.nan


def told(record):
    turns = [tuple(turn) for turn in record.assignments]
    failures = [(f.address[1:4], f.reason) for f in record.failures]
    return record.active, turns, dict(record.clients), failures, record.samples, record.difficulty


@pytest.mark.parametrize("more", ["", RECRUITMENT, FAULTS], ids=["plain", "recruited", "faults"])
@pytest.mark.parametrize(
    "allocator",
    [FedFair(alpha=4.0), FedFair(2.0, "stratified", 1), Uniform(), Themis(sampling="credit")],
    ids=["independent", "stratified", "uniform", "themis"],
)
def test_with_the_difficulties_of_a_real_run_it_repeats_that_run(small_toml, allocator, more):
    real = dataclasses.replace(
        Experiment.from_toml(small_toml + more, sets=["rounds=6"]), allocator=allocator
    )
    tasks = [dataclasses.replace(task, target=0.6) for task in real.tasks]
    real = dataclasses.replace(real, tasks=tuple(tasks))
    engine = Inline().open(real, data_dir=None)
    seen: dict[str, dict[int, float]] = {task.name: {} for task in real.tasks}
    turns = dict.fromkeys(seen, 0)
    records = []
    for _, record in mmfl.rounds(real, engine=engine):
        records.append(record)
        for task, f in record.difficulty.items():
            turns[task] += record.clients[task]
            seen[task][turns[task]] = f
    predictors = {task: Replay(curve) for task, curve in seen.items()}
    again = make_surrogate_experiment(real, real.seed)
    surrogate = Surrogate(again, engine.federation, predictors)
    repeated = [record for _, record in mmfl.rounds(again, engine=surrogate)]
    assert [told(record) for record in repeated] == [told(record) for record in records]
    assert any(record.failures for record in records) == (more == FAULTS)


def play(**changes):
    made = make_surrogate_experiment(experiment(**changes), seed=3)
    predictors = {task: Fixed(0.5) for task in TASKS}
    return list(mmfl.rounds(made, engine=Surrogate(made, Crowd(np.full((12, 3), 5)), predictors)))


def test_the_work_of_a_task_is_its_turns_if_beta_is_1():
    turns = dict.fromkeys(TASKS, 0)
    for state, record in play():
        for task in TASKS:
            turns[task] += record.clients[task]
            assert work_of(state.params[task]) == turns[task]
    assert sum(turns.values()) == 4 * 12


def test_what_hostile_updates_hold_neither_adds_work_nor_undoes_it():
    bad = Faults(clients=(Misbehaving(does=Scaled(1e9), share=1.0),))
    (*_, (calm, _)), (*_, (spoilt, last)) = play(), play(faults=bad)
    assert [work_of(calm.params[t]) for t in TASKS] == [work_of(spoilt.params[t]) for t in TASKS]
    assert last.failures == ()
    assert len(last.faults) == 12


def test_a_surrogate_experiment_follows_its_seed():
    made = experiment(clients=dataclasses.replace(experiment().clients, active=0.5))
    assignments = set()
    for seed in (1, 1, 2):
        again = make_surrogate_experiment(made, seed)
        engine = Surrogate(again, Crowd(np.full((12, 3), 5)), {t: Fixed(0.5) for t in TASKS})
        records = [record for _, record in mmfl.rounds(again, engine=engine)]
        assignments.add(str([list(record.assignments) for record in records]))
    assert len(assignments) == 2
