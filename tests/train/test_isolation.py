"""What one piece of work does to torch's generator and settings does not reach another."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.utils._device
from torch.nn.modules.module import register_module_forward_hook as register_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import mmfl
from mmfl import Experiment
from mmfl.rng import stream
from mmfl.train.seeding import isolate_torch, seed_torch

AUTOGRAD = torch._C._autograd
OPERATIONS = ("matmul", "conv", "rnn")
STACKS = (
    (torch._C._len_torch_function_stack, torch._C._pop_torch_function_stack),
    (torch._C._len_torch_dispatch_stack, partial(torch._C._pop_torch_dispatch_stack, None)),
    (
        lambda: AUTOGRAD._top_saved_tensors_default_hooks(True),
        AUTOGRAD._pop_saved_tensors_default_hooks,
    ),
)
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
from torch.nn.modules.module import register_module_forward_hook as register_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

class Negated(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        return -found if func is nn.functional.linear else found

class Logged(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

MEDDLE = {
    "nothing": lambda: None,
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "matmul": lambda: torch.set_float32_matmul_precision("medium"),
    "gradients": lambda: torch.set_grad_enabled(False),
    "denormals": lambda: torch.set_flush_denormal(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast_block": lambda: torch.autocast("cpu", dtype=torch.bfloat16).__enter__(),
    "autocast_dtype": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "autocast_cache": lambda: torch.set_autocast_cache_enabled(False),
    "device": lambda: torch.set_default_device("meta"),
    "function_mode": lambda: Negated().__enter__(),
    "dispatch_mode": lambda: Logged().__enter__(),
    "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(abs, abs).__enter__(),
    "threads": lambda: torch.set_num_threads(3),
    "seed": lambda: torch.manual_seed(7),
    "mkldnn": lambda: torch._C._set_mkldnn_enabled(False),
    "fp32": lambda: setattr(torch.backends, "fp32_precision", "bf16"),
    "fp32_matmul": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "flash": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "fastpath": lambda: torch.backends.mha.set_fastpath_enabled(False),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "global_hook": lambda: nn.modules.module.register_module_forward_hook(lambda m, i, o: 2 * o),
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
    torch.backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch._C._set_mkldnn_enabled(True)
    torch.backends.cuda.enable_flash_sdp(True)
    torch.backends.mha.set_fastpath_enabled(True)
    torch.set_anomaly_enabled(False)
    torch.nn.modules.module._global_forward_hooks.clear()
    torch.set_grad_enabled(True)
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)
    torch.set_rng_state(random)
    for stack in STACKS:
        while stack[0]():
            stack[1]()
    torch.utils._device.CURRENT_DEVICE = torch._GLOBAL_DEVICE_CONTEXT.device_context = None
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(True)
    while nesting():
        torch.autocast_decrement_nesting()


def nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def run(how: str = "nothing", where: str = "built", seed: int = 1) -> tuple[str, list[float]]:
    """The fingerprint, and the second task's losses."""
    text = TEXT.replace("HOW", how).replace("WHERE", where)
    experiment = Experiment.from_toml(text, sets=[f"seed={seed}"], allow_imports=True)
    found = list(mmfl.rounds(experiment))
    return found[-1][0].fingerprint, [record.loss["second"] for _, record in found]


def precisions() -> tuple[str, ...]:
    """Of sums and products on the CPU; "ieee" is what "none" means."""
    backend = torch.backends.mkldnn
    found = [backend.fp32_precision, *(getattr(backend, op).fp32_precision for op in OPERATIONS)]
    return tuple(name if name != "ieee" else "none" for name in found)


def settings() -> tuple[object, ...]:
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        *precisions(),
        torch.backends.mkldnn.enabled,
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_anomaly_enabled(),
        len(torch.nn.modules.module._global_forward_hooks),
        torch.is_grad_enabled(),
        bool(torch.tensor(1e-40, device="cpu") * 1 == 0),
        torch.get_num_threads(),
        torch.initial_seed(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        nesting(),
        torch.get_default_device(),
        *(top() for top, _ in STACKS),
    )


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("where", ["built", "trained"])
@pytest.mark.parametrize(
    "how",
    [
        *("dtype", "deterministic", "matmul", "gradients", "denormals", "threads", "seed"),
        *("autocast", "autocast_block", "autocast_dtype", "autocast_cache"),
        *("device", "function_mode", "dispatch_mode", "hooks", "global_hook"),
        *("mkldnn", "fp32", "fp32_matmul", "flash", "fastpath", "anomaly"),
    ],
)
def test_what_a_model_sets_in_torch_is_put_back_and_changes_no_other_task(how, where):
    before, (_, losses) = settings(), run()
    assert run(how, where)[1] == losses
    assert settings() == before


class Doubled(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        return found * 2 if func is torch.nn.functional.linear else found


@contextmanager
def changed(change, value, usual) -> Iterator[None]:
    change(value)
    try:
        yield
    finally:
        change(usual)


AMBIENT = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "dtype": lambda: changed(torch.set_default_dtype, torch.float64, torch.float32),
    "device": lambda: torch.device("meta"),
    "default device": lambda: changed(torch.set_default_device, "meta", None),
    "function mode": Doubled,
    "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t),
    "matmul": lambda: changed(torch.set_float32_matmul_precision, "medium", "highest"),
    "fp32": lambda: changed(partial(setattr, torch.backends, "fp32_precision"), "bf16", "none"),
    "fp32 of products": lambda: changed(
        partial(setattr, torch.backends.mkldnn.matmul, "fp32_precision"), "bf16", "none"
    ),
    "mkldnn": lambda: changed(torch._C._set_mkldnn_enabled, False, True),
    "global hook": lambda: register_hook(lambda module, given, found: 2 * found),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("what", AMBIENT)
def test_what_the_caller_has_set_in_torch_changes_no_bits_and_is_still_set_afterwards(what):
    alone, outside = run(), settings()
    with AMBIENT[what]():
        before = settings()
        assert run() == alone
        assert settings() == before
    assert settings() == outside


@pytest.mark.usefixtures("_as_it_was")
def test_a_callers_modes_are_in_their_order_again_after_an_error():
    first, second = Doubled(), Doubled()
    with first, second:
        with pytest.raises(ZeroDivisionError), isolate_torch():
            torch.set_default_device("meta") or 1 / 0
        assert _get_current_function_mode_stack() == [first, second]
        assert torch.get_default_device() == torch.device("cpu")
        assert torch.zeros(1).device.type == "cpu"


def test_autocast_remembers_no_weights_of_an_earlier_piece_of_work():
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    found = []
    for value in (1.0, 2.0):
        with isolate_torch():
            layer.weight.data.fill_(value)
            layer.bias.data.fill_(0.0)
            torch.set_autocast_enabled("cpu", True)
            found.append(layer(x)[0, 0].item())
    assert found == [2.0, 4.0]


def test_a_seeded_piece_of_work_has_the_generator_to_itself():
    with seed_torch(stream(2, "x")):
        alone = torch.rand(3)
    entered, left, drawn = threading.Event(), threading.Event(), []

    def draw() -> None:
        with seed_torch(stream(2, "x")):
            entered.set()
            left.wait()
            drawn.append(torch.rand(3))

    other = threading.Thread(target=draw)
    with seed_torch(stream(1, "x")):
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
