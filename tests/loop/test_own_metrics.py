"""A user's metric whose value is impossible: refused, and said where it is defined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import mmfl
from mmfl.errors import EngineError
from support.helpers import one_line

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
DATA = X[:40], (X[:40, 0] > 0).astype(int), X[40:], (X[40:, 0] > 0).astype(int)


def experiment(**settings) -> mmfl.Experiment:
    task = mmfl.Task("a", data=DATA, model="logistic", **settings)
    return mmfl.Experiment(tasks=[task], clients=4, rounds=1, engine="inline")


def of_hits(change, **options):
    return {"kind": lambda out, truth: change((out.argmax(1) == truth).float()), **options}


SHARE = {"better": "higher", "bounds": [0, 1]}
WRONG = {
    "percent": (of_hits(lambda hits: hits * 0 + 50, **SHARE), "number from 0 to 1, its bounds, "),
    "nan": (of_hits(lambda hits: hits * np.nan), "number, got nan"),
    "inf": (of_hits(lambda hits: 1 / (hits - hits)), "number, got inf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_impossible_value_is_one_sentence(case):
    metric, rule = WRONG[case]
    said = one_line(EngineError, lambda: next(mmfl.rounds(experiment(metric=metric))))
    assert said.startswith("task 'a': the metric 'function' must be a finite ")
    assert rule in said
    assert "(test_own_metrics.py, line " in said


@dataclass(frozen=True)
class Counted:
    """A metric of sums, whose value is not between its bounds."""

    better = "higher"
    bounds = (0.0, 1.0)

    def on(self, data, loss):
        return lambda outputs, targets: (outputs.argmax(1) == targets).sum()[None]

    def shape(self, data):
        return (1,)

    def value(self, sums, examples):
        return sums[0] + 1


def test_so_is_that_of_a_metric_of_sums():
    said = one_line(EngineError, lambda: next(mmfl.rounds(experiment(metric=Counted()))))
    assert "the metric Counted() must be a finite number from 0 to 1, its bounds, got " in said


def test_a_model_that_diverges_is_no_mistake_of_the_metric():
    def explode(out, truth):
        return (out * np.nan).mean()

    metric = {"kind": lambda out, truth: out.mean()}
    ((_, record),) = mmfl.rounds(experiment(metric=metric, loss=explode))
    assert np.isnan(record.loss["a"])
