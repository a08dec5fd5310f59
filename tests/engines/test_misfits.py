"""What user code returns and does not fit: the sentence names the file and line of its definition.

It is the same sentence with workers, and for code that is in no file.
"""

from __future__ import annotations

import linecache
import re
import sys

import numpy as np
import pytest

import mmfl
from mmfl import Experiment, Task
from mmfl.errors import MmflError
from support.experiments import write_small

OWN = '''
from dataclasses import dataclass

import torch
from torch import nn

class Wide(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.layer = nn.Linear(shape[0], outputs + 1)

    def forward(self, x):
        return self.layer(x)

def sequence(shape, outputs):
    return nn.Sequential(nn.Linear(shape[0], 4), nn.Linear(5, outputs))

def wide(shape, outputs):
    return nn.Linear(shape[0], outputs + 1)

def nothing(shape, outputs):
    """It forgets to return."""
    nn.Linear(shape[0], outputs)

def rows(outputs, targets):
    return outputs

def number(outputs, targets):
    return 0.5

@dataclass(frozen=True)
class Vector:
    """A loss."""

    targets = "classes"
    metric = "accuracy"

    def mean(self, outputs, targets):
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

@dataclass(frozen=True)
class Detached(Vector):
    def mean(self, outputs, targets):
        return nn.functional.cross_entropy(outputs, targets).detach()

@dataclass(frozen=True)
class Count(Vector):
    def mean(self, outputs, targets):
        return (outputs.argmax(1) == targets).sum()

@dataclass(frozen=True)
class Matrix:
    """A metric."""

    better = "higher"
    bounds = (0.0, 1.0)

    def on(self, data, loss):
        return lambda outputs, targets: outputs.softmax(1)

@dataclass(frozen=True)
class Number(Matrix):
    def on(self, data, loss):
        def compute(outputs, targets):
            return 0.5
        return compute

def data():
    return 3

def ragged():
    import numpy as np
    return np.zeros((4, 2)), np.zeros(3, int), np.zeros((4, 2)), np.zeros(4, int)

def by_hand(examples, clients, rng):
    return [0, 1]

@dataclass(frozen=True)
class Assigns:
    def allocate(self, view, state, *, rng):
        return [(0, 99, 1.0)], state
'''


def line(text: str) -> int:
    return next(n for n, one in enumerate(OWN.splitlines(), 1) if one.strip().startswith(text))


CASES = {
    "model class": ("tasks.a.model=own_code:Wide", "its model must give 3 outputs", "class Wide"),
    "model function": ("tasks.a.model=own_code:wide", "its model must give 3 outputs", "def wide"),
    "model layers": ("tasks.a.model=own_code:sequence", "its model does not run", "def sequence"),
    "model nothing": ("tasks.a.model=own_code:nothing", "must build an nn.Module", "def nothing"),
    "loss function": ("tasks.a.loss=own_code:rows", "got shape (2, 3)", "def rows"),
    "loss number": ("tasks.a.loss=own_code:number", "got a float, not a tensor", "def number"),
    "loss class": ("tasks.a.loss=own_code:Vector", "got shape (2,)", "class Vector"),
    "loss count": ("tasks.a.loss=own_code:Count", "got a tensor of int64", "class Count"),
    "metric function": ("tasks.a.metric=own_code:rows", "got shape (2, 3)", "def rows"),
    "metric class": ("tasks.a.metric=own_code:Matrix", "got shape (2, 3)", "return lambda outp"),
    "metric number": ("tasks.a.metric=own_code:Number", "got a float, not", "def compute"),
    "data": ("tasks.a.dataset=own_code:data", "must be (x, y), (x_train", "def data"),
    "ragged data": ("tasks.a.dataset=own_code:ragged", "data set 'own_code:ragged'", "def ragged"),
    "partition": (
        "tasks.a.partition=own_code:by_hand",
        "must return one client number",
        "def by_hand",
    ),
    "allocator": ("allocator.kind=own_code:Assigns", "broke a rule", "class Assigns"),
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_code.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_code", None)


def write_classes(engine: str) -> str:
    return write_small("a", engine=engine).replace("train = 60", "classes = 3, train = 60")


def fail(change: str, engine: str) -> str:
    text = write_classes(engine)
    with pytest.raises(MmflError) as caught:
        list(mmfl.rounds(Experiment.from_toml(text, sets=[change], allow_imports=True)))
    return str(caught.value)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("case", CASES)
def test_the_sentence_names_where_it_is_defined(case):
    change, words, start = CASES[case]
    said = fail(change, 'kind = "inline"')
    assert words in said
    assert said.endswith(f" (own_code.py, line {line(start)})"), said


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("case", ["model class", "loss class", "metric class", "model layers"])
def test_it_is_the_same_with_workers(case):
    change = CASES[case][0]
    assert fail(change, 'kind = "local"\nworkers = 1') == fail(change, 'kind = "inline"')


@pytest.mark.usefixtures("own")
def test_a_loss_without_a_gradient_is_named():
    text = write_classes('kind = "inline"')
    sets = ["tasks.a.loss=own_code:Detached", "rounds=1"]
    [(_, record)] = mmfl.rounds(Experiment.from_toml(text, sets=sets, allow_imports=True))
    where = f"(own_code.py, line {line('class Detached')})"
    said = f"the loss has no gradient in the model's weights {where}"
    assert {said in failure.detail for failure in record.failures} == {True}


CELL = """
def build(shape, outputs):
    return Net(shape[0], outputs)

class Net(nn.Linear):
    def forward(self, x):
        if self.training:
            return self.fail(x)
        return super().forward(x)

    def fail(self, x):
        raise ValueError("not today")
"""


def test_a_cell_of_a_notebook_is_shown_with_its_lines_by_workers_too(monkeypatch):
    from torch import nn

    name = "<ipython-input-3-0123456789ab>"
    monkeypatch.setitem(
        linecache.cache, name, (len(CELL), None, CELL.splitlines(keepends=True), name)
    )
    cell = {"__name__": "__main__", "nn": nn}
    exec(compile(CELL, name, "exec"), cell)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 6)).astype(np.float32), np.arange(60) % 3
    found = []
    for engine in ("inline", {"kind": "local", "workers": 1}):
        task = Task("a", data=(x, y, x, y), model=cell["build"])
        experiment = Experiment(clients=4, rounds=1, tasks=[task], engine=engine)
        [(_, record)] = mmfl.rounds(experiment)
        found.append({failure.detail for failure in record.failures})
        for failure in record.failures:
            assert re.search(rf'File "{name}", line 12, in fail\n    raise', failure.trace)
    said = (
        f"ValueError: not today ({name}, line 8, in Net.forward: return self.fail(x); "
        f'{name}, line 12, in Net.fail: raise ValueError("not today"))'
    )
    assert found == [{said}, {said}]
