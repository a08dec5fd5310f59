"""First weights from a file: exactly the model's, or one sentence."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError, InputError
from mmfl.exchange import Layout
from mmfl.experiment import ENGINES
from mmfl.train.warm_start import load_warm_start
from support.helpers import one_line

LAYOUT = Layout((("a.weight", (2, 3)), ("a.bias", (2,)), ("scale", ())))
RIGHT = {
    "scale": np.array(7.0, np.float32),
    "a.bias": np.array([8.0, 9.0], np.float32),
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
}
FLAT = [0, 1, 2, 3, 4, 5, 8, 9, 7]
BASE = """
rounds = 1
[clients]
count = 3
[local]
epochs = 1
[engine]
kind = "inline"
[[tasks]]
name = "a"
dataset = { kind = "synthetic", train = 60, test = 40 }
"""


def of(**changes):
    tensors = {**RIGHT, **{name.replace("_", "."): value for name, value in changes.items()}}
    save_file({n: t for n, t in tensors.items() if t is not None}, "first.safetensors")
    return lambda: load_warm_start("first.safetensors", LAYOUT)


def test_tensors_are_found_by_name_in_any_order():
    assert of()().tolist() == FLAT


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_other_types_become_float32(dtype):
    found = of(**{name.replace(".", "_"): t.astype(dtype) for name, t in RIGHT.items()})()
    assert found.dtype == np.float32
    assert found.tolist() == FLAT


def test_bfloat16_becomes_float32():
    save_torch({n: torch.tensor(t).bfloat16() for n, t in RIGHT.items()}, "first.safetensors")
    assert load_warm_start("first.safetensors", LAYOUT).tolist() == FLAT


BAD = np.array([1.0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"a_bias": None}, "has no 'a.bias', which the model needs; known: a.weight, scale"),
        ({"b_bias": BAD}, "has 'b.bias', which the model does not have"),
        ({"a_bias": BAD[:1]}, "'a.bias' has shape (1,), but the model's is (2,)"),
        ({"a_weight": np.zeros((3, 2), np.float32)}, "has shape (3, 2), but the model's is (2, 3)"),
        ({"a_bias": BAD}, "'a.bias' has numbers that are not finite"),
        ({"a_bias": np.array([1e300, 0])}, "'a.bias' has numbers that are not finite"),
    ],
)
def test_tensors_that_are_not_the_models_are_one_sentence(changes, rule):
    message = one_line(InputError, of(**changes))
    assert message.startswith("warm_start 'first.safetensors'")
    assert rule in message


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_file_of_anything_else_is_one_sentence(content, tmp_path):
    (tmp_path / "first.safetensors").write_bytes(content)
    message = one_line(InputError, lambda: load_warm_start("first.safetensors", LAYOUT))
    assert message.startswith("warm_start 'first.safetensors' ")


@pytest.mark.parametrize("path", ["missing", ".", "a\0b", "x" * 5000])
def test_no_file_is_one_sentence(path):
    message = one_line(InputError, lambda: load_warm_start(path, LAYOUT))
    assert message.startswith("warm_start ")


@pytest.mark.parametrize("kind", [{"kind": "inline"}, {"kind": "local", "workers": 1}])
def test_a_run_begins_where_another_ended(kind, tmp_path):
    run = mmfl.run(Experiment.from_toml(BASE), tmp_path / "run")
    path = run.folder / "models" / "a.safetensors"
    warm = Experiment.from_toml(BASE, sets=[f"tasks.a.warm_start='{path}'", "seed=9"])
    *_, (state, _) = mmfl.rounds(Experiment.from_toml(BASE))
    with closing(ENGINES.parse(kind).open(warm, data_dir=None)) as engine:
        first = engine.initial()["a"]
        assert first.flat.tobytes() == state.params["a"].flat.tobytes()
        # Whoever trains first must not change what the others begin with.
        *_, (ended, _) = mmfl.rounds(warm, engine=engine)
        assert ended.params["a"].flat.tobytes() != first.flat.tobytes()
        assert engine.initial()["a"].flat.tobytes() == first.flat.tobytes()


def test_a_bad_warm_start_names_the_task_and_writes_nothing(tmp_path):
    warm = Experiment.from_toml(BASE, sets=["tasks.a.warm_start=nowhere"])
    message = one_line(EngineError, lambda: mmfl.run(warm, tmp_path / "run"))
    expected = "task 'a': warm_start 'nowhere' cannot be read: No such file or directory"
    assert message == expected
    assert not (tmp_path / "run").exists()
