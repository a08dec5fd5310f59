"""What "bf16" means: operands of convolutions and matrix products in bfloat16, sums in float32.

On GPUs with CUDA and on processors with bfloat16 instructions this is torch's autocast. On other
processors autocast falls back to code that is ten times slower than float32, so there the same
rounding is done around float32 products: the operands of a product, forwards and backwards, are
rounded to bfloat16, at nearly the speed of float32. Weights, the optimiser and sums over clients
stay float32 or float64 either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Rounded", "native_bf16", "use_precision"]


@cache
def native_bf16() -> bool:
    """Whether this processor's own bfloat16 is faster than float32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def use_precision(precision: str, device: str = "cpu") -> AbstractContextManager[Any]:
    """Within this block a network on that type of device computes in that precision."""
    if precision != "bf16":
        return nullcontext()
    if device == "cuda" or (device == "cpu" and native_bf16()):
        return torch.autocast(device, dtype=torch.bfloat16)
    return Rounded()


class _Operand(torch.autograd.Function):
    """Rounded on the way in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.bfloat16().float()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class _Product(torch.autograd.Function):
    """Its gradient, an operand of the products backwards, is rounded on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].bfloat16().float()


_PRODUCTS: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.nn.functional.linear,
        torch.conv1d,
        torch.conv2d,
        torch.conv3d,
        torch.conv_transpose1d,
        torch.conv_transpose2d,
        torch.conv_transpose3d,
        torch.einsum,
        torch.matmul,
        torch.bmm,
        torch.mm,
        torch.addmm,
        torch.baddbmm,
        Tensor.matmul,
        Tensor.__matmul__,
        Tensor.__rmatmul__,
        Tensor.bmm,
        Tensor.mm,
    }
)


class Rounded(TorchFunctionMode):
    """Rounds the operands of the products in `_PRODUCTS`.

    Composite functions (attention, recurrent layers, `Bilinear`) are one call from outside, and
    compute in float32 here.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """The product of rounded operands; anything else as it is."""
        kwargs = kwargs or {}
        if func not in _PRODUCTS:
            return func(*args, **kwargs)
        product = func(*map(_operand, args), **{k: _operand(v) for k, v in kwargs.items()})
        return _Product.apply(product) if product.requires_grad else product  # type: ignore[no-untyped-call]


def _operand(value: Any) -> Any:
    real = isinstance(value, Tensor) and value.dtype == torch.float32
    return _Operand.apply(value) if real else value  # type: ignore[no-untyped-call]
