"""Models and data that exist only in a program: the same bits with every engine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl.errors import ConfigError, EngineError
from support.helpers import one_line

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)
DATA = X[:90], (X[:90, 0] > 0).astype(int), X[90:], (X[90:, 0] > 0).astype(int)
WIDTH = 5


def make_network(kind: str):
    """A model in each of the ways in which a program can give one."""

    class Net(nn.Module):
        def __init__(self, shape, outputs):
            super().__init__()
            self.first, self.last = nn.Linear(*shape, WIDTH), nn.Linear(WIDTH, outputs)

        def forward(self, x):
            return self.last(torch.relu(self.first(x)))

    class Fixed(Net):
        def __init__(self, width=WIDTH):
            super().__init__((3,), 2)

    @dataclass(frozen=True)
    class Described:
        width: int

        def build(self, shape, outputs):
            return nn.Linear(*shape, outputs)

    def build(shape, outputs):
        return Net(shape, outputs)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return {
            "function": build,
            "lambda": lambda shape, outputs: nn.Linear(*shape, outputs),
            "class": Net,
            "class without arguments": Fixed,
            "network": Fixed(),
            "described": Described(4),
            "without arguments": lambda: nn.Linear(3, 2),
        }[kind]


def experiment(*models, **changes) -> mmfl.Experiment:
    tasks = [mmfl.Task(f"t{n}", data=DATA, model=model) for n, model in enumerate(models)]
    return mmfl.Experiment(tasks=tasks, clients=4, rounds=2, engine="inline", **changes)


KINDS = ["function", "lambda", "class", "class without arguments", "network", "described"]


def test_one_fingerprint_with_every_engine(tmp_path):
    made = experiment(*(make_network(kind) for kind in (*KINDS, "without arguments")))
    found = {
        mmfl.run(replace(made, engine=engine), out=tmp_path / str(n)).fingerprint
        for n, engine in enumerate(("inline", {"workers": 1}, {"workers": 2}))
    }
    assert len(found) == 1


def test_training_starts_from_the_weights_of_a_network():
    network = make_network("network")
    still = replace(experiment(network), rounds=1, local={"lr": 1e-30, "weight_decay": 0.0})
    ((state, _),) = mmfl.rounds(still)
    last = dict(zip((n for n, _ in network.named_parameters()), network.parameters(), strict=True))
    for name in state.params["t0"]:
        np.testing.assert_array_equal(state.params["t0"][name], last[name].detach().numpy())


def test_losses_metrics_and_partitions_may_be_lambdas():
    task = mmfl.Task(
        "a",
        data=DATA,
        model=make_network("lambda"),
        loss=lambda outputs, targets: 2 * nn.functional.cross_entropy(outputs, targets),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float(),
        partition=lambda examples, clients, rng: np.arange(len(examples)) % clients,
    )
    made = mmfl.Experiment(tasks=[task], clients=3, rounds=1, engine={"workers": 1})
    ((_, local),) = mmfl.rounds(made)
    ((_, inline),) = mmfl.rounds(replace(made, engine="inline"))
    assert local.metric == inline.metric


@dataclass(frozen=True)
class Named:
    """A metric that asks for what the data has besides its arrays."""

    better = "higher"
    bounds = (0.0, 9.0)

    def on(self, data, loss):
        known = (data.class_names, data.features, data.group_names)
        value = sum(map(len, known)) if all(type(one) is tuple for one in known) else 0
        return lambda outputs, targets: torch.full((len(targets),), float(value))


@pytest.mark.filterwarnings("ignore::mmfl.errors.MmflWarning")
def test_workers_know_what_classes_features_and_groups_are_called():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "ward": list("uv") * 60, "who": list("xyz") * 40})
    frame["label"] = np.where(frame["a"] > 0, "ill", "well")
    task = mmfl.Task("a", data=mmfl.from_frame(frame, client="who"), metric=Named())
    made = mmfl.Experiment(tasks=[task], clients=3, rounds=1, engine={"workers": 1})
    for engine in ({"workers": 1}, "inline"):
        ((_, record),) = mmfl.rounds(replace(made, engine=engine))
        assert record.metric["a"] == 2 + 2 + 3


@pytest.mark.filterwarnings("ignore::mmfl.errors.MmflWarning")
def test_a_function_may_return_a_table_with_the_names_in_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "label": np.where(X[:, 0] > 0, "ill", "well")})
    task = mmfl.Task("a", dataset=lambda: mmfl.from_frame(frame))
    made = mmfl.Experiment(tasks=[task], clients=3, rounds=1, engine="inline")
    model = mmfl.run(made, out=tmp_path / "run").model("a")
    assert set(model.predict(frame)) <= {"ill", "well"}


def test_a_stored_run_is_resumed_with_the_same_objects_and_no_others(tmp_path):
    made = experiment(make_network("function"))
    straight = mmfl.run(made, out=tmp_path / "straight")
    part = mmfl.run(replace(made, rounds=1), out=tmp_path / "part")
    longer = mmfl.run(experiment(make_network("function")), out=part.folder, resume=True)
    assert longer.fingerprint == straight.fingerprint
    said = one_line(
        mmfl.errors.MmflError,
        lambda: mmfl.run(experiment(make_network("lambda")), out=part.folder, resume=True),
    )
    assert "tasks.t0.model.kind" in said


def test_the_file_of_a_stored_run_says_what_it_lacks(tmp_path):
    run = mmfl.run(experiment(make_network("function")), out=tmp_path / "run")
    text = (run.folder / "experiment.toml").read_text()
    assert 'kind = "in_memory:build-' in text
    (tmp_path / "again.toml").write_text(text)
    code = f"import mmfl; mmfl.Experiment.load({str(tmp_path / 'again.toml')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert "'build' was passed in memory, and this program does not have it" in last


def test_what_cannot_be_sent_to_workers_is_one_sentence():
    import threading

    lock = threading.Lock()

    def build(shape, outputs):
        with lock:
            return nn.Linear(*shape, outputs)

    said = one_line(ConfigError, lambda: experiment(build))
    assert "'build' cannot be kept in memory" in said
    assert "lock" in said


def test_what_is_not_a_network_is_one_sentence():
    made = experiment(lambda: 3)
    said = one_line(EngineError, lambda: list(mmfl.rounds(made)))
    assert said.startswith("task 't0': its model cannot be built: ")
    assert "must build an nn.Module, got 3" in said


@pytest.mark.cold
def test_a_script_needs_no_main_guard(tmp_path: Path):
    (tmp_path / "script.py").write_text(
        "import numpy as np, mmfl\n"
        "from torch import nn\n"
        "x = np.random.default_rng(0).normal(size=(60, 3)).astype('float32')\n"
        "y = (x[:, 0] > 0).astype(int)\n"
        "def build(shape, outputs): return nn.Linear(*shape, outputs)\n"
        "tasks = [mmfl.Task('a', data=(x, y, x, y), model=build)]\n"
        "run = mmfl.run(mmfl.Experiment(tasks=tasks, clients=3, rounds=2,\n"
        "                               engine={'workers': 2}), out='run')\n"
        "print(run.status)\n"
    )
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "finished\n"), done.stderr


CELL = """
from dataclasses import dataclass
from torch import nn

class Counter:
    def __init__(self):
        self.calls = 0

class Net(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.layer, self.counter = nn.Linear(*shape, outputs), Counter()

    def forward(self, x):
        self.counter.calls += 1
        return self.layer(x) * (1 + self.counter.calls / 50)

@dataclass(frozen=True)
class Build:
    width: int

    def build(self, shape, outputs):
        return nn.Sequential(nn.Linear(*shape, self.width), nn.Linear(self.width, outputs))
"""


@pytest.mark.parametrize("engine", ["inline", {"workers": 2}])
@pytest.mark.parametrize("name", [None, "__main__", "nowhere_to_import"])
def test_code_that_is_run_by_exec_has_the_same_bits(name, engine):
    """A class without a module says that it belongs to `builtins`."""
    given, plain = ({} if one is None else {"__name__": one} for one in (name, "__main__"))
    found = []
    for names, where in ((given, engine), (plain, "inline")):
        exec(compile(CELL, "<cell>", "exec", dont_inherit=True), names)
        models = {"a": names["Net"], "b": names["Build"](3)}
        tasks = [mmfl.Task(task, data=DATA, model=model) for task, model in models.items()]
        made = mmfl.Experiment(tasks=tasks, clients=5, rounds=2, engine=where)
        *_, (state, record) = mmfl.rounds(made)
        assert record.failures == ()
        found.append([state.params[task].flat.tolist() for task in models])
    assert found[0] == found[1]
