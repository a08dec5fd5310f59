"""Settings and small experiments that many tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mmfl import Experiment

settings.register_profile(
    "mmfl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mmfl")

SMALL = """
rounds = 3
seed = 1
[clients]
count = 10
active = 0.8
[local]
epochs = 1
batch_size = 16
lr = 0.05
[engine]
kind = "inline"
[[tasks]]
name = "dense"
dataset = { kind = "synthetic", classes = 3, train = 300, test = 100, noise = 0.5 }
model = { kind = "mlp", hidden = [8], dropout = 0.3 }
[[tasks]]
name = "image"
dataset = { kind = "synthetic", classes = 4, shape = [8, 8], train = 400, test = 150, seed = 2 }
model = { kind = "cnn", channels = [2, 4], dense = 8, dropout = 0.2 }
partition = { kind = "half_classes", points = [10, 30] }
steps = 3
"""


@pytest.fixture()
def small() -> Experiment:
    """Two small tasks with dropout layers, in this process."""
    return Experiment.from_toml(SMALL)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs in a folder of its own, without the user's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MMFL_DATA", raising=False)
    for name in [name for name in os.environ if name.startswith("FLWR_")]:
        monkeypatch.delenv(name)
    yield
