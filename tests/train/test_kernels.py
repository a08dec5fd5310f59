"""Every kernel computes what the plain loop computes; which one is used is a fixed rule."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.errors import ConfigError
from mmfl.exchange import Address, ClientUpdate, Job, LocalWork
from mmfl.rng import stream
from mmfl.train import Trainer
from mmfl.train.batched import Batched
from mmfl.train.inputs import Inputs
from mmfl.train.reference import Turn
from mmfl.train.sgd import FusedSgd, Sgd
from support.helpers import one_line

BASE = """
rounds = 2
seed = 3
[clients]
count = 6
[local]
epochs = 2
batch_size = 8
[engine]
kind = "inline"
[[tasks]]
name = "it"
dataset = { kind = "synthetic", classes = 5, shape = [6, 6, 3], train = 120, test = 30 }
partition = { kind = "iid", points = [7, 19] }
"""
MODELS = {
    "cnn": 'model={kind="cnn",channels=[3,5],dense=9}',
    "dropout": 'model={kind="mlp",hidden=[7],dropout=0.3}',
    "resnet": 'model={kind="preact_resnet",width=4,blocks=[1,1]}',
    "mlp": 'model={kind="mlp",hidden=[7,5]}',
}


def experiment(*sets: str) -> Experiment:
    return Experiment.from_toml(BASE, sets=[f"tasks.it.{s}" for s in sets])


def delta(e: Experiment, kernel: str, work: LocalWork, client: int = 2) -> ClientUpdate:
    e = dataclasses.replace(e, kernel=kernel).resolved()
    trainer = Trainer.of(e, {task.name: task.dataset.load(None) for task in e.tasks})
    weights = trainer.initial("it").flat
    job = Job(Address("run", 1, "it", client, 0), 3, work)
    found = trainer.train(job, weights)
    assert isinstance(found, ClientUpdate), found
    return found


def agree(one: ClientUpdate, other: ClientUpdate) -> None:
    a, b = one.delta.flat, other.delta.flat
    assert np.abs(a - b).max() <= 1e-5 * np.abs(a).max() + 5e-7
    assert (one.samples, one.examples) == (other.samples, other.examples)
    assert other.loss_before == pytest.approx(one.loss_before, rel=1e-5)
    assert other.loss_after == pytest.approx(one.loss_after, rel=1e-4)


works = st.builds(
    LocalWork,
    batch_size=st.sampled_from([1, 4, 7, 64]),
    lr=st.sampled_from([0.01, 0.1]),
    steps=st.integers(1, 6),
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 1e-2]),
    remainder=st.sampled_from(["keep", "drop"]),
    clip_norm=st.sampled_from([None, None, 0.3, 50.0]),
    prox=st.sampled_from([0.0, 0.0, 0.5]),
)


@settings(max_examples=25, deadline=None)
@given(
    works,
    st.lists(st.integers(1, 9), max_size=3),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from(["[6, 6, 3]", "[6, 6]", "[11]"]),
)
def test_batched_agrees_with_the_plain_loop(work, hidden, smoothing, shape):
    e = experiment(
        f"model.hidden={hidden}",
        f'loss={{kind="cross_entropy",label_smoothing={smoothing}}}',
        f"dataset.shape={shape}",
    )
    agree(delta(e, "reference", work), delta(e, "batched", work))


sizes = st.lists(st.integers(1, 19), min_size=2, max_size=8)


@given(works, sizes, st.lists(st.integers(1, 90), max_size=2), st.integers(1, 40))
def test_a_client_gets_the_same_bits_in_any_company(work, sizes, hidden, width):
    """Other clients, other sizes of shards, shares of the work: no bit of a client's changes."""
    e = experiment(f"model.hidden={hidden}", f"dataset.shape=[{width}]").resolved()
    data = e.tasks[0].dataset.load(None)
    layout = Trainer.of(e, {"it": data}).initial("it").layout
    inputs = Inputs(data, e.tasks[0].normalize, e.tasks[0].augment)
    first = np.random.default_rng(0).standard_normal(layout.size).astype(np.float32) / 9
    kernel = Batched(layout, inputs, 0.0)
    shares = [1.0, 0.5, 0.7, 1.0]

    def turns():
        return [
            Turn(
                np.arange(k, k + size),
                dataclasses.replace(work, share=shares[k % 4]),
                stream(0, "turn", k),
            )
            for k, size in enumerate(sizes)
        ]

    together = [(w.copy(), r) for w, r in kernel.train(first, turns())]
    for turn, (weights, report) in zip(turns(), together, strict=True):
        ((alone, said),) = [(w.copy(), r) for w, r in kernel.train(first, [turn])]
        assert np.array_equal(weights, alone)
        assert report == said


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fast_agrees_with_the_plain_loop(model, momentum):
    work = LocalWork(batch_size=8, lr=0.05, epochs=2, momentum=momentum, weight_decay=1e-3)
    e = experiment(MODELS[model])
    agree(delta(e, "reference", work), delta(e, "fast", work))


def test_changed_images_are_changed_alike():
    e = experiment("augment={crop=2,flip=true}")
    work = LocalWork(batch_size=8, lr=0.05, epochs=2)
    agree(delta(e, "reference", work), delta(e, "fast", work))


def test_fast_agrees_on_large_shards_and_in_bf16(monkeypatch):
    e, work = experiment(MODELS["cnn"]), LocalWork(batch_size=8, lr=0.05, epochs=2)
    one = delta(e, "fast", work)
    for small in (1900, 10):  # one shard, not even that
        monkeypatch.setattr("mmfl.train.inputs.SMALL", small)
        assert np.array_equal(delta(e, "fast", work).delta.flat, one.delta.flat)
    rough = dataclasses.replace(e, precision="bf16")
    assert np.array_equal(
        delta(rough, "fast", work).delta.flat, delta(rough, "reference", work).delta.flat
    )


@given(
    st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.9]),
    st.sampled_from([0.0, 0.1]),
)
def test_the_fused_step_is_the_plain_step(without, momentum, decay):
    """Also where a parameter has no gradient in some of the steps, or a sparse one."""
    work = LocalWork(batch_size=1, lr=0.1, steps=1, momentum=momentum, weight_decay=decay)
    generator = torch.Generator().manual_seed(0)
    first = [torch.randn(4, 3, generator=generator) for _ in range(3)]
    found = []
    for kind in (Sgd, FusedSgd):
        weights = [w.clone().requires_grad_() for w in first]
        optimizer = kind(weights, work)
        for step, none in enumerate(without):
            optimizer.zero_grad()
            for number, w in enumerate(weights):
                if number != none:
                    w.grad = torch.sin(torch.arange(12.0).view(4, 3) + step + number)
            if kind is FusedSgd and weights[0].grad is not None:
                weights[0].grad = weights[0].grad.to_sparse()
            optimizer.step()
        found.append([w.detach() for w in weights])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "kernel"),
    [
        ("name=it", "batched"),
        ("model.hidden=[]", "batched"),
        (MODELS["cnn"], "fast"),
        (MODELS["dropout"], "fast"),
        ("augment={flip=true}", "fast"),
        ("kernel=reference", "reference"),
    ],
)
def test_auto_is_a_fixed_rule_and_is_written_down(change, kernel):
    e = experiment(change).resolved()
    assert e.kernel_of(e.tasks[0]) == kernel
    assert e.kernel != "auto"
    assert e.resolved() is e
    assert Experiment.from_toml(e.to_toml()) == e
    assert f'kernel = "{kernel}"' in e.to_toml()


def test_auto_in_bf16_is_fast():
    e = dataclasses.replace(experiment(), precision="bf16").resolved()
    assert e.kernel_of(e.tasks[0]) == "fast"


@pytest.mark.parametrize("change", [MODELS["cnn"], MODELS["dropout"]])
def test_batched_is_refused_where_it_does_not_fit(change):
    said = one_line(ConfigError, lambda: experiment(change, "kernel=batched"))
    assert "'it'" in said
    assert '"fast" can train every task' in said


@pytest.mark.parametrize("kernel", ["reference", "fast", "batched"])
def test_whole_runs_agree_and_are_the_same_with_any_number_of_workers(kernel):
    def last(**engine: object) -> mmfl.State:
        e = dataclasses.replace(experiment(), kernel=kernel)
        e = Experiment.from_dict(mmfl.config.dump(e) | {"engine": engine})
        return list(mmfl.rounds(e))[-1][0]

    inline = last(kind="inline")
    assert last(kind="local", workers=2).fingerprint == inline.fingerprint
    plain = list(mmfl.rounds(dataclasses.replace(experiment(), kernel="reference")))[-1][0]
    assert np.allclose(inline.params["it"].flat, plain.params["it"].flat, atol=1e-5)
