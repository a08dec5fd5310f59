"""The torch side of `transformer`; imported when a network is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from mmfl.models.sequences import Reader, Sequence

if TYPE_CHECKING:
    from mmfl.models.transformer import Transformer

__all__ = ["Block", "Encoder"]


class Encoder(nn.Module):
    """Embedding and positions, blocks, norm, dense."""

    def __init__(self, model: Transformer, sequence: Sequence, outputs: int) -> None:
        super().__init__()
        self.each = sequence.each
        self.causal = sequence.each if model.causal is None else model.causal
        self.read = Reader(sequence, model.width)
        self.widen = nn.Linear(sequence.features, model.width) if sequence.features else None
        self.positions = nn.Parameter(0.02 * torch.randn(sequence.steps, model.width))
        self.blocks = nn.ModuleList(Block(model, self.causal) for _ in range(model.layers))
        self.norm = nn.LayerNorm(model.width)
        self.last = nn.Linear(model.width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """N x outputs, or N x outputs x steps."""
        x = self.read(x)
        if self.widen is not None:
            x = self.widen(x)
        x = x + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self.each:
            found: Tensor = self.last(x)
            return found.transpose(1, 2)
        return self.last(x[:, -1] if self.causal else x.mean(1))  # type: ignore[no-any-return]


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

    def forward(self, x: Tensor) -> Tensor:
        """N x steps x width, as it came."""
        heads = self.attend(self.norm1(x)).unflatten(2, (3, self.heads, -1))  # N x T x 3 x h x d
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.drop(self.join(seen.transpose(1, 2).flatten(2)))
        dense = self.dense2(functional.gelu(self.dense1(self.norm2(x))))
        return x + self.drop(dense)  # type: ignore[no-any-return]
