"""Models of sequences: series and tokens, one answer per sequence or one per place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import mmfl
from mmfl.errors import ConfigError, MmflError
from mmfl.exchange import Shape
from mmfl.models import Cnn1d, Gru, Logistic, Lstm, Mlp, Transformer
from support.helpers import one_line

RNG = np.random.default_rng(0)
SERIES = RNG.normal(size=(160, 8, 3)).astype(np.float32)
TOKENS = RNG.integers(0, 11, (160, 8))
KINDS = ("cnn1d", "gru", "lstm", "transformer")
SMALL = {
    "cnn1d": Cnn1d(channels=(4, 6), dense=8),
    "gru": Gru(width=6),
    "lstm": Lstm(width=6),
    "transformer": Transformer(width=8, heads=2, layers=1),
}


def build(model, shape, outputs=2, **known):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return model.build(Shape(shape, **known), outputs).eval()


def task(name, x, y, model, **keys):
    return mmfl.Task(name, data=(x[:120], y[:120], x[120:], y[120:]), model=model, **keys)


def experiment(*tasks, **changes):
    local = {"batch_size": 8, "epochs": 2, "lr": 0.05}
    return mmfl.Experiment(
        **{"tasks": tasks, "clients": 4, "rounds": 2, "local": local, "engine": "inline"} | changes
    )


def cases(kind):
    """Every kind of data that such a model takes."""
    model = SMALL[kind]
    first = (TOKENS[:, 0] > 5).astype(int)
    mean = SERIES.mean((1, 2))
    yield task(f"{kind}_classes", SERIES, (mean > 0).astype(int), model)
    yield task(f"{kind}_numbers", SERIES, mean, model, loss="mse")
    yield task(f"{kind}_several", SERIES, SERIES.mean(1), model, loss="mse")
    yield task(f"{kind}_one_feature", SERIES[:, :, 0], (SERIES[:, -1, 0] > 0).astype(int), model)
    yield task(f"{kind}_tokens", TOKENS, first, replace(model, vocabulary=20))
    padded = TOKENS * (np.arange(8) < RNG.integers(3, 9, (160, 1)))
    yield task(f"{kind}_padded", padded, first, replace(model, padding=0))
    if kind != "cnn1d":
        yield task(f"{kind}_places", TOKENS, (TOKENS + 1) % 11, model)
        yield task(f"{kind}_series_places", SERIES, (SERIES[:, :, 0] > 0).astype(int), model)


@pytest.fixture(scope="module")
def everything():
    return experiment(*(case for kind in KINDS for case in cases(kind)), clients=30)


@pytest.fixture(scope="module")
def ended(everything):
    return list(mmfl.rounds(everything))


def test_all_data_of_sequences_is_trained_and_evaluated(everything, ended):
    for _, record in ended:
        assert record.failures == ()
        assert all(np.isfinite(record.loss[task.name]) for task in everything.tasks)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_fingerprint_with_any_number_of_workers(workers, everything, ended):
    *_, (state, _) = mmfl.rounds(replace(everything, engine={"workers": workers}))
    assert state.fingerprint == ended[-1][0].fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_loop_agrees_and_bf16_runs(kind):
    fast = experiment(*list(cases(kind))[:1])
    found = {}
    for name, change in {"fast": {}, "plain": {"kernel": "reference"}}.items():
        *_, (state, _) = mmfl.rounds(replace(fast, **change))
        found[name] = state.params[f"{kind}_classes"].flat
    np.testing.assert_allclose(found["fast"], found["plain"], atol=1e-6)
    *_, (_, record) = mmfl.rounds(replace(fast, precision="bf16"))
    assert record.failures == ()


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_recurrent_model_computes_what_torchs_layers_compute(kind):
    module = build(SMALL[kind], (1, 8, 3))
    layer = {"gru": nn.GRU, "lstm": nn.LSTM}[kind](3, 6, batch_first=True)
    layer.load_state_dict(module.layers.state_dict())
    x = torch.from_numpy(SERIES[:5])
    with torch.no_grad():
        assert torch.equal(module(x[:, None]), module.last(layer(x)[0][:, -1]))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_bidirectional_model_reads_both_ends(kind):
    module = build(replace(SMALL[kind], bidirectional=True), (1, 8, 3))
    x = torch.from_numpy(SERIES[:5])[:, None]
    layer = module.layers
    with torch.no_grad():
        *_, ends = layer(module.read(x))
        ends = ends[0] if kind == "lstm" else ends
        assert torch.equal(module(x), module.last(torch.cat(list(ends), dim=1)))


def sees(module, x, place):
    """Which places of the answer change with one place of the examples."""
    other = x.clone()
    other[:, place] = (other[:, place] + 1) % 11
    with torch.no_grad():
        return (module(x) - module(other)).abs().amax((0, 1)).gt(1e-6).tolist()


@pytest.mark.parametrize(
    ("model", "blind"),
    [
        (SMALL["gru"], True),
        (SMALL["transformer"], True),
        (replace(SMALL["transformer"], causal=False), False),
        (replace(SMALL["lstm"], bidirectional=True), False),
    ],
)
def test_a_model_of_next_tokens_does_not_see_them(model, blind):
    module = build(model, (8,), 11, vocabulary=11, places=(8,))
    found = sees(module, torch.from_numpy(TOKENS[:5]), 4)
    assert found == [not blind] * 4 + [True] * 4


@pytest.mark.parametrize("causal", [None, True])
def test_a_transformer_of_one_answer_reads_the_whole_sequence(causal):
    module = build(replace(SMALL["transformer"], causal=causal), (8,), vocabulary=11)
    x = torch.from_numpy(TOKENS[:5])
    with torch.no_grad():
        for place in range(8):
            other = x.clone()
            other[:, place] = (other[:, place] + 1) % 11
            assert not torch.allclose(module(x), module(other), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        *(SMALL[kind] for kind in ("gru", "lstm", "transformer")),
        replace(SMALL["gru"], bidirectional=True, layers=2),
        replace(SMALL["lstm"], bidirectional=True),
        replace(SMALL["transformer"], causal=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("places", [(), (8,)])
def test_padding_is_not_read(model, places):
    module = build(replace(model, padding=0), (8,), 11, vocabulary=11, places=places)
    x = torch.from_numpy(TOKENS[:5]).clamp(min=1)
    x[:, 6:] = 0
    x[1, 3:] = x[2, 0] = 0  # a shorter one, and padding at the start, which is read
    with torch.no_grad():
        padded = module(x)
        assert padded.isfinite().all()
        if module.read.embed is not None:
            assert not module.read.embed.weight[0].any()
            module.read.embed.weight[0] = 7.0  # if it is read, it is seen
        again = module(x)
        alone = [own_length(module, x[k, :n]) for k, n in ((0, 6), (1, 3))]
    for k, n in ((0, 6), (1, 3)):
        places_read = slice(0, n) if places else slice(None)
        torch.testing.assert_close(padded[k, :, places_read] if places else padded[k], alone[k])
        torch.testing.assert_close(again[k, :, places_read] if places else again[k], alone[k])
    module(torch.zeros(2, 8, dtype=torch.int64)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


def own_length(module, x):
    """The answer for one sequence without its padding."""
    whole = getattr(module, "positions", None)
    if whole is not None:
        module.positions = nn.Parameter(whole[: len(x)])
    found = module(x[None])[0]
    if whole is not None:
        module.positions = whole
    return found


def test_logistic_is_a_dense_network_without_hidden_layers():
    y = (SERIES.mean((1, 2)) > 0).astype(int)
    made = experiment(*(task(n, SERIES, y, m) for n, m in (("a", Logistic()), ("b", Mlp(())))))
    resolved = made.resolved()
    assert {resolved.kernel_of(task) for task in resolved.tasks} == {"batched"}
    one, other = (
        list(mmfl.rounds(replace(made, tasks=[task(name, SERIES, y, model)])))[-1][0]
        for name, model in (("a", Logistic()), ("a", Mlp(())))
    )
    assert np.array_equal(one.params["a"].flat, other.params["a"].flat)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_they_learn(kind):
    y = (SERIES[:, :, 0].sum(1) > 0).astype(int)
    made = experiment(task("a", SERIES, y, kind), rounds=15, clients=2)
    *_, (_, record) = mmfl.rounds(made)
    assert record.metric["a"] > 0.8


IMAGES = RNG.normal(size=(160, 8, 8, 3)).astype(np.float32)
LABELS = np.arange(160) % 2
REFUSED = {
    "images": (IMAGES, LABELS, Gru(), "'gru' needs series (steps x features) or tokens, got exam"),
    "places": (SERIES, TOKENS[:, :5] % 2, Lstm(), "one for each of its 8 places, got targets of "),
    "places of cnn1d": (TOKENS, TOKENS, Cnn1d(), "gives one answer per sequence, not one per"),
    "short": (SERIES[:, :3], LABELS, Cnn1d(), "'cnn1d' needs at least 4 steps, got 3"),
    "vocabulary": (
        TOKENS, LABELS, Gru(vocabulary=10),
        "vocabulary must be at least 11, because the data has a token 10, got 10",
    ),
    "padding": (TOKENS, LABELS, Gru(padding=11), "padding must be a token, from 0 to 10, got 11"),
    "padded series": (SERIES, LABELS, Cnn1d(padding=0), "its padding is set, but its examples"),
    "no tokens": (SERIES, LABELS, Gru(vocabulary=10), "its vocabulary is set, but its examples"),
    "negative": (TOKENS - 1, LABELS, Transformer(), "but some are negative, which only your own"),
    "tables": (TOKENS, LABELS, Logistic(), "whole numbers, which only models of sequences (gru,"),
    "heads": (SERIES, LABELS, Transformer(width=9), "width must be a multiple of heads, got width"),
    "huge": (TOKENS + 2**40, LABELS, Gru(), "weights needs about 1.1 PB"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_one_sentence(name):
    x, y, model, rule = REFUSED[name]
    said = one_line(MmflError, lambda: next(mmfl.rounds(experiment(task("a", x, y, model)))))
    assert said.startswith("task 'a': ")
    assert rule in said


def test_an_even_kernel_is_refused():
    toml = 'rounds=1\n[clients]\ncount=1\n[[tasks]]\nname="a"\ndataset="synthetic"\n'
    toml += 'model={kind="cnn1d", kernel=4}'
    assert "kernel must be odd" in one_line(ConfigError, lambda: mmfl.Experiment.from_toml(toml))
