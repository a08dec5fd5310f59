"""The torch side of `gru` and `lstm`; imported when a network is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mmfl.models.sequences import Reader, Sequence, mark_tokens

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
        self.each, self.width, self.padding = sequence.each, model.width, sequence.padding
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
        states, ends = self._read(x)
        if self.each:
            found: Tensor = self.last(self.drop(states))
            return found.transpose(1, 2)
        return self.last(self.drop(ends))  # type: ignore[no-any-return]

    def _read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """All states of the last layer, and those at the ends of what is read."""
        width, padding, steps = self.width, self.padding, x.shape[-1]
        if padding is None:
            states, _ = self.layers(self.read(x))
            ends = states[:, -1]
            if states.shape[2] > width:
                ends = torch.cat([states[:, -1, :width], states[:, 0, width:]], dim=1)
            return states, ends
        lengths = mark_tokens(x, padding).sum(1)
        packed = pack_padded_sequence(
            self.read(x), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.layers(packed)
        last = last[0] if isinstance(last, tuple) else last
        ends = torch.cat(list(last[-2:] if self.layers.bidirectional else last[-1:]), dim=1)
        return pad_packed_sequence(states, batch_first=True, total_length=steps)[0], ends
