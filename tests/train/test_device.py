"""Training on a device with a memory of its own; a GPU itself is tested where there is one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError
from mmfl.experiment import Inline, Local
from mmfl.rng import stream
from mmfl.train.device import Device
from support.second_memory import SecondMemory, second_memory

TEXT = """
rounds = 2
clients = 8
kernel = "fast"
[local]
batch_size = 8
steps = 4
[engine]
kind = "inline"
"""
TASKS = {
    "dropout": 'model = { kind = "mlp", dropout = 0.3 }\nmetric = "auc"',
    "adam": 'optimizer = "adam"\nprox = 0.1\nclip_norm = 0.5\nmetric = "f1"',
    "images": """
dataset = { kind = "synthetic", classes = 3, shape = [12, 12, 3], train = 200, test = 60 }
model = { kind = "preact_resnet", width = 4, blocks = [1, 1] }
augment = { crop = 1, flip = true }
momentum = 0.0
""",
    "large": "normalize = 'standard'\nkernel = 'reference'\nmetric = 'perplexity'",
}
SMALL = 'dataset = { kind = "synthetic", classes = 3, shape = [6], train = 200, test = 60 }\n'


def experiment(*names: str, **changes: object) -> Experiment:
    text = TEXT
    for name in names or TASKS:
        own = TASKS[name]
        data = "" if "dataset" in own else SMALL
        text += f'[[tasks]]\nname = "{name}"\n{data}{own}\n'
    return replace(Experiment.from_toml(text), **changes)


def last(experiment: Experiment) -> mmfl.State:
    records = list(mmfl.rounds(experiment))
    assert [f.detail for _, record in records for f in record.failures] == []
    return records[-1][0]


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_run_on_another_device_has_the_same_numbers(monkeypatch, precision):
    """Nothing is computed from two memories at once, and all comes back."""
    e = experiment(precision=precision)
    plain = last(e)
    with second_memory(monkeypatch) as device:
        moved = last(e)
    assert device.transfers > 100
    for task in ("dropout", "adam", "large"):
        assert moved.params[task].flat.tobytes() == plain.params[task].flat.tobytes(), task
    one, other = moved.params["images"].flat, plain.params["images"].flat
    assert np.allclose(one, other, atol=1e-3)  # images lie differently there


class WithBuffers(nn.Module):
    """Running statistics, a counter, a table that is not stored, and a tied weight."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 3)
        self.again = nn.Linear(6, 6)
        self.again.weight = self.first.weight
        self.register_buffer("scale", torch.full((6,), 0.5), persistent=False)

    def forward(self, x):
        x = torch.tanh(self.again(torch.tanh(self.norm(self.first(x)))))
        self.scale = self.scale * 0.9
        return self.last(x * self.scale)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.gru = nn.Embedding(7, 4), nn.GRU(4, 5, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        x = self.table(x)
        return self.out(self.gru(x, x.new_zeros(1, len(x), 5))[0][:, -1])


def own(model, x, y, loss="cross_entropy"):
    cut = len(x) * 3 // 4
    data = x[:cut], y[:cut], x[cut:], y[cut:]
    task = mmfl.Task("own", data=data, model=model, loss=loss, steps=4)
    changes = {"kernel": "fast", "engine": Inline()}
    return mmfl.Experiment(tasks=[task], clients=4, rounds=2, **changes)


@pytest.mark.parametrize("model", [WithBuffers, Tokens, "mlp"])
def test_buffers_tokens_and_real_targets_are_moved_too(monkeypatch, model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6)).astype(np.float32)
    e = {
        WithBuffers: lambda: own(model, x, np.arange(120) % 3),
        Tokens: lambda: own(model, rng.integers(0, 7, size=(120, 5)), np.arange(120) % 2),
        "mlp": lambda: own(model, x, rng.normal(size=120).astype(np.float32), "mse"),
    }[model]()
    plain = last(e)
    with second_memory(monkeypatch):
        moved = last(e)
    assert moved.params["own"].flat.tobytes() == plain.params["own"].flat.tobytes()


class Forgotten(nn.Module):
    """Its table is no buffer, so nothing moves it."""

    def __init__(self):
        super().__init__()
        self.layer, self.table = nn.Linear(6, 3), torch.ones(6)

    def forward(self, x):
        return self.layer(x * self.table)


def test_what_stays_behind_is_found_before_training(monkeypatch):
    e = own(Forgotten, np.zeros((80, 6), np.float32), np.arange(80) % 3)
    last(e)
    with second_memory(monkeypatch), pytest.raises(EngineError, match="on the same device"):
        last(e)


def test_the_devices_generator_is_seeded_and_put_back():
    device = SecondMemory()
    before = device.generator.get_state()
    found = []
    for _ in range(2):
        with device.seed(stream(3, "x")):
            found.append((torch.rand(3), torch.rand(3, generator=device.generator)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert torch.equal(device.generator.get_state(), before)


def test_a_gpu_is_asked_for_the_same_bits_every_time():
    def modes():
        core = torch._C
        found = [torch.are_deterministic_algorithms_enabled(), core._get_cudnn_benchmark()]
        if hasattr(core, "_get_fp32_precision_getter"):
            found += [core._get_fp32_precision_getter("cuda", op) for op in ("matmul", "conv")]
        return found

    before = modes()
    with Device("cpu").isolate():
        assert modes()[0] is False
    with SecondMemory().isolate():
        assert modes()[:2] == [True, False]
        assert set(modes()[2:]) <= {"ieee"}
    assert modes() == before


@pytest.mark.parametrize("job", ["train", "evaluate"])
def test_a_device_that_fails_ends_the_run_with_one_sentence(monkeypatch, job):
    class Fails(nn.Linear):
        broken = False

        def forward(self, x):
            if self.broken and self.training is (job == "train"):
                device.lost = True
                raise RuntimeError("CUDA error")
            return super().forward(x)

    monkeypatch.setattr(Fails, "broken", False)
    e = own(lambda: Fails(6, 3), np.zeros((80, 6), np.float32), np.arange(80) % 3)
    with second_memory(monkeypatch) as device:
        rounds = mmfl.rounds(e)
        next(rounds)
        Fails.broken = True
        with pytest.raises(EngineError, match=r"^device 'cpu' has failed: CUDA error.*triggered$"):
            list(rounds)


def test_an_operation_without_a_deterministic_algorithm_says_what_helps(monkeypatch):
    class Fails(nn.Linear):
        def forward(self, x):
            if self.training:
                raise RuntimeError("x_cuda does not have a deterministic implementation, but ...")
            return super().forward(x)

    e = own(lambda: Fails(6, 3), np.zeros((80, 6), np.float32), np.arange(80) % 3)
    with second_memory(monkeypatch):
        *_, (_, record) = mmfl.rounds(e)
    assert record.failures[0].detail.endswith('bits every time: use device = "cpu"')


def test_without_that_a_turn_that_raises_costs_only_the_turn(monkeypatch):
    class Fails(nn.Linear):
        def forward(self, x):
            if self.training:
                raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has...")
            return super().forward(x)

    e = own(lambda: Fails(6, 3), np.zeros((80, 6), np.float32), np.arange(80) % 3)
    with second_memory(monkeypatch):
        *_, (_, record) = mmfl.rounds(e)
    assert {f.reason for f in record.failures} == {"raised"}
    assert "the GPU is out of memory; use fewer engine.workers" in record.failures[0].detail


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


@gpu
def test_on_a_gpu_several_workers_have_the_bits_of_one():
    e = experiment("dropout", "adam", device="cuda")
    runs = [last(replace(e, engine=engine)) for engine in (Inline(), Local(1), Local(2))]
    assert len({run.fingerprint for run in runs}) == 1


@gpu
def test_on_a_gpu_the_numbers_are_nearly_those_of_the_processor():
    e = experiment("dropout", "adam", "large")
    plain, moved = last(e), last(replace(e, device="cuda"))
    for task in ("adam", "large"):  # dropout draws other units there
        assert np.allclose(plain.params[task].flat, moved.params[task].flat, atol=1e-3)


@gpu
def test_a_gpu_says_what_it_is():
    found = Device("cuda").describe()
    assert found["gpu"] == torch.cuda.get_device_name(0)
