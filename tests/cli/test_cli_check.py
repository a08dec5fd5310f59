"""``mmfl check`` lists mistakes, each with its source."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from support.experiments import write_small

LINES = [
    "mmfl: wrong.toml: sed is not a known key; did you mean 'seed'?",
    "mmfl: --set: rounds must be greater than or equal to 1, got 0",
]


def test_check_lists_every_mistake_of_a_file(call, small_toml):
    Path("wrong.toml").write_text(f"sed = 1\n{small_toml}")
    code, out, err = call("check", "wrong.toml", "--set", "rounds=0")
    assert (code, out) == (2, "")
    assert err.splitlines() == LINES
    _, _, err = call("run", "wrong.toml", "--set", "rounds=0")
    assert err == f"{LINES[0]} (and 1 more error)\n"


def test_check_lists_every_mistake_of_a_component(call, small_toml):
    allocator = "[allocator]\nkind = 'fed_fair'\nalpha = -1\nfloor = -7\nalhpa = 2\n"
    Path("wrong.toml").write_text(small_toml.replace("[engine]", f"{allocator}[engine]"))
    dataset = "tasks.dense.dataset={kind='synthetic', classes=-1, shape=['a'], noise='x'}"
    code, out, err = call("check", "wrong.toml", "--set", dataset)
    assert (code, out) == (2, "")
    assert [line.partition(" got ")[0] for line in err.splitlines()] == [
        "mmfl: --set: tasks[0].dataset.classes must be greater than or equal to 2,",
        "mmfl: --set: tasks[0].dataset.shape[0] must be a whole number,",
        "mmfl: --set: tasks[0].dataset.noise must be a number,",
        "mmfl: wrong.toml: allocator.alhpa is not a known key; did you mean 'alpha'?",
        "mmfl: wrong.toml: allocator.alpha must be greater than or equal to 1,",
        "mmfl: wrong.toml: allocator.floor must be greater than or equal to 0,",
    ]


@pytest.mark.parametrize(
    ("text", "sets", "sources"),
    [
        ("rounds = 0", ["seed=-1"], ["wrong.toml: rounds", "--set: seed"]),
        ("rounds = 0", ["rounds=0"], ["wrong.toml: rounds"]),
        ("rounds = 0", ["rounds=-1"], ["wrong.toml with --set: rounds"]),
        ("rounds = 0", ["rounds=1", "tasks.dense.name=image"], ["wrong.toml with --set: two"]),
        ("rounds = 3", ["tasks.dense.name=image"], ["--set: two tasks"]),
        (
            "rounds = 0\nsed = 1",
            ["seed", "tasks.none.lr=1"],
            ["--set: must be", "--set: tasks has", "wrong.toml: sed", "wrong.toml: rounds"],
        ),
    ],
)
def test_check_says_where_each_mistake_is(call, small_toml, text, sets, sources):
    Path("wrong.toml").write_text(small_toml.replace("rounds = 3", text))
    code, out, err = call("check", "wrong.toml", *(part for one in sets for part in ("--set", one)))
    assert (code, out) == (2, "")
    for line, source in zip(err.splitlines(), sources, strict=True):
        assert line.startswith(f"mmfl: {source}")


LOSS = """
from dataclasses import dataclass
from typing import Any, ClassVar

@dataclass(frozen=True)
class Loss:
    targets: ClassVar[str] = "any"
    metric: ClassVar[Any] = METRIC

    def mean(self, outputs, targets):
        return outputs.mean()
"""


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("metric", "rule"),
    [
        ("'acuracy'", "unknown metric 'acuracy'; did you mean 'accuracy'?"),
        ("None", "must be a table with 'kind', or the name of a kind, got None"),
    ],
)
def test_a_loss_that_names_no_metric_is_one_sentence(
    call, tmp_path, monkeypatch, metric, rule, command
):
    (tmp_path / "loss_without_metric.py").write_text(LOSS.replace("METRIC", metric))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "loss_without_metric", raising=False)
    Path("small.toml").write_text(write_small("a"))
    own = "tasks.a.loss=loss_without_metric:Loss"
    code, out, err = call(command, "small.toml", "--allow-imports", "--set", own)
    file = "small.toml: " if command == "check" else ""
    start = f"mmfl: {file}task 'a': its loss Loss() names a metric that cannot be used: "
    assert (code, out, err) == (2, "", f"{start}{rule}\n")


def test_check_tells_what_each_task_starts_from(call):
    Path("small.toml").write_text(write_small("a", clients="count = 3"))
    code, out, err = call("check", "small.toml")
    assert (code, err) == (0, "")
    assert [line.rstrip("0123456789.") for line in out.splitlines()[:5]] == [
        "task a: 88 weights in 4 tensors",
        "  examples per client: minimum 18, median 18, maximum 18 (3 clients)",
        "  label skew 0.12 (0.17 by chance): share of labels to change until all clients have the "
        "same mix",
        "  one step of training on a batch of 18 x 16: loss ",
        "  evaluation of 20 test examples: loss 1.37, accuracy ",
    ]


CLINIC = """
import numpy as np

RNG = np.random.default_rng(0)


def stays(targets="real", scale=1.0, clinics=2):
    pairs = []
    for k in range(clinics):
        x = RNG.normal(k, 1, size=(20, 3)).astype(np.float32)
        pairs.append((scale * x, 100 * k + x[:, 0] if targets == "real" else x[:, 0] > 0))
    return {"clients": pairs, "x_test": pairs[0][0], "y_test": pairs[0][1]}


def broken(outputs, targets):
    if outputs.requires_grad:
        raise RuntimeError("\x1b[2Jno gradient today")
    return (outputs - targets) ** 2
"""


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    (tmp_path / "clinic_for_check.py").write_text(CLINIC)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "clinic_for_check", raising=False)

    def write(dataset="", loss="mse", count=4):
        own = f'dataset = {{ kind = "clinic_for_check:stays"{dataset} }}\nloss = "{loss}"\n'
        text = "".join(f'[[tasks]]\nname = "{name}"\n{own}' for name in "ab")
        Path("clinic.toml").write_text(f"rounds = 1\nclients = {count}\n{text}")
        return "check", "clinic.toml", "--allow-imports"

    return write


def test_check_tells_the_skew_of_real_targets_and_who_holds_nothing(call, clinic):
    code, out, err = call(*clinic())
    assert code == 0
    assert "maximum 19 (2 clients; 2 others hold none)" in out
    assert "  target skew 1.00 (0.0" in out
    assert "share of the targets' variance that lies between clients" in out
    assert "2 clients hold no data for any task" in err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": "clinic_for_check:broken"}, "RuntimeError: \\x1b[2Jno gradient today"),
        ({"dataset": ", scale = 1e30"}, "loss inf before and"),
    ],
)
def test_a_step_that_fails_is_one_sentence_for_each_task(call, clinic, changes, words):
    code, out, err = call(*clinic(**changes))
    assert (code, out) == (2, "")
    for line, task in zip(err.splitlines(), "ab", strict=True):
        assert line.startswith(f"mmfl: clinic.toml: task {task!r}: one step of training failed: ")
        assert words in line


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("device", ["cuda:99", "mps"])
def test_a_device_that_is_not_here_is_one_sentence_and_nothing_is_written(call, command, device):
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("there is a GPU of Apple's here")
    Path("fair.toml").write_text(write_small("a"))
    before = sorted(Path().iterdir())
    code, out, err = call(command, "fair.toml", "--set", f"device={device}")
    assert (code, out) == (2, "")
    assert f'device = "{device}": ' in err
    assert len(err.splitlines()) == 1
    assert sorted(Path().iterdir()) == before
