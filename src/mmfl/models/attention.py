"""The torch side of `transformer`; imported when a network is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from mmfl.models.sequences import Reader, Sequence, mark_tokens

if TYPE_CHECKING:
    from mmfl.models.transformer import Transformer

__all__ = ["Block", "Encoder"]


class Encoder(nn.Module):
    """Embedding and positions, blocks, norm, dense."""

    def __init__(self, model: Transformer, sequence: Sequence, outputs: int) -> None:
        super().__init__()
        self.each, self.padding = sequence.each, sequence.padding
        self.causal = sequence.each if model.causal is None else model.causal
        self.read = Reader(sequence, model.width)
        self.widen = nn.Linear(sequence.features, model.width) if sequence.features else None
        self.positions = nn.Parameter(0.02 * torch.randn(sequence.steps, model.width))
        self.blocks = nn.ModuleList(Block(model, self.causal) for _ in range(model.layers))
        self.norm = nn.LayerNorm(model.width)
        self.last = nn.Linear(model.width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """N x outputs, or N x outputs x steps."""
        real = None if self.padding is None else mark_tokens(x, self.padding)
        x = self.read(x)
        if self.widen is not None:
            x = self.widen(x)
        x = x + self.positions
        for block in self.blocks:
            x = block(x, real)
        x = self.norm(x)
        if self.each:
            found: Tensor = self.last(x)
            return found.transpose(1, 2)
        return self.last(self._summarize(x, real))  # type: ignore[no-any-return]

    def _summarize(self, x: Tensor, real: Tensor | None) -> Tensor:
        """The last place, or the mean of all."""
        if real is None:
            return x[:, -1] if self.causal else x.mean(1)
        counts = real.sum(1)
        if self.causal:
            return x[torch.arange(len(x), device=x.device), counts - 1]
        return (x * real.unsqueeze(2)).sum(1) / counts.unsqueeze(1)


class Block(nn.Module):
    """norm, attention, plus the input; norm, two dense layers, plus their input."""

    def __init__(self, model: Transformer, causal: bool) -> None:
        super().__init__()
        width = model.width
        self.heads, self.causal = model.heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.dense1, self.dense2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(model.dropout) if model.dropout else nn.Identity()

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """N x steps x width, as it came; `real`: which places other places may see."""
        heads = self.attend(self.norm1(x)).unflatten(2, (3, self.heads, -1))  # N x T x 3 x h x d
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        # A causal place does not see the padding, which is behind it.
        mask = None if real is None or self.causal else real[:, None, None]
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=self.causal
        )
        x = x + self.drop(self.join(seen.transpose(1, 2).flatten(2)))
        dense = self.dense2(functional.gelu(self.dense1(self.norm2(x))))
        return x + self.drop(dense)  # type: ignore[no-any-return]
