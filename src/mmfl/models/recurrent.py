"""The torch side of `gru` and `lstm`; imported when a network is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mmfl.models.sequences import Reader, Sequence

if TYPE_CHECKING:
    from mmfl.models.gru import Gru
    from mmfl.models.lstm import Lstm

__all__ = ["Recurrent"]


class Recurrent(nn.Module):
    """Recurrent layers, dense."""

    def __init__(
        self, kind: type[nn.GRU | nn.LSTM], model: Gru | Lstm, sequence: Sequence, outputs: int
    ) -> None:
        super().__init__()
        self.each, self.width = sequence.each, model.width
        self.read = Reader(sequence, model.width)
        self.layers = kind(
            self.read.width,
            model.width,
            model.layers,
            batch_first=True,
            dropout=model.dropout if model.layers > 1 else 0.0,
            bidirectional=model.bidirectional,
        )
        self.drop = nn.Dropout(model.dropout) if model.dropout else nn.Identity()
        self.last = nn.Linear(model.width * (1 + model.bidirectional), outputs)

    def forward(self, x: Tensor) -> Tensor:
        """N x outputs, or N x outputs x steps."""
        states, _ = self.layers(self.read(x))
        if self.each:
            found: Tensor = self.last(self.drop(states))
            return found.transpose(1, 2)
        width = self.width
        ends = states[:, -1]
        if states.shape[2] > width:
            ends = torch.cat([states[:, -1, :width], states[:, 0, width:]], dim=1)
        return self.last(self.drop(ends))  # type: ignore[no-any-return]
