"""bf16 where the processor has none: operands of products are rounded, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import mmfl
from mmfl import Experiment
from mmfl.train.precision import Rounded, use_precision


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, W, B = normal(5, 8), normal(3, 8, seed=1), normal(3, seed=2)
IMAGE, KERNEL = normal(2, 3, 6, 6), normal(4, 3, 3, 3, seed=1)
PRODUCTS = {
    "linear": (functional.linear, (X, W, B)),
    "conv1d": (functional.conv1d, (IMAGE[..., 0], KERNEL[..., 0], normal(4, seed=3))),
    "conv2d": (functional.conv2d, (IMAGE, KERNEL, normal(4, seed=3))),
    "transposed": (functional.conv_transpose2d, (IMAGE, KERNEL.transpose(0, 1), normal(4, seed=3))),
    "einsum": (lambda a, b: torch.einsum("ij,kj->ik", a, b), (X, W)),
    "reflected": (lambda a, b: b.__rmatmul__(a), (X, W.T)),
    "matmul": (torch.matmul, (X, W.T)),
    "operator": (lambda a, b: a @ b, (X, W.T)),
    "method": (lambda a, b: a.matmul(b), (X, W.T)),
    "mm": (torch.mm, (X, W.T)),
    "bmm": (torch.bmm, (normal(2, 3, 4), normal(2, 4, 5, seed=1))),
    "addmm": (torch.addmm, (B, X, W.T)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_exactly_that_of_rounded_operands(name):
    product, operands = PRODUCTS[name]
    with Rounded():
        found = product(*operands)
    assert found.dtype == torch.float32
    assert torch.equal(found, product(*map(rounded, operands)))
    assert not torch.equal(found, product(*operands))


def test_operands_by_keyword_are_rounded_too():
    with Rounded():
        found = functional.linear(X, weight=W, bias=B)
    assert torch.equal(found, functional.linear(*map(rounded, (X, W, B))))


@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_are_those_of_rounded_operands_and_a_rounded_gradient(name):
    product, operands = PRODUCTS[name]
    ours = [x.clone().requires_grad_() for x in operands]
    with Rounded():
        out = product(*ours)
    outward = normal(*out.shape, seed=9)
    out.backward(outward)
    theirs = [rounded(x).requires_grad_() for x in operands]
    product(*theirs).backward(rounded(outward))
    exact = [x.double().requires_grad_() for x in operands]
    product(*exact).backward(outward.double())
    for one, same, true in zip(ours, theirs, exact, strict=True):
        assert torch.equal(one.grad, same.grad)
        scale = true.grad.abs().max()
        assert (one.grad - true.grad).abs().max() < 2**-6 * scale


NOT_PRODUCTS = {
    "sum": lambda x: x.sum(),
    "times": lambda x: x * x,
    "softmax": lambda x: functional.log_softmax(x, 1),
    "norm": lambda x: functional.layer_norm(x, (8,)),
    "loss": lambda x: functional.mse_loss(x, torch.zeros_like(x)),
}


@pytest.mark.parametrize("name", NOT_PRODUCTS)
def test_anything_else_is_untouched(name):
    plain = NOT_PRODUCTS[name](X)
    with Rounded():
        assert torch.equal(NOT_PRODUCTS[name](X), plain)


def test_other_types_are_untouched():
    with Rounded():
        assert torch.equal(X.double() @ W.T.double(), X.double() @ W.T.double())
        whole = torch.arange(300).reshape(1, 300)
        assert torch.equal(whole @ whole.T, (whole * whole).sum().reshape(1, 1))


def test_it_ends_with_its_block_and_may_be_nested():
    plain = X @ W.T
    with Rounded():
        once = X @ W.T
        with Rounded():
            twice = X @ W.T
        after = X @ W.T
    assert torch.equal(once, twice)
    assert torch.equal(once, after)
    assert torch.equal(X @ W.T, plain)
    assert not torch.equal(once, plain)


def test_without_gradients_it_is_the_same():
    layer = nn.Linear(8, 3)
    with Rounded():
        tracked = layer(X)
        with torch.inference_mode():
            assert torch.equal(layer(X), tracked)
    assert tracked.requires_grad


@pytest.mark.parametrize("native", [True, False])
def test_both_ways_of_computing_agree_to_bfloat16(native, monkeypatch):
    monkeypatch.setattr("mmfl.train.precision.native_bf16", lambda: native)
    layer = nn.Linear(8, 3)
    with torch.no_grad(), use_precision("bf16"):
        found = layer(X).float()
    exact = functional.linear(*map(rounded, (X, layer.weight.detach(), layer.bias.detach())))
    assert (found - exact).abs().max() <= 2**-7 * exact.abs().max()


def test_float32_is_float32():
    with use_precision("float32"):
        assert torch.equal(X @ W.T, torch.mm(X, W.T))


def test_end_to_end_bf16_differs_a_little_and_is_the_same_every_time(small):
    finals = []
    for precision in ("float32", "bf16", "bf16"):
        text = small.to_toml()
        made = Experiment.from_toml(text, sets=[f"precision={precision}"])
        *_, (state, record) = mmfl.rounds(made)
        assert record.failures == ()
        finals.append((state.fingerprint, state.params["image"].flat, record.metric["image"]))
    (_, w32, m32), (one, w16, m16), (again, _, _) = finals
    assert one == again
    assert 0 < abs(w32 - w16).max() < 0.05
    assert abs(m32 - m16) < 0.1
