"""`run.model(...)` is the model that was evaluated, without the training data."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl import Experiment, Run, Task
from mmfl.errors import InputError, MmflWarning, StoreError
from mmfl.models import MODELS
from mmfl.rng import stream
from mmfl.runs import stored_rounds
from support.helpers import one_line
from support.made_data import clouds
from support.rewriting import edited, make_older

pytestmark = pytest.mark.filterwarnings("ignore:the (data|table)")

SERIES = ("cnn1d", "gru", "lstm", "transformer")
SMALL = {
    "cnn": {"channels": [4, 8], "dense": 16},
    "published_cnn": {"channels": [4, 8], "dense": 16},
    "preact_resnet": {"width": 8, "blocks": [1, 1]},
}
OWN = """
from torch import nn


def build(shape, outputs):
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(4 * 14 * 14, outputs),
    )
"""
FRESH = """
import json
import warnings

import numpy as np
import torch

import mmfl

warnings.simplefilter("error")
run, found = mmfl.Run.load("run"), {}
for name in run.tasks:
    x, y = np.load(f"test/x-{name}.npy"), np.load(f"test/y-{name}.npy")
    model = run.model(name, allow_imports=True)
    size, total = model.description.batch_size, 0.0
    for start in range(0, len(x), size):
        with torch.no_grad():
            outputs = model(model.prepare(x[start : start + size]))
        targets = torch.from_numpy(y[start : start + size])
        total += float(torch.nn.functional.cross_entropy(outputs, targets)) * len(targets)
    said, chances = model.predict(x), model.predict_probabilities(x)
    assert (chances.argmax(1) == said).all() and np.allclose(chances.sum(1), 1, atol=1e-5)
    found[name] = [float((said == y).mean()), total / len(x)]
print(json.dumps(found))
"""


def save_data(name: str, shape: tuple[int, ...], kind: str) -> None:
    """A data set in the folder "data"; its test split, in the order of evaluation, in "test"."""
    rng = np.random.default_rng(len(name))
    x = rng.normal(size=(90, *shape)) * 3 + 7
    x = (x * 10).clip(0, 255).astype(np.uint8) if kind == "bytes" else x.astype(np.float32)
    y = rng.integers(0, 3, 90)
    np.savez(f"data/{name}.npz", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    order = stream(0, "test", name).permutation(30)
    np.save(f"test/x-{name}.npy", x[60:][order])
    np.save(f"test/y-{name}.npy", y[60:][order])


def ask_fresh(code: str) -> str:
    """What a new process prints."""
    Path("fresh.py").write_text(code)
    done = subprocess.run([sys.executable, "fresh.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def mine(monkeypatch):
    """A module of the user's, which is forgotten afterwards."""
    Path("mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(".")
    yield
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_it_reproduces_every_result_in_a_fresh_process_without_the_data(mine, precision):
    Path("data").mkdir()
    Path("test").mkdir()
    models = {kind: {"kind": kind, **SMALL.get(kind, {})} for kind in MODELS.table}
    models["own"] = {"kind": "mine:build"}
    del models["preact_resnet18"]  # the same code as preact_resnet, and 11 million weights
    tasks = []
    for kind, model in models.items():
        data = "reals" if kind in (*SERIES, "mlp") else "bytes"
        save_data(kind, (12, 3) if kind in SERIES else (16, 16), data)
        scaling = "standard" if data == "reals" else "auto"
        tasks.append({"name": kind, "dataset": kind, "model": model, "normalize": scaling})
    local = {"steps": 3, "batch_size": 8, "lr": 0.05}
    experiment = Experiment.from_dict(
        {
            **{"rounds": 1, "clients": {"count": 11}, "tasks": tasks, "precision": precision},
            **{"local": local, "engine": {"kind": "inline"}, "evaluate": {"batch_size": 8}},
            "allocator": "round_robin",
        },
        allow_imports=True,
    )
    run = mmfl.run(experiment, "run", data_dir="data")
    assert all(turns.trained for turns in run.outcomes.values())
    shutil.rmtree("data")
    found = json.loads(ask_fresh(FRESH))
    assert found.keys() == run.tasks.keys()
    for name, (accuracy, loss) in found.items():
        assert accuracy == pytest.approx(run.tasks[name]["accuracy"], abs=1e-9)
        if precision == "float32":
            assert loss == pytest.approx(run.tasks[name]["loss"], rel=1e-5)


def test_it_leaves_the_programs_own_torch_alone(small):
    run = mmfl.run(small, "run")
    before = torch.get_rng_state()
    model = run.model("dense")
    x = np.random.default_rng(0).normal(size=(50, 16))
    said = model.predict(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    model.train()
    assert (model.predict(x) == said).all()  # dropout is off
    assert model.training
    assert isinstance(model, nn.Module)
    assert (model.predict(x, batch_size=7) == said).all()


def test_a_network_in_memory_comes_from_this_process_or_is_given():
    x, y = clouds(["a", "b"])
    task = Task("heart", data=(x, y, x, y), model=lambda shape, outputs: nn.Linear(5, outputs))
    run = mmfl.run(Experiment(tasks=[task], clients=3, rounds=2, engine="inline"), "run")
    said = run.model("heart").predict(x)
    code = "import mmfl\ntry:\n    mmfl.Run.load('run').model('heart')\n"
    told = ask_fresh(f"{code}except mmfl.errors.InputError as error:\n    print(error)")
    assert told == (
        "the network of task 'heart' was passed in memory, and this program does not have it; "
        "pass it with network=\n"
    )
    for network in (nn.Linear(5, 2), lambda shape, outputs: nn.Linear(*shape, outputs)):
        assert (run.model("heart", network=network).predict(x) == said).all()
    for network, words in (
        (nn.Linear(4, 2), "'weight' has shape (2, 5) there, and (2, 4) here"),
        (nn.Linear(5, 2, bias=False), "'bias' is in only one of them"),
        (nn.Sequential(nn.Linear(5, 2)), "'0.weight' is in only one of them"),
    ):
        assert words in one_line(StoreError, lambda n=network: run.model("heart", network=n))
    assert "network of task 'heart'" in one_line(
        InputError, lambda: run.model("heart", network="cnnn")
    )


def test_a_network_that_is_in_use_or_completes_itself_is_not_touched():
    x, y = clouds([0, 1])
    always = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    for name, build in (
        ("always", lambda shape, outputs: always),
        ("lazy", lambda shape, outputs: nn.Sequential(nn.LazyLinear(8), nn.LazyLinear(outputs))),
    ):
        task = Task("heart", data=(x, y, x, y), model=build, normalize="standard")
        run = mmfl.run(
            Experiment(tasks=[task], clients=3, rounds=2, engine="inline"), f"run-{name}"
        )
        one, other = run.model("heart"), run.model("heart")
        said = one.predict(x)
        assert (said == y).mean() == pytest.approx(run.tasks["heart"]["accuracy"])
        with torch.no_grad():
            for weights in other.parameters():
                weights.zero_()
        assert (one.predict(x) == said).all()


def test_a_users_network_is_imported_only_if_that_is_allowed(mine):
    Path("data").mkdir()
    Path("test").mkdir()
    save_data("own", (16, 16), "bytes")
    task = {"name": "own", "dataset": "own", "model": "mine:build"}
    experiment = Experiment.from_dict(
        {"rounds": 1, "clients": 2, "tasks": [task], "engine": "inline"}, allow_imports=True
    )
    run = mmfl.run(experiment, "run", data_dir="data")
    assert "would import code; pass allow_imports=True" in one_line(
        InputError, lambda: run.model("own")
    )
    run.model("own", allow_imports=True)
    with Path("mine.py").open("a") as file:
        file.write("# edited\n")
    warned = "import warnings, mmfl\nwith warnings.catch_warnings(record=True) as w:\n"
    warned += "    mmfl.Run.load('run').model('own', allow_imports=True)\nprint(w[0].message)"
    assert "module 'mine' has changed since the run" in ask_fresh(warned)


def test_a_run_that_is_not_finished_gives_the_model_of_its_last_checkpoint(small):
    with stored_rounds(small, "run") as rounds:
        state, _ = next(rounds)
        assert "no checkpoint" in one_line(StoreError, lambda: Run.load("run").model("dense"))
    said = "is not finished: the model of task 'dense' is that of round 1 of 3"
    with pytest.warns(MmflWarning, match=said):
        model = Run.load("run").model("dense")
    for name, weights in state.params["dense"].items():
        assert np.array_equal(model.network.state_dict()[name].numpy(), weights)


def test_a_task_that_never_trained_says_so(small):
    wild = Experiment.from_toml(
        small.to_toml(), sets=["tasks.dense.lr=1e30", "local.epochs=3", "rounds=1"]
    )
    with pytest.warns(MmflWarning, match="never trained"):
        run = mmfl.run(wild, "run")
    with pytest.warns(MmflWarning, match="task 'dense' never trained .all .* turns failed"):
        run.model("dense")
    run.model("image")


def test_mistakes_and_damage_are_one_sentence(small):
    run = mmfl.run(small, "run")
    said = one_line(InputError, lambda: run.model("denses"))
    assert said == "the run in 'run' has no task 'denses'; did you mean 'dense'?"
    file = Path("run/models/dense.safetensors")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = "the run in 'run' is damaged: models/dense.safetensors does not match its hash"
    assert one_line(StoreError, lambda: run.model("dense")) == said
    file.unlink()
    assert "is missing" in one_line(StoreError, lambda: run.model("dense"))
    run.model("image")
    for text in ("{", "[]", "{}", '{"format": 1}', '{"format": 9}', "9" * 9999):
        with edited("run") as database:
            database.execute("UPDATE task SET description = ?", (text,))
        said = one_line(StoreError, lambda: run.model("image"))
        assert said.startswith("the run in 'run' is damaged: the description of task 'dense'")
    make_older("run")
    said = one_line(StoreError, lambda: Run.load("run").model("image"))
    assert "does not say how the model of task 'image' is used" in said


def test_a_file_of_weights_is_enough(small):
    run = mmfl.run(small, "run")
    shutil.move("run/models/dense.safetensors", "mine.safetensors")
    x = np.random.default_rng(0).normal(size=(50, 16))
    state = torch.random.get_rng_state()
    model = mmfl.load_model("mine.safetensors")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.description == mmfl.load_model("mine.safetensors").description
    assert model.predict(x).shape == (50,)
    Path("other.safetensors").write_bytes(b"\x08" + bytes(7) + b"{}      ")
    Path("bad.safetensors").write_bytes(b"pickle")
    assert run.tasks
    for path, words in (
        ("gone.safetensors", "cannot be read: No such file"),
        ("other.safetensors", "does not say how it is used"),
        ("bad.safetensors", "is not a valid safetensors file"),
        ("run", "'run/model.safetensors' cannot be read"),
    ):
        assert words in one_line(StoreError, lambda p=path: mmfl.load_model(p))
