"""Networks of every kind that users have: the same bits with any number of workers."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import mmfl
from mmfl.errors import EngineError
from support.helpers import one_line

RNG = np.random.default_rng(0)
SERIES = RNG.normal(size=(90, 6, 3)).astype(np.float32)
LABELS = (SERIES.mean((1, 2)) > 0).astype(int)
DATA = SERIES[:70], LABELS[:70], SERIES[70:], LABELS[70:]


class Rotary(nn.Module):
    """A layer that rotates pairs; its tables are made when they are needed, and grow."""

    def __init__(self):
        super().__init__()
        self.calls, self.tables = 0, None

    def forward(self, x):
        self.calls += 1
        length = x.shape[1] + self.calls  # longer and longer
        if self.tables is None or len(self.tables[0]) < length:
            angle = torch.arange(length)[:, None] / 10 ** torch.arange(2.0)
            self.tables = angle.cos(), angle.sin()
        cos, sin = (table[: x.shape[1]] for table in self.tables)
        one, other = x.chunk(2, -1)
        turned = torch.cat([one * cos - other * sin, one * sin + other * cos], -1)
        return turned * (1 + 0.001 * self.calls)  # how often it was called can be seen


class Spinning(nn.Module):
    """A layer with complex numbers in a buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("turns", torch.polar(torch.ones(6, 2), torch.rand(6, 2)))

    def forward(self, x):
        pairs = torch.view_as_complex(self.layer(x).unflatten(-1, (2, 2)).contiguous())
        return torch.view_as_real(pairs * self.turns).flatten(2)


def make_network(kind: str) -> nn.Module:
    class Net(nn.Module):
        """Series are N x T x F."""

        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
            self.middle = nn.Identity()
            self.masks = {}

        def forward(self, x):
            x = torch.tanh(self.first(x))
            if kind == "mask":  # one for each batch size
                self.masks.setdefault(len(x), torch.rand(len(x), 1, 4) > 0.3)
                x = x * self.masks[len(x)]
            if kind == "numpy noise":
                x = x + 0.1 * torch.as_tensor(np.random.normal(size=x.shape)).float()  # noqa: NPY002
            if kind == "python noise":
                x = x * random.uniform(0.5, 1.5)
            if kind == "gru":
                return self.last(self.middle(x)[0][:, -1])
            if kind == "batch norm":
                return self.last(self.middle(x.mean(1)))
            return self.last(self.middle(x).mean(1))

    class Tied(Net):
        def __init__(self):
            super().__init__()
            self.middle = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
            self.middle[2].weight = self.middle[0].weight

    network = Tied() if kind == "tied" else Net()
    if kind == "rotary":
        network.middle = Rotary()
    if kind == "batch norm":
        network.middle = nn.BatchNorm1d(4)
    if kind == "dropout":
        network.middle = nn.Dropout(0.4)
    if kind == "gru":
        network.middle = nn.GRU(4, 4, batch_first=True)
    if kind == "frozen":
        network.first.requires_grad_(False)
    if kind == "complex":
        network.middle = Spinning()
    if kind == "spectral norm":
        network.middle = nn.utils.spectral_norm(nn.Linear(4, 4))
    if kind == "attention":
        network.middle = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    if kind == "lazy":
        network.middle = nn.Sequential(nn.LazyLinear(4), nn.Dropout(0.1))
    if kind == "hook":  # the hook refers to the network, and so must its copy's
        network.middle = nn.Linear(4, 4)
        network.kept = torch.zeros(1)
        network.middle.register_forward_hook(
            lambda layer, given, found: setattr(network, "kept", found.detach().mean())
        )
        network.last.register_forward_pre_hook(lambda layer, given: (given[0] + network.kept,))
    return network


KINDS = (
    *("rotary", "mask", "batch norm", "dropout", "tied", "frozen", "gru", "lazy", "hook"),
    *("complex", "spectral norm", "attention", "numpy noise", "python noise"),
)


def experiment(**models) -> mmfl.Experiment:
    tasks = [mmfl.Task(name, data=DATA, model=model) for name, model in models.items()]
    return mmfl.Experiment(
        tasks=tasks, clients=7, rounds=3, local={"epochs": 2, "batch_size": 4}, engine="inline"
    )


@pytest.fixture(scope="module")
def made() -> mmfl.Experiment:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return experiment(**{kind.replace(" ", "_"): make_network(kind) for kind in KINDS})


@pytest.fixture(scope="module")
def ended(made, tmp_path_factory):
    return mmfl.run(made, out=tmp_path_factory.mktemp("inline") / "run")


@pytest.mark.parametrize("workers", [1, 2])
def test_one_fingerprint_with_any_number_of_workers(workers, made, ended, tmp_path):
    other = mmfl.run(replace(made, engine={"workers": workers}), out=tmp_path / "run")
    assert other.fingerprint == ended.fingerprint


def test_an_interrupted_run_ends_with_the_same_bits(made, ended, tmp_path):
    part = mmfl.run(replace(made, rounds=1), out=tmp_path / "run")
    assert mmfl.run(made, out=part.folder, resume=True).fingerprint == ended.fingerprint


def test_a_turn_does_not_depend_on_the_order_in_which_tasks_are_trained(made, ended):
    *_, (state, record) = mmfl.rounds(replace(made, tasks=made.tasks[::-1]))
    assert record.failures == ()
    *_, (straight, _) = mmfl.rounds(made)
    for task in state.params:
        assert np.array_equal(state.params[task].flat, straight.params[task].flat)


def test_running_statistics_are_averaged_and_frozen_weights_stay(made):
    *_, (state, _) = mmfl.rounds(made)
    first = made.tasks[[task.name for task in made.tasks].index("frozen")].model.function.find()
    kept = first.first.weight.detach().numpy()
    assert np.array_equal(state.params["frozen"]["first.weight"], kept)
    normed = state.params["batch_norm"]
    assert (normed["middle.running_mean"] != 0).all()
    assert "middle.num_batches_tracked" not in normed
    assert "middle.2.weight" not in state.params["tied"]


def test_a_run_leaves_the_programs_own_random_numbers_alone():
    made = experiment(a=lambda: make_network("numpy noise"), b=make_network("python noise"))
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    next(mmfl.rounds(made))
    drawn = random.random(), np.random.random()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    assert drawn == (random.random(), np.random.random())  # noqa: NPY002


def test_series_in_memory_reach_an_own_network_as_they_are_and_images_do_not(tmp_path):
    seen = []

    def build(shape, outputs):
        seen.append(tuple(shape))
        return nn.Sequential(nn.Flatten(), nn.Linear(18, outputs))

    wide = tuple(np.repeat(part, 2, -1) if part.ndim == 3 else part for part in DATA)
    images = tuple((part > 0).astype(np.uint8) if part.ndim == 3 else part for part in DATA)
    tasks = [
        mmfl.Task("series", data=DATA, model=build),
        mmfl.Task("images", data=images, model=build),
        mmfl.Task("file", dataset=lambda: DATA, model=build),
        mmfl.Task("cnn", data=wide, model="cnn"),
    ]
    made = mmfl.Experiment(tasks=tasks, clients=4, rounds=1, engine="inline")
    run = mmfl.run(made, out=tmp_path / "run")
    assert seen == [(6, 3), (1, 6, 3), (1, 6, 3)]
    assert run.model("series").prepare(DATA[2]).shape == (20, 6, 3)
    assert run.model("file").prepare(DATA[2]).shape == (20, 1, 6, 3)


def test_images_as_torch_has_them_reach_a_network_and_its_copy_as_they_are(tmp_path):
    x = torch.rand(40, 3, 8, 9, generator=torch.Generator().manual_seed(0))
    network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(84, 2))
    with pytest.warns(mmfl.errors.MmflWarning, match="taken as N x C x H x W"):
        task = mmfl.Task("a", data=(x, np.arange(40) % 2, x, np.arange(40) % 2), model=network)
    made = mmfl.Experiment(tasks=[task], clients=4, rounds=1, engine="inline")
    model = mmfl.run(made, out=tmp_path / "run").model("a")
    assert torch.equal(model.prepare(x[:5]), x[:5])
    np.testing.assert_array_equal(model.predict(x), model.predict(x.movedim(1, -1).numpy()))


def test_a_hook_of_a_copied_network_refers_to_the_copy(made):
    network = make_network("hook")
    *_, (_, record) = mmfl.rounds(experiment(a=network))
    assert record.failures == ()
    assert network.kept.item() == 0


def test_one_network_in_two_tasks_is_two_networks(made):
    network = make_network("tied")
    before = [p.detach().clone() for p in network.parameters()]
    *_, (state, _) = mmfl.rounds(experiment(a=network, b=network))
    assert not np.array_equal(state.params["a"].flat, state.params["b"].flat)
    assert all(map(torch.equal, before, network.parameters()))


def test_a_function_that_gives_one_network_twice_is_refused():
    network = make_network("tied")
    made = experiment(a=lambda: network, b=lambda: network)
    said = one_line(EngineError, lambda: next(mmfl.rounds(made)))
    assert said == (
        "task 'b': its model cannot be built: its weights 'first.weight' are in use already, by "
        "another task or an earlier run; copy them (copy.deepcopy) or make them whenever the "
        "network is built, or give the nn.Module itself as the model"
    )


class Pair(nn.Linear):
    def forward(self, x):
        return super().forward(x.mean(1)), x


def share_memory():
    network = make_network("tied")
    network.middle[2].bias = nn.Parameter(network.middle[0].bias.data)
    return network


SENTENCES = {
    "tuple": (Pair(3, 2), "its model does not run: forward must return a tensor, got (tensor("),
    "double": (nn.Linear(3, 2).double(), "cannot be built: weights must be float32, but 'weight'"),
    "half": (nn.Linear(3, 2).half(), "'weight' is torch.float16; call .float() on the network"),
    "nothing": (nn.Flatten(), "cannot be built: there is nothing to train in the network"),
    "shared memory": (share_memory, "weights 'middle.0.bias' and 'middle.2.bias' share memory"),
    "lazy that fails": (
        nn.Sequential(nn.LazyLinear(2), nn.Linear(3, 2)), "its model cannot be built: RuntimeError"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SENTENCES)
def test_networks_that_cannot_be_trained_are_one_sentence(kind):
    network, rule = SENTENCES[kind]
    said = one_line(EngineError, lambda: next(mmfl.rounds(experiment(a=network))))
    assert said.startswith("task 'a': ")
    assert rule in said


def test_a_state_of_torch_is_a_warm_start(tmp_path, made):
    """Also with what is not aggregated: the second name of a tied weight, and counters."""
    network = make_network("tied")
    network.middle.append(nn.BatchNorm1d(6))
    state = {name: t.clone() + 1 for name, t in network.state_dict().items()}
    save_file(state, tmp_path / "first.safetensors")
    made = experiment(a=network)
    task = replace(made.tasks[0], warm_start=str(tmp_path / "first.safetensors"))
    still = {"lr": 1e-30, "momentum": 0.0, "weight_decay": 0.0}
    *_, (found, record) = mmfl.rounds(replace(made, tasks=[task], rounds=1, local=still))
    assert record.failures == ()
    for name in found.params["a"]:
        if "running" not in name:
            np.testing.assert_array_equal(found.params["a"][name], state[name].numpy())


def test_layers_that_forward_makes_are_refused_before_training():
    class Late(nn.Module):
        def forward(self, x):
            if not hasattr(self, "layer"):
                self.layer = nn.Linear(x.shape[-1], 2)
            return self.layer(x.mean(1)) + self.bias

        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(2))

    said = one_line(EngineError, lambda: next(mmfl.rounds(experiment(a=Late))))
    assert said == (
        "task 'a': its model does not run: the network makes its weights 'layer.weight' while it "
        "runs; make them in __init__, and register what is only a cache with persistent=False"
    )
