"""The types of the public interface, as type checkers of users see them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mmfl
from mmfl.experiment.local_training import LOCAL_KEYS

SCRIPT = """
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import mmfl
from mmfl.allocate import FedFair

x = np.zeros((40, 3), np.float32)
y = np.arange(40) % 2


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Linear(shape[0], outputs)


class Net(nn.Module):
    pass


@dataclass(frozen=True)
class Described:
    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        return nn.Linear(shape[0], outputs)


tasks = [
    mmfl.Task("a", data=(x, y), model=build),
    mmfl.Task("b", data=(torch.zeros(40, 3), y), model=nn.Linear(3, 2), lr=0.1, epochs=2),
    mmfl.Task("c", data={"x_train": x, "y_train": y}, model=Net, optimizer=torch.optim.Adam),
    mmfl.Task("d", dataset="mnist", model={"kind": "mlp", "hidden": [16]}, metric="auc"),
    mmfl.Task("e", dataset=lambda: (x, y, x, y), model=lambda: nn.Linear(3, 2), target=0.9),
    mmfl.Task(name="f", data=(x, y), model=Described(), loss=nn.functional.cross_entropy),
    mmfl.Task("g", data=(x, y), optimizer={"kind": "adam", "betas": [0.9, 0.99]}, weight=2.0),
    mmfl.Task("h", data=(x, y), normalize="standard", partition="iid", augment={"flip": True}),
]
experiment = mmfl.Experiment(tasks=tasks, clients=40, rounds=60)
other = mmfl.Experiment(
    rounds=3,
    clients=mmfl.Clients(count=3, active=[0.5, 1.0, 1.0]),
    tasks=({"name": "z", "dataset": "mnist"},),
    local={"epochs": 1, "lr": 0.1},
    allocator=FedFair(alpha=2.0),
    aggregator="median",
    engine={"kind": "local", "workers": 2},
    score="loss",
    device="auto",
)
run: mmfl.Run = mmfl.run(experiment, out="runs/a")
first: int = run.turns()[0].client
for state, record in mmfl.rounds(other):
    found: float = record.metric["a"]
answers = run.model("a", network=build).predict(x)
"""
WRONG = """
import mmfl

mmfl.Task(3, data=())
mmfl.Task("a", data=(), lr=[0.1], wieght=2.0)
mmfl.Experiment(tasks=[], clients="forty", rounds=60)
"""


@pytest.mark.slow
@pytest.mark.cold
def test_what_runs_passes_a_type_checker(tmp_path):
    (tmp_path / "right.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in lines if not line.startswith("wrong.py")] == []
    assert [line.split(":")[1] for line in lines] == ["4", "5", "5", "6"], done.stdout


@pytest.mark.parametrize("kind", [mmfl.Task, mmfl.Experiment, mmfl.Clients])
def test_the_signature_for_type_checkers_has_all_fields_in_their_order(kind):
    fields = [field.name for field in dataclasses.fields(kind)]
    tree = ast.parse(Path(inspect.getfile(kind)).read_text())
    (made,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    (init,) = (n for n in ast.walk(made) if getattr(n, "name", "") == "__init__")
    assert [arg.arg for arg in init.args.args] == ["self", *fields]
    keywords = ["data", *LOCAL_KEYS] if kind is mmfl.Task else []
    assert [arg.arg for arg in init.args.kwonlyargs] == keywords
