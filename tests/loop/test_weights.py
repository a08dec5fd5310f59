"""Weights of tasks in the round loop."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.allocate import FedFair, Uniform, allocation_probabilities
from mmfl.config import component
from mmfl.errors import EngineError
from mmfl.exchange import Evaluation
from support.crowd import TASKS, mock, play
from support.helpers import one_line

HARD = {"a": 0.4, "b": 0.2, "c": 0.2}
WEIGHTS = {"a": 1.0, "b": 4.0, "c": 0.5}


def hard(task, params, client):
    """Evaluates to a constant error."""
    return Evaluation(task, 10, 1.0, 10 * (1 - HARD[task]))


def weighted(engine, weights=WEIGHTS):
    """The same engine and experiment, with these weights."""
    tasks = tuple(dataclasses.replace(t, weight=weights[t.name]) for t in engine.experiment.tasks)
    return dataclasses.replace(
        engine, experiment=dataclasses.replace(engine.experiment, tasks=tasks)
    )


def test_clients_are_drawn_by_weight_times_difficulty():
    engine = weighted(mock(test=hard, changes={"allocator": FedFair(alpha=2.0)}))
    w = list(WEIGHTS.values())
    first, second, *_ = (record for _, record in play(engine))
    for record, f in ((first, [1, 1, 1]), (second, list(HARD.values()))):
        p = allocation_probabilities(f, 2.0, w)
        got = record.assignments
        np.testing.assert_allclose(got.probabilities, p[got.tasks])


def test_weights_of_one_have_the_bits_of_none_and_other_rules_ignore_them():
    for rule in (FedFair(), Uniform()):
        plain = mock(test=hard, changes={"allocator": rule})
        runs = [
            [list(record.assignments) for _, record in play(engine)]
            for engine in (
                *(plain, weighted(plain, dict.fromkeys(TASKS, 1.0))),
                *(weighted(plain, dict.fromkeys(TASKS, 7.0)), weighted(plain)),
            )
        ]
        assert runs[0] == runs[1] == runs[2]
        assert (runs[0] == runs[3]) == isinstance(rule, Uniform)


@component
class Curious:
    """Notes the weights, and may try to change them."""

    seen: ClassVar[list[Any]] = []
    write: bool = False

    def allocate(self, view, state, *, rng):
        self.seen.append(dict(zip(view.tasks, view.weights.tolist(), strict=True)))
        if self.write:
            view.weights[:] = 1.0
        return [], state


def test_a_users_allocator_sees_them_and_cannot_change_them():
    engine = weighted(mock(changes={"allocator": Curious(), "rounds": 1}))
    play(engine)
    assert Curious.seen[-1] == WEIGHTS
    message = one_line(
        EngineError, lambda: play(mock(changes={"allocator": Curious(write=True), "rounds": 1}))
    )
    assert "read-only" in message


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_weight_belongs_to_its_task_wherever_that_stands(order):
    table = "rounds = 2\nclients = 40\nengine = 'inline'\n"
    for name in order:
        weight = {"a": 1, "b": 999}[name]
        data = "{ kind = 'synthetic', classes = 2, train = 160, test = 20 }"
        table += f"[[tasks]]\nname = '{name}'\nweight = {weight}\ndataset = {data}\n"
    for _, record in mmfl.rounds(Experiment.from_toml(table)):
        assert record.clients["b"] > record.clients["a"]
