"""Series, tokens, truth values and volumes: the same bits with every engine, as models see them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl.errors import EngineError
from mmfl.runs import verify
from support.helpers import one_line

RNG = np.random.default_rng(0)
ROWS = 90
LABELS = np.arange(ROWS) % 3


class Gru(nn.Module):
    """For series, N x steps x features."""

    def __init__(self, shape, outputs):
        super().__init__()
        assert shape == (7, 2)
        self.gru, self.last = nn.GRU(2, 4, batch_first=True), nn.Linear(4, outputs)

    def forward(self, x):
        assert x.shape[1:] == (7, 2)
        return self.last(self.gru(x)[0][:, -1])


class Embed(nn.Module):
    """For tokens, N x places, or N x places x 2."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.shape = tuple(shape)
        self.embed, self.last = nn.Embedding(shape.vocabulary, 4), nn.Linear(4, outputs)

    def forward(self, x):
        assert x.dtype == torch.int64
        assert tuple(x.shape[1:]) == self.shape
        return self.last(self.embed(x.flatten(1)).mean(1))


def dense(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), outputs))


def volumes(shape, outputs):
    assert shape == (2, 3, 4, 5)
    return nn.Sequential(
        nn.Conv3d(2, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(180, outputs)
    )


class Views(nn.Module):
    """A user's own network on volumes, with `view`."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.conv, self.last = nn.Conv3d(shape[0], 3, 3, padding=1), nn.Linear(180, outputs)

    def forward(self, x):
        return self.last(self.conv(x).view(len(x), -1))


SHIFTED = RNG.normal(size=(ROWS, 7, 2)) + LABELS[:, None, None]
KINDS = {
    "series": (
        SHIFTED.astype(np.float32),
        Gru,
        {"normalize": {"kind": "standard", "series": True}},
    ),
    "tokens": (RNG.integers(9, size=(ROWS, 6)), Embed, {}),
    "pairs of tokens": (RNG.integers(9, size=(ROWS, 6, 2)), Embed, {}),
    "truth": (RNG.random((ROWS, 5)) > 0.5, dense, {}),
    "volumes": (RNG.normal(size=(ROWS, 3, 4, 5, 2)).astype(np.float32), volumes, {}),
    "volumes of bytes": (RNG.integers(256, size=(ROWS, 3, 4, 5, 2)).astype(np.uint8), Views, {}),
    "dense on volumes": (
        RNG.integers(256, size=(ROWS, 3, 4, 5, 2)).astype(np.uint8),
        {"kind": "mlp", "hidden": [4]},
        {"normalize": "standard"},
    ),
    "dense on series": (
        SHIFTED.astype(np.float32),
        {"kind": "mlp", "hidden": [4]},
        {"normalize": {"kind": "standard", "series": True}},
    ),
}


def make(*kinds, **changes) -> mmfl.Experiment:
    tasks = []
    for number, kind in enumerate(kinds):
        x, model, settings = KINDS[kind]
        data = x[:70], LABELS[:70], x[70:], LABELS[70:]
        tasks.append(mmfl.Task(f"t{number}", data=data, model=model, **settings))
    same = {"clients": 8, "rounds": 2, "engine": "inline", "allocator": "round_robin"}
    return mmfl.Experiment(tasks=tasks, **same, **changes)


def test_one_fingerprint_with_every_engine(tmp_path):
    made = make(*KINDS)
    found = {}
    for engine in ("inline", {"workers": 1}, {"workers": 2}):
        run = mmfl.run(replace(made, engine=engine), out=tmp_path / str(len(found)))
        assert not run.failed
        found[str(engine)] = run.fingerprint
    assert len(set(found.values())) == 1
    assert not verify(tmp_path / "0").damaged
    for number, (x, _, _) in enumerate(KINDS.values()):
        answers = run.model(f"t{number}", allow_imports=True).predict(x[70:])
        hits = (np.asarray(answers) == LABELS[70:]).mean()
        assert hits == pytest.approx(run.tasks[f"t{number}"]["metric"])


@pytest.mark.parametrize("kind", ["dense on volumes", "dense on series"])
def test_the_kernels_agree_on_what_they_see(kind):
    found = []
    for kernel in ("reference", "fast", "batched"):
        made = make(kind, kernel=kernel)
        *_, (state, _) = mmfl.rounds(made)
        found.append(state.params["t0"].flat)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)


@pytest.mark.parametrize("normalize", [{"kind": "standard", "series": True}, {"kind": "given"}])
def test_features_of_a_series_are_scaled_by_themselves(normalize):
    x = SHIFTED.astype(np.float32) * np.array([1, 1000], np.float32) + 5
    mean, std = x[:70].mean((0, 1)), x[:70].std((0, 1))
    if normalize["kind"] == "given":
        normalize = {"kind": "given", "mean": mean.tolist(), "std": std.tolist()}
    seen = []

    class Look(nn.Linear):
        def forward(self, x):
            seen.append(x.detach().clone())
            return super().forward(x.flatten(1))

    task = mmfl.Task(
        "t",
        data=(x[:70], LABELS[:70], x[70:], LABELS[70:]),
        model=lambda shape, outputs: Look(14, outputs),
        normalize=normalize,
    )
    made = mmfl.Experiment(tasks=[task], clients=1, rounds=1, engine="inline")
    list(mmfl.rounds(made))
    last = (x[70:] - mean) / std
    batch = next(one for one in seen if one.shape == (20, 7, 2))
    np.testing.assert_allclose(np.sort(batch.numpy().ravel()), np.sort(last.ravel()), atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("volumes", {"augment": {"flip": True}}, "augment is for images, not for examples of four"),
        (
            "volumes",
            {"normalize": {"kind": "standard", "series": True}},
            "is for examples of steps x",
        ),
        ("tokens", {"normalize": "standard"}, "whole numbers cannot be scaled"),
        ("tokens", {"model": "cnn"}, "a cnn needs images of at least 4 x 4 pixels"),
        ("volumes", {"model": "cnn"}, "a cnn needs images of at least 4 x 4 pixels"),
        ("volumes", {"model": {"kind": "gru"}}, "needs series (steps x features) or tokens"),
        ("pairs of tokens", {"model": "lstm"}, "needs series (steps x features) or tokens"),
    ],
)
def test_what_does_not_fit_is_one_sentence(kind, settings, words):
    x, model, own = KINDS[kind]
    data = x[:70], LABELS[:70], x[70:], LABELS[70:]
    task = mmfl.Task("t", data=data, **({"model": model} | own | settings))
    made = mmfl.Experiment(tasks=[task], clients=4, rounds=1, engine="inline")
    assert words in one_line(EngineError, lambda: list(mmfl.rounds(made)))
