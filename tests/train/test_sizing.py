"""A model is weighed before it is built: its weights are exact, the rest is a bound from below."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from mmfl.data import Arrays
from mmfl.experiment import Task
from mmfl.models import Cnn, Mlp, PreactResnet, PreactResnet18
from mmfl.train.sizing import weigh


def data_of(shape: tuple[int, ...], classes: int = 5) -> Arrays:
    x, y = np.zeros((6, *shape), np.float32), np.arange(6) % classes
    return Arrays(x, y, x, y, classes)


def weighed(model: object, shape: tuple[int, ...], kernel: str = "fast", classes: int = 5):
    return weigh(Task("a", "mnist", model), data_of(shape, classes), kernel)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Mlp(hidden=(8, 4), dropout=0.1), (3,)),
        (Mlp(hidden=()), (6, 6)),
        (Cnn(channels=(2, 3), dense=7), (8, 8)),
        (PreactResnet(width=4, blocks=(1, 2)), (8, 8, 3)),
        (PreactResnet(width=4, norm="group"), (8, 8)),
        (PreactResnet18(), (32, 32, 3)),
    ],
    ids=repr,
)
def test_weights_are_counted_exactly(model, shape):
    data = data_of(shape)
    built = model.build(data.shape, data.outputs)
    count = sum(p.numel() for p in (*built.parameters(), *built.buffers()))
    assert weighed(model, shape).weights == count


def test_what_layers_read_and_write_is_followed_layer_by_layer():
    found = weighed(Cnn(channels=(2, 3), dense=7), (8, 12))
    assert found.layer == 8 * 12 * (1 + 2)  # the first convolution
    assert found.kept == 8 * 12 + 4 * 6 * 2 + 2 * 3 * 3 + 7
    found = weighed(Mlp(hidden=(20, 10)), (4,))
    assert (found.layer, found.kept) == (20 + 20, 4 + 20 + 10)
    stem = weighed(PreactResnet(width=4, blocks=(1,)), (8, 8, 3))
    assert (stem.layer, stem.kept) == (8 * 8 * (3 + 4), 8 * 8 * 3)


def test_the_batched_kernel_has_a_table_of_answers():
    assert weighed(Mlp(), (4,), "batched", classes=6).answers == 36
    assert weighed(Mlp(), (4,), "fast").answers == 0


def test_a_model_that_nobody_could_hold_is_weighed_at_once_and_draws_nothing():
    before, start = torch.get_rng_state(), time.monotonic()
    assert weighed(Mlp(hidden=(10**6, 10**6)), (3,)).weights == 1_000_010_000_005
    assert time.monotonic() - start < 1
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_weighing_does_not_import_torchs_compiler():
    import subprocess
    import sys

    script = (
        "import sys; from mmfl import Experiment; from mmfl.experiment import Inline\n"
        'text = \'rounds = 1\\nclients.count = 2\\n[[tasks]]\\nname = "a"\\n'
        'dataset.kind = "synthetic"\\n\'\n'
        "engine = Inline().open(Experiment.from_toml(text), data_dir=None)\n"
        "assert engine.needs(); engine.initial(); sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
