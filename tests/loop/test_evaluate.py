"""Scores by hand: what "worse off" means for tasks of different kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl import Experiment, rounds
from mmfl.errors import ConfigError
from mmfl.exchange import Evaluation
from mmfl.experiment import Task
from mmfl.fairness import merit
from mmfl.loop import combine
from mmfl.objectives import SCORES, Measured
from support.helpers import one_line


def task(metric: str = "accuracy", target: float | None = None) -> Task:
    return Task(name="a", dataset="x", metric=metric, target=target)


def f(score: str, measured: Measured, of: Task) -> float:
    return SCORES.parse(score).difficulty(measured, of)


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [("accuracy", 0.9, 0.9), ("r2", -3.0, -3.0), ("mae", 0.2, 0.8), ("loss", 2.5, -1.5)],
)
def test_merit_is_the_metric_or_one_minus_it(metric, value, expected):
    assert merit(value, task(metric).metric.better) == pytest.approx(expected)


def test_an_error_is_one_minus_the_metric_or_the_metric_itself():
    assert f("error", Measured(9.0, 0.9, 10), task()) == pytest.approx(0.1)
    assert f("error", Measured(9.0, -2.0, 10), task("r2")) == pytest.approx(3.0)
    assert f("error", Measured(9.0, 0.3, 10), task("mae")) == pytest.approx(0.3)


def test_a_perplexity_counts_as_one_over_it():
    assert f("error", Measured(1.4, 4.0, 10), task("perplexity")) == pytest.approx(0.75)
    assert f("error", Measured(9.0, math.inf, 10), task("perplexity")) == 1.0
    assert f("distance", Measured(1.4, 4.0, 10), task("perplexity", 2.0)) == pytest.approx(0.25)
    assert f("distance", Measured(0.4, 1.5, 10), task("perplexity", 2.0)) <= 0


def test_a_relative_loss_is_1_for_a_blind_guess():
    assert f("relative_loss", Measured(0.5, 0.0, 10, guess=2.0), task()) == 0.25
    assert f("relative_loss", Measured(2.0, 0.0, 10, guess=2.0), task("mae")) == 1.0
    for guess in (0.0, -1.0, math.nan):
        assert math.isnan(f("relative_loss", Measured(0.5, 0.0, 10, guess=guess), task()))


def test_a_distance_is_to_the_tasks_own_target():
    assert f("distance", Measured(9.0, 0.7, 10), task("accuracy", 0.9)) == pytest.approx(0.2)
    assert f("distance", Measured(9.0, 0.7, 10), task("mae", 0.5)) == pytest.approx(0.2)
    assert f("distance", Measured(9.0, 0.95, 10), task("accuracy", 0.9)) <= 0
    assert f("distance", Measured(9.0, 0.4, 10), task("mae", 0.5)) <= 0


def test_a_distance_needs_a_target_in_every_task():
    table = {"rounds": 1, "clients": {"count": 2}, "score": "distance"}
    tasks = [{"name": "a", "dataset": "x", "target": 0.5}, {"name": "b", "dataset": "x"}]
    make = lambda: Experiment.from_dict({**table, "tasks": tasks})  # noqa: E731
    rule = "score = \"distance\" needs a target in every task; task 'b' has none"
    assert one_line(ConfigError, make) == rule
    tasks[1]["target"] = -1.5
    assert make().tasks[1].target == -1.5


def test_sums_become_means_over_examples_task_by_task():
    pieces = [
        Evaluation("a", 3, 6.0, 1.5, guess=3.0),
        Evaluation("b", 2, 1.0, 2.0, guess=8.0),
        Evaluation("a", 1, 2.0, 0.5, guess=1.0),
    ]
    assert combine(pieces) == {
        "a": Measured(2.0, 0.5, 4, 1.0),
        "b": Measured(0.5, 1.0, 2, 4.0),
    }
    assert combine([]) == {}
    assert combine([Evaluation("a", 0, 0.0, 0.0)]) == {}


def constant():
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    y = np.zeros(12, np.float32)
    return {"clients": [(x[:6], y[:6]), (x[6:], y[6:])], "x_test": x, "y_test": y}


def test_clients_may_score_a_task_whose_targets_are_all_the_same():
    """There a blind guess makes no mistake at all, which is no lie."""
    experiment = Experiment.from_dict(
        {
            "rounds": 2,
            "clients": {"count": 2},
            "score": "loss",
            "score_source": "clients",
            "engine": "inline",
            "tasks": [
                {
                    "name": "zero",
                    "dataset": constant,
                    "partition": "by_group",
                    "loss": "mse",
                    "metric": "mae",
                    "model": {"kind": "mlp", "hidden": [2]},
                }
            ],
        }
    )
    for _, record in rounds(experiment):
        assert record.failures == ()
        assert record.difficulty["zero"] > 0
