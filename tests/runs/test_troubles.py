"""What went wrong in a run that finished: `mmfl.run` warns, at the line of the program."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from torch import nn

import mmfl
from mmfl.errors import MmflWarning

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
DATA = X[:40], (X[:40, 0] > 0).astype(int), X[40:], (X[40:, 0] > 0).astype(int)


class Picky(nn.Linear):
    """It fails in some turns: if the first number of a batch is large."""

    most = 0.0

    def forward(self, x):
        if self.training and x[0, 0] > self.most:
            raise ValueError("too large")
        return super().forward(x)


class Refusing(Picky):
    most = -99.0


def experiment(model, **settings) -> mmfl.Experiment:
    task = mmfl.Task("a", data=DATA, model=lambda: model(3, 2))
    return mmfl.Experiment(
        tasks=[task, mmfl.Task("b", data=DATA)],
        clients=8,
        rounds=2,
        engine="inline",
        allocator="round_robin",
        local={"epochs": 1},
        **settings,
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Refusing, "^task 'a' never trained: all 8 turns failed; most common reason: raised: "),
        (Picky, r"^\d of 8 turns of task 'a' failed; most common reason: raised: ValueError: too "),
    ],
)
def test_turns_that_fail_are_a_warning(model, said, tmp_path):
    with pytest.warns(MmflWarning, match=said) as caught:
        result = mmfl.run(experiment(model), out=tmp_path / "run")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "(test_troubles.py, line " in str(caught[0].message)
    assert result.failed == result.outcomes["a"].failed > 0


def test_simulated_faults_are_no_warning(tmp_path):
    made = experiment(nn.Linear, faults={"dropout": 0.3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mmfl.run(made, out=tmp_path / "run").failed
