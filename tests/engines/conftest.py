"""A model that misbehaves as it is told, in a module that workers can import."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from mmfl import Experiment

EXPERIMENT = """
rounds = 2
[clients]
count = 2
[local]
epochs = 1
[evaluate]
every = 2
[engine]
kind = "local"
workers = 2
[[tasks]]
name = "odd"
dataset = { kind = "synthetic", classes = 3, train = 60, test = 20 }
model = { kind = "oddities:Odd", path = "PATH", how = "HOW" }
"""

ODDITIES = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
import torch
from mmfl.data import Synthetic
from torch import nn

@dataclass(frozen=True)
class Marked:
    def load(self, data_dir):
        found = Synthetic(classes=3, train=80, test=20).load(None)
        found.x_train[17, 0] = 1e6
        return found

@dataclass(frozen=True)
class Odd:
    path: str
    how: str

    def build(self, shape, outputs):
        if self.how == "builds not":
            raise RuntimeError("no such layer")
        while self.how == "builds for ever":
            time.sleep(0.01)
        return Net(self.path, self.how, shape[0], outputs)

@dataclass(frozen=True)
class Moving:
    def build(self, shape, outputs):
        return MovingNet(shape[0], outputs)

class MovingNet(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer, self.norm = nn.Linear(inputs, outputs), nn.BatchNorm1d(inputs)
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("cache", torch.ones(1), persistent=False)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            self.cache += 1
        return self.layer(self.norm(x) - self.mean) * self.cache.sqrt()

@dataclass(frozen=True)
class Caching:
    def build(self, shape, outputs):
        return CachingNet(shape[0], outputs)

class CachingNet(nn.Linear):
    table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.linspace(0.5, 1.5, self.out_features)
        return super().forward(x) * self.table

class Net(nn.Module):
    def __init__(self, path, how, inputs, outputs):
        super().__init__()
        self.path, self.how, self.layer = Path(path), how, nn.Linear(inputs, outputs)

    def forward(self, x):
        if self.training and self.how == "dies once" and not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.training and self.how == "dies on marker" and (x > 1e5).any():
            os._exit(8)
        if self.training and self.how == "dies always":
            os._exit(7)
        if self.training and self.how == "hangs":
            while True:
                time.sleep(0.01)
        if self.training and self.how == "exits":
            raise SystemExit(0)
        if self.training and self.how == "raises":
            raise ValueError("cannot\\nlearn this")
        if not self.training and self.how == "evaluation hangs" and len(x) > 2:
            while True:
                time.sleep(0.01)
        while not self.training and self.how == "every evaluation hangs":
            time.sleep(0.01)
        if not self.training and self.how == "evaluation dies" and (x > 1e5).any():
            os._exit(9)
        if not self.training and self.how == "evaluates not" and self.path.exists():
            raise ValueError("no evaluation")
        self.path.with_suffix(".ran").touch()
        if self.training and self.how == "evaluates not":
            self.path.touch()
        return self.layer(x)
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "oddities.py").write_text(textwrap.dedent(ODDITIES))
    monkeypatch.syspath_prepend(tmp_path)

    def make(how: str) -> Experiment:
        text = EXPERIMENT.replace("PATH", str(tmp_path / "flag")).replace("HOW", how)
        return Experiment.from_toml(text, allow_imports=True)

    return make
