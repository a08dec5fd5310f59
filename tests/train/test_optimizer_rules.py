"""Optimizers: each rule by its formula, FedProx's term and clipping by torch's own means."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from mmfl.exchange import LocalWork
from mmfl.optimizers import OPTIMIZERS, Adam, Sgd
from mmfl.train.optimizers import choose_optimizer, start_optimizer

LR = 0.05


def gradient(w, step):
    return np.sin(3 * w + step)


def adam(w, t, state, *, betas, eps, weight_decay, amsgrad, decoupled=False):
    m, v, most = state.setdefault("s", [0.0, 0.0, 0.0])
    g = gradient(w, t)
    if decoupled:
        w = w * (1 - LR * weight_decay)
    else:
        g = g + weight_decay * w
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    most = np.maximum(most, v)
    state["s"] = [m, v, most]
    second = (most if amsgrad else v) / (1 - betas[1] ** t)
    return w - LR * (m / (1 - betas[0] ** t)) / (np.sqrt(second) + eps)


def adamw(w, t, state, **settings):
    return adam(w, t, state, decoupled=True, **settings)


def nadam(w, t, state, *, betas, eps, weight_decay, momentum_decay):
    m, v, product = state.setdefault("s", [0.0, 0.0, 1.0])
    g = gradient(w, t) + weight_decay * w
    now, then = (betas[0] * (1 - 0.5 * 0.96 ** (n * momentum_decay)) for n in (t, t + 1))
    product *= now
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    state["s"] = [m, v, product]
    ahead = then * m / (1 - product * then) + (1 - now) * g / (1 - product)
    return w - LR * ahead / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def radam(w, t, state, *, betas, eps, weight_decay):
    m, v = state.setdefault("s", [0.0, 0.0])
    g = gradient(w, t) + weight_decay * w
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    state["s"] = [m, v]
    mean, longest = m / (1 - betas[0] ** t), 2 / (1 - betas[1]) - 1
    length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
    if length <= 5:
        return w - LR * mean
    r = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return w - LR * mean * math.sqrt(r) * math.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)


def adamax(w, t, state, *, betas, eps, weight_decay):
    m, u = state.setdefault("s", [0.0, 0.0])
    g = gradient(w, t) + weight_decay * w
    m, u = betas[0] * m + (1 - betas[0]) * g, np.maximum(betas[1] * u, np.abs(g) + eps)
    state["s"] = [m, u]
    return w - LR / (1 - betas[0] ** t) * m / u


def adagrad(w, t, state, *, lr_decay, eps, weight_decay, initial_accumulator_value):
    g = gradient(w, t) + weight_decay * w
    state["s"] = state.get("s", initial_accumulator_value) + g * g
    return w - LR / (1 + (t - 1) * lr_decay) * g / (np.sqrt(state["s"]) + eps)


def adadelta(w, t, state, *, rho, eps, weight_decay):
    v, u = state.setdefault("s", [0.0, 0.0])
    g = gradient(w, t) + weight_decay * w
    v = rho * v + (1 - rho) * g * g
    moved = np.sqrt(u + eps) / np.sqrt(v + eps) * g
    state["s"] = [v, rho * u + (1 - rho) * moved * moved]
    return w - LR * moved


def rmsprop(w, t, state, *, alpha, eps, weight_decay, momentum, centered):
    v, mean, b = state.setdefault("s", [0.0, 0.0, 0.0])
    g = gradient(w, t) + weight_decay * w
    v, mean = alpha * v + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
    b = momentum * b + g / (np.sqrt(v - mean * mean if centered else v) + eps)
    state["s"] = [v, mean, b]
    return w - LR * b


def sgd(w, t, state):
    return w - LR * gradient(w, t)


RULES = {
    "adadelta": (adadelta, {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}),
    "adagrad": (adagrad, {"lr_decay": 0.2, "initial_accumulator_value": 0.1, "weight_decay": 0.1}),
    "adam": (adam, {"betas": [0.8, 0.9], "weight_decay": 0.1, "amsgrad": True}),
    "adamax": (adamax, {"betas": [0.8, 0.9], "weight_decay": 0.1}),
    "adamw": (adamw, {"betas": [0.8, 0.9], "weight_decay": 0.1, "eps": 1e-3}),
    "nadam": (nadam, {"momentum_decay": 0.1, "weight_decay": 0.1}),
    "radam": (radam, {"betas": [0.8, 0.9], "weight_decay": 0.1}),
    "rmsprop": (rmsprop, {"momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "sgd": (sgd, {}),
}


def test_every_optimizer_has_its_rule_here():
    assert RULES.keys() == OPTIMIZERS.table.keys()


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("own", [False, True], ids=["default", "set"])
def test_steps_follow_the_formula(kind, own):
    rule, settings = RULES[kind]
    optimizer = OPTIMIZERS.parse({"kind": kind, **(settings if own else {})})
    first = np.linspace(-1, 1, 7)
    expected, state = first.copy(), {}
    w = nn.Parameter(torch.from_numpy(first.copy()))
    made = optimizer.build([w], LR)
    for t in range(1, 13):
        expected = rule(expected, t, state, **vars(optimizer))
        w.grad = torch.from_numpy(gradient(w.detach().numpy(), t))
        made.step()
        close = 1e-6 if kind == "nadam" else 1e-11  # torch keeps NAdam's products in float32
        assert np.allclose(w.detach().numpy(), expected, rtol=close, atol=close), t


def network(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(2, 2))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("optimizer", [Sgd(), Adam(weight_decay=0.01)], ids=["sgd", "adam"])
@pytest.mark.parametrize("prox", [0.0, 0.7])
@pytest.mark.parametrize("clip", [None, 0.05, 1e9])
def test_prox_and_clipping_are_those_of_the_loss_and_of_torch(optimizer, prox, clip, fused):
    """The term is added to the loss, and torch clips; a layer without a gradient stays."""
    work = LocalWork(8, lr=0.07, steps=1, momentum=0.9, clip_norm=clip, prox=prox)
    ours, theirs = network(), network()
    for model in (ours, theirs):
        model[0].bias.requires_grad_(False)
    start = choose_optimizer(optimizer, fused=fused)
    one = start_optimizer(start, ours.parameters(), work)
    used = [p for p in theirs[:3].parameters() if p.requires_grad]
    first = [p.detach().clone() for p in used]
    other = optimizer.build(used, 0.07)
    if isinstance(optimizer, Sgd):
        other = torch.optim.SGD(used, 0.07, momentum=0.9)
    x = torch.sin(torch.arange(40.0)).view(8, 5)
    for _ in range(8):
        one.zero_grad()
        ours[:3](x).square().mean().backward()
        one.step()
        other.zero_grad()
        away = sum((w - w0).square().sum() for w, w0 in zip(used, first, strict=True))
        (theirs[:3](x).square().mean() + prox / 2 * away).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(used, clip)
        other.step()
    for name, value in theirs.state_dict().items():
        assert torch.allclose(ours.state_dict()[name], value, rtol=1e-5, atol=1e-6), name
    assert torch.equal(ours[3].weight, network()[3].weight)


def test_without_prox_and_clipping_the_optimizer_is_the_bare_one():
    work = LocalWork(8, lr=0.07, steps=1)
    start = choose_optimizer(Sgd(), fused=True)
    assert type(start_optimizer(start, network().parameters(), work)) is start


def test_sparse_gradients_are_made_dense():
    for clip in (None, 1e9):
        work = LocalWork(8, lr=0.07, steps=1, clip_norm=clip)
        tables = [nn.Embedding(4, 2, sparse=sparse) for sparse in (True, False)]
        tables[1].weight.data.copy_(tables[0].weight.data)
        for table in tables:
            optimizer = start_optimizer(
                choose_optimizer(Adam(), fused=True), table.parameters(), work
            )
            table(torch.tensor([1, 3, 3])).square().sum().backward()
            optimizer.step()
        assert torch.equal(tables[0].weight, tables[1].weight)
