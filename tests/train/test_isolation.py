"""What one piece of work does to torch's generator and settings does not reach another."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
import torch

import mmfl
from mmfl import Experiment
from mmfl.rng import stream
from mmfl.train.seeding import seeded

TEXT = """
rounds = 2
seed = 1
[clients]
count = 4
[local]
epochs = 1
batch_size = 4
[engine]
kind = "inline"
[[tasks]]
name = "first"
dataset = { kind = "synthetic", classes = 3, train = 60, test = 20 }
model = { kind = "meddling:Meddler", how = "HOW", where = "WHERE" }
[[tasks]]
name = "second"
dataset = { kind = "synthetic", classes = 3, train = 60, test = 20 }
model = { kind = "meddling:Meddler", how = "nothing", where = "built" }
"""
MODULE = """
import time
from dataclasses import dataclass
import torch
from torch import nn

MEDDLE = {
    "nothing": lambda: None,
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "matmul": lambda: torch.set_float32_matmul_precision("medium"),
    "gradients": lambda: torch.set_grad_enabled(False),
    "denormals": lambda: torch.set_flush_denormal(True),
    "threads": lambda: torch.set_num_threads(3),
    "seed": lambda: torch.manual_seed(7),
    "waits": lambda: time.sleep(0.001),  # lets other threads in
}

@dataclass(frozen=True)
class Meddler:
    how: str
    where: str

    def build(self, shape, outputs):
        return Net(MEDDLE[self.how], self.where, shape[0], outputs)

class Net(nn.Module):
    def __init__(self, meddle, where, inputs, outputs):
        super().__init__()
        self.meddle, self.where = meddle, where
        self.layer = nn.Linear(inputs, outputs)
        self.drop = nn.Dropout(0.5)
        if where == "built":
            meddle()

    def forward(self, x):
        found = self.layer(self.drop(x))
        if self.where == "trained" and self.training:
            self.meddle()
        return found
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "meddling.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("meddling", None)


@pytest.fixture
def _as_it_was():
    """Torch as it was before, should the test fail."""
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(True)
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)
    torch.set_rng_state(random)


def run(how: str = "nothing", where: str = "built", seed: int = 1) -> tuple[str, list[float]]:
    """The fingerprint, and the second task's losses."""
    text = TEXT.replace("HOW", how).replace("WHERE", where)
    experiment = Experiment.from_toml(text, sets=[f"seed={seed}"], allow_imports=True)
    found = list(mmfl.rounds(experiment))
    return found[-1][0].fingerprint, [record.loss["second"] for _, record in found]


def settings() -> tuple[object, ...]:
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        bool(torch.tensor(1e-40) * 1 == 0),
        torch.get_num_threads(),
        torch.initial_seed(),
    )


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("where", ["built", "trained"])
@pytest.mark.parametrize(
    "how", ["dtype", "deterministic", "matmul", "gradients", "denormals", "threads", "seed"]
)
def test_what_a_model_sets_in_torch_is_put_back_and_changes_no_other_task(how, where):
    before, (_, losses) = settings(), run()
    assert run(how, where)[1] == losses
    assert settings() == before


def test_a_seeded_piece_of_work_has_the_generator_to_itself():
    with seeded(stream(2, "x")):
        alone = torch.rand(3)
    entered, left, drawn = threading.Event(), threading.Event(), []

    def draw() -> None:
        with seeded(stream(2, "x")):
            entered.set()
            left.wait()
            drawn.append(torch.rand(3))

    other = threading.Thread(target=draw)
    with seeded(stream(1, "x")):
        other.start()
        assert not entered.wait(0.05)
    left.set()
    other.join()
    assert drawn[0].equal(alone)


def test_runs_in_two_threads_have_the_bits_that_they_have_one_after_the_other():
    alone = {seed: run("waits", "trained", seed) for seed in (1, 2)}
    together: dict[int, tuple[str, list[float]]] = {}

    def add(seed: int) -> None:
        together[seed] = run("waits", "trained", seed)

    threads = [threading.Thread(target=add, args=[seed]) for seed in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
