"""Data that a model cannot take as it is: the sentence says what helps."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import mmfl
from mmfl.errors import MmflError
from support.helpers import one_line

X = np.random.default_rng(0).integers(0, 9, size=(60, 8, 8, 3))
Y = np.arange(60) % 2
ONE_HOT = np.eye(2)[Y]
REAL = X.astype(np.float32)


def flat():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))


def convolution():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))


def one_logit(squeezed):
    last = nn.Flatten(0) if squeezed else nn.Identity()
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 1), last)


CASES = {
    "whole numbers": (X, Y, flat, "which count as tokens: give them as float32"),
    "whole images": (X.transpose(0, 3, 1, 2), Y, convolution, "tokens: give them as float32"),
    "one-hot": (REAL, ONE_HOT.astype(int), flat, "if its targets are one-hot, give y.argmax(1)"),
    "one logit": (REAL, Y, lambda: one_logit(False), 'targets and loss = "binary_cross_entropy"'),
    "one number": (REAL, Y, lambda: one_logit(True), 'targets and loss = "binary_cross_entropy"'),
    "one-hot reals": (REAL, ONE_HOT, flat, "as whole numbers (of one-hot targets, y.argmax(1))"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_helps_is_said(case):
    x, y, model, hint = CASES[case]
    task = mmfl.Task("a", data=(x[:40], y[:40], x[40:], y[40:]), model=model)
    made = mmfl.Experiment(tasks=[task], clients=3, rounds=1, engine="inline")
    assert hint in one_line(MmflError, lambda: next(mmfl.rounds(made)))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_a_file_in_the_place_of_a_name_is_said(kind):
    task = mmfl.Task("a", dataset=f"my data/table.{kind}")
    made = mmfl.Experiment(tasks=[task], clients=3, rounds=1, engine="inline")
    said = one_line(MmflError, lambda: next(mmfl.rounds(made)))
    assert f'name a file with dataset = {{ kind = "{kind}", path = \'my data/table.' in said
