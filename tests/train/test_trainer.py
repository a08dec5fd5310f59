"""Tasks of every kind in one pool: real targets, several of them, sequences, tokens, own losses."""

from __future__ import annotations

import math
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError, MmflError
from mmfl.experiment import Inline
from mmfl.loop import combine
from support.helpers import one_line

OWN = """
import numpy as np
import torch
from dataclasses import dataclass
from torch import nn
from torch.nn import functional

def linear(outputs=1, shape=None, noise=0.1, n=300):
    g = np.random.default_rng(0)
    x = g.standard_normal((n, 4)).astype("f")
    y = x @ g.standard_normal((4, outputs)) + 3 + noise * g.standard_normal((n, outputs))
    y = y if shape is None else y.reshape(n, *shape)
    return x[:-60], y[:-60], x[-60:], y[-60:]

def answers():
    x, y, x_test, y_test = linear(3)
    return x, (y > 3).astype("f"), x_test, (y_test > 3).astype("f")

def tokens():
    g = np.random.default_rng(0)
    x = g.integers(0, 9, (300, 5))
    y = (x[:, ::-1] % 3).copy()
    return {"x_train": x[:-60], "y_train": y[:-60], "x_test": x[-60:], "y_test": y[-60:]}

def images():
    g = np.random.default_rng(0)
    y = g.integers(0, 2, 200)
    x = g.integers(0, 60, (200, 8, 8)) + 120 * y[:, None, None]
    return x[:-60].astype("u1"), y[:-60], x[-60:].astype("u1"), y[-60:]

@dataclass(frozen=True)
class Tagger:
    def build(self, shape, outputs):
        return Tags(shape[0], outputs)

class Tags(nn.Module):
    def __init__(self, length, outputs):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.mix = nn.Linear(8 * length, length * outputs)
        self.shape = (outputs, length)

    def forward(self, x):
        return self.mix(self.embed(x).flatten(1)).unflatten(1, self.shape)

@dataclass(frozen=True)
class Wide:
    factor: int = 2
    def build(self, shape, outputs):
        return nn.Linear(shape[0], self.factor * outputs)

def gaussian(outputs, targets, least=0.01):
    mean, spread = outputs.chunk(2, 1)
    spread = functional.softplus(spread) + least
    return ((mean - targets) ** 2 / spread + spread.log()).mean(1)

def off(outputs, targets):
    return (outputs[:, : targets.shape[1]] - targets).abs().mean(1)

def broken(outputs, targets):
    raise ValueError("not\\ntoday")

def rows(outputs, targets):
    return (outputs - targets).square()
"""
POOL = """
rounds = 5
seed = 3
score = "relative_loss"
[clients]
count = 4
[local]
epochs = 3
batch_size = 10
lr = 0.03
[allocator]
kind = "round_robin"
[engine]
kind = "inline"
[[tasks]]
name = "line"
dataset = { kind = "own_tasks:linear", shape = [] }
model = { kind = "mlp", hidden = [] }
loss = "mse"
[[tasks]]
name = "plane"
dataset = { kind = "own_tasks:linear", outputs = 2 }
model = { kind = "mlp", hidden = [] }
loss = "huber"
normalize = "standard"
metric = "mae"
[[tasks]]
name = "answers"
dataset = "own_tasks:answers"
model = { kind = "mlp", hidden = [] }
loss = "binary_cross_entropy"
[[tasks]]
name = "tags"
dataset = "own_tasks:tokens"
model = "own_tasks:Tagger"
lr = 0.1
[[tasks]]
name = "images"
dataset = "own_tasks:images"
model = { kind = "cnn", channels = [2, 2], dense = 4 }
augment = { crop = 1, flip = true }
[[tasks]]
name = "gaussian"
dataset = { kind = "own_tasks:linear", outputs = 2 }
model = "own_tasks:Wide"
loss = { kind = "own_tasks:gaussian", least = 0.1 }
metric = { kind = "own_tasks:off", better = "lower", bounds = [0, 1000.0] }
"""


@pytest.fixture(scope="module", autouse=True)
def _own(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_tasks.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop("own_tasks", None)


def pool(*sets: str) -> Experiment:
    return Experiment.from_toml(POOL, sets=sets, allow_imports=True)


@pytest.fixture(scope="module")
def ended():
    """The pool's last state and record, in this process."""
    *_, last = mmfl.rounds(pool())
    return last


def test_tasks_of_every_kind_learn_in_one_pool(ended):
    _, record = ended
    assert record.failures == ()
    assert record.metric["line"] > 0.9
    assert record.metric["plane"] < 0.3
    assert record.metric["answers"] > 0.85
    assert record.metric["tags"] > 0.6
    assert record.metric["gaussian"] < 1.0


def test_their_scores_are_shares_of_a_blind_guess(ended):
    _, record = ended
    assert all(record.difficulty[task] < 0.8 for task in ("line", "plane", "answers", "tags"))
    assert math.isfinite(record.difficulty["gaussian"])  # it has no guess: as the worst known


def test_a_worker_process_has_the_same_bits(ended):
    state, _ = ended
    *_, (same, record) = mmfl.rounds(pool("engine={kind='local', workers=1}"))
    assert record.failures == ()
    assert same.fingerprint == state.fingerprint


def test_augmenting_is_part_of_training_and_of_nothing_else():
    plain, changed = (pool("rounds=1", f"tasks.images.augment.flip={f}") for f in ("false", "true"))
    found = []
    for experiment in (plain, changed):
        with closing(Inline().open(experiment, data_dir=None)) as engine:
            first = engine.initial()
            found.append(combine(engine.evaluate(first, "test"))["images"])
            *_, (state, _) = mmfl.rounds(experiment, engine=engine)
            found.append(state.params["images"].flat.tobytes())
    assert found[0] == found[2]
    assert found[1] != found[3]


@pytest.mark.parametrize("shape", ["[]", "[1]", "[2]", "[3, 2]"])
def test_real_targets_of_any_shape(shape):
    outputs = {"[]": 1, "[1]": 1, "[2]": 2, "[3, 2]": 6}[shape]
    data = f"tasks.line.dataset={{kind='own_tasks:linear', outputs={outputs}, shape={shape}}}"
    experiment = pool(data)
    *_, (_, record) = mmfl.rounds(replace(experiment, tasks=experiment.tasks[:1]))
    assert record.failures == ()
    assert record.metric["line"] > 0.9


def measured(*sets: str, split="test"):
    experiment = pool(*sets)
    with closing(Inline().open(experiment, data_dir=None)) as engine:
        return combine(engine.evaluate(engine.initial(), split))


def test_sums_do_not_depend_on_the_batch_size():
    whole = measured("evaluate.batch_size=1000")
    for size in (1, 7, 60):
        for task, found in measured(f"evaluate.batch_size={size}").items():
            assert found.loss == pytest.approx(whole[task].loss, rel=1e-5)
            assert found.metric == pytest.approx(whole[task].metric, rel=1e-5, abs=1e-6)
            assert found.guess == pytest.approx(whole[task].guess, rel=1e-5, nan_ok=True)


def test_a_blind_guess_is_the_mean_target_or_all_answers_alike():
    found = measured("tasks.plane.loss=mse")
    with closing(Inline().open(pool(), data_dir=None)) as engine:
        arrays = engine._cache.arrays(pool().resolved())
    assert found["tags"].guess == pytest.approx(math.log(3), rel=1e-5)
    assert found["images"].guess == pytest.approx(math.log(2), rel=1e-5)
    assert found["answers"].guess == pytest.approx(math.log(2), rel=1e-5)
    for task in ("line", "plane"):
        data = arrays[task]
        spread = np.square(data.y_test - data.y_train.mean(0)).mean()
        assert found[task].guess == pytest.approx(spread, rel=1e-5)
    assert math.isnan(found["gaussian"].guess)


MISTAKES = {
    "loss for classes": (["tasks.line.loss=cross_entropy"], "its loss is for class numbers, but"),
    "answers too large": (
        ["tasks.line.loss=binary_cross_entropy"],
        "is for answers from 0 to 1, but its targets go from -",
    ),
    "answers are classes": (["tasks.images.loss=binary_cross_entropy"], "its targets are integers"),
    "loss for numbers": (["tasks.images.loss=mse"], "its loss is for real numbers, but"),
    "loss that fails": (["tasks.line.loss=own_tasks:broken"], "fails: ValueError: not today"),
    "loss of rows": (["tasks.plane.loss=own_tasks:rows"], "must return one number or one per"),
    "metric for classes": (["tasks.plane.metric=accuracy"], "needs one output per class"),
    "metric for numbers": (["tasks.images.metric=r2"], "needs outputs of the targets' shape"),
    "metric that fails": (["tasks.line.metric=own_tasks:broken"], "fails: ValueError: not today"),
    "metric of rows": (["tasks.plane.metric=own_tasks:rows"], "must return one number or one per"),
    "augmented table": (["tasks.line.augment.flip=true"], "augment is for images, not for tables"),
    "scaled tokens": (["tasks.tags.normalize=standard"], "whole numbers cannot be scaled"),
    "scale of channels": (
        ["tasks.line.normalize={kind='given', mean=[0, 1], std=1}"], "one number or 4, one per",
    ),
    "tokens to a table": (["tasks.tags.model=mlp"], "its examples are whole numbers, which only"),
    "huge crop": (["tasks.images.augment={crop=99}"], "augment.crop must be below the images'"),
    "narrow": (["tasks.plane.model={kind='own_tasks:Wide', factor=3}"], "must give 2 outputs"),
    "sequences": (
        ["tasks.tags.model={kind='own_tasks:Wide'}"], "its model does not run: ",
    ),
    "data": (["tasks.line.dataset=own_tasks:broken"], "its data cannot be loaded: TypeError"),
    "keywords": (["tasks.line.dataset.inputs=3"], "unexpected keyword argument 'inputs'"),
    "loss keywords": (["tasks.gaussian.loss.most=3"], "unexpected keyword argument 'most'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_with_the_tasks_name_and_nothing_is_written(name, tmp_path):
    sets, rule = MISTAKES[name]
    experiment = pool(*sets)
    message = one_line(MmflError, lambda: mmfl.run(experiment, tmp_path / "run"))
    assert message.startswith("task '")
    assert rule in message
    assert not (tmp_path / "run").exists()


def test_a_model_for_sequences_is_told_the_shape_it_must_give():
    data = "tasks.line.dataset={kind='own_tasks:linear', outputs=6, shape=[3, 2]}"
    experiment = pool(data, "tasks.line.model={kind='own_tasks:Wide', factor=2}")
    message = one_line(EngineError, lambda: next(mmfl.rounds(experiment)))
    assert "must give outputs of shape (3, 2) per example, got shape (2, 12)" in message
